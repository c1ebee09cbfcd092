"""What all cogs share: who asks, which conversation it is about, how ids are written."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, cast

import discord
from discord import app_commands

from bot.gateway import sentences
from bot.gateway.access import Level, caller_of_interaction, level, person
from bot.gateway.answers import Answer, refuse
from bot.runtime.ports import Person
from storage.models import Conversation

if TYPE_CHECKING:
    from bot.gateway.bot import NightporterBot

    Interaction = discord.Interaction[NightporterBot]
else:
    # discord.py evaluates the annotations of commands.
    Interaction = discord.Interaction

#: Discord's limits (developer docs, Application Commands and Embed Limits).
CHOICES: Final = 25
CHOICE_NAME: Final = 100
EMBED_TEXT: Final = 4_096


def bot_of(interaction: discord.Interaction[Any]) -> NightporterBot:
    """The client that an interaction came to."""
    return cast("NightporterBot", interaction.client)


def who(interaction: discord.Interaction[Any]) -> Person | None:
    """Whoever asks; None for a stranger."""
    settings = bot_of(interaction).settings
    caller = caller_of_interaction(interaction)
    held = level(settings.access, settings.discord.guilds, caller)
    return None if held < Level.MEMBER else person(caller, held)


async def authorise(interaction: discord.Interaction[Any]) -> Person | None:
    """Whoever asks; a stranger gets his one sentence and None is returned."""
    by = who(interaction)
    if by is None:
        await refuse(interaction, sentences.STRANGER)
    return by


async def here(interaction: discord.Interaction[Any]) -> Conversation | None:
    """The conversation of the channel in which the command was given."""
    channel_id = interaction.channel_id
    return None if channel_id is None else await bot_of(interaction).backend.conversation(channel_id)


async def here_or_say(interaction: discord.Interaction[Any], answer: Answer) -> Conversation | None:
    """The same; where there is none, that is said."""
    conversation = await here(interaction)
    if conversation is None:
        parent_id = getattr(interaction.channel, "parent_id", None)
        bound = bot_of(interaction).settings.channel(interaction.channel_id or 0, parent_id) is not None
        await answer.say(sentences.NOT_BOUND_YET if bound else sentences.NOT_BOUND)
    return conversation


def parse_id(text: str, letter: str) -> int | None:
    """The number in an id such as c17; the letter may be left out. None if it is no id."""
    found = re.fullmatch(rf"\s*{letter}?([0-9]{{1,18}})\s*", text, re.IGNORECASE)
    return int(found[1]) if found else None


def shorten(text: str, limit: int) -> str:
    """One line of at most `limit` characters."""
    line = " ".join(text.split())
    return line if len(line) <= limit else f"{line[: limit - 1]}…"


def safe(text: str, limit: int) -> str:
    """One line of somebody's words inside our own: formatting shows as it was written."""
    return discord.utils.escape_markdown(shorten(text, limit))


def joined(lines: list[str], limit: int = EMBED_TEXT) -> str:
    """As many lines as fit, and how many do not."""
    shown: list[str] = []
    used = 0
    for index, line in enumerate(lines):
        used += len(line) + 1
        if used > limit - 40:
            return "\n".join([*shown, f"… and {len(lines) - index} more"])
        shown.append(line)
    return "\n".join(shown)


def choices(named: list[tuple[str, str]]) -> list[app_commands.Choice[str]]:
    """Completions of an option: value and what is shown for it."""
    return [app_commands.Choice(name=shorten(name, CHOICE_NAME), value=value) for value, name in named[:CHOICES]]
