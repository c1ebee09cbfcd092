"""Handles the buttons below notices by their custom id, so that they work after a restart too."""

from __future__ import annotations

import re
from typing import Any, Final, Self

import discord
import structlog

from bot.gateway import sentences
from bot.gateway.access import Level, caller_of_interaction, level, person
from bot.gateway.answers import Answer, refuse
from bot.gateway.backend import Backend, Outcome
from bot.runtime.ports import Person
from bot.settings import Settings
from storage.errors import Impossible, StorageError
from storage.events import Refusal
from storage.models import Conversation, ConversationId, RunId

log = structlog.get_logger(__name__)

#: These set the agent to work, so they need a channel that is still bound.
_WORKING: Final = frozenset({"resume", "fresh", "continue", "try-now", "offer-run"})
#: These concern more than the conversation, or go on without proof.
_ADMINS: Final = frozenset({"try-now", "give-up"})
_PATTERN: Final = r"np:(?P<verb>resume|fresh|discard|continue|try-now|give-up|offer-run|offer-discard):(?P<id>[0-9]{1,18})"

#: What was done, for whoever pressed.
_DONE: Final = {
    "resume": "The agent goes on.",
    "fresh": "The agent goes on in a new session.",
    "discard": "It stays as it is.",
    "continue": "The agent goes on with what was waiting.",
    "try-now": "The agent is tried now.",
    "give-up": "It was given up; what waited goes on.",
    "offer-run": "The agent takes it up.",
    "offer-discard": "It was discarded.",
}


class NoticeButton(discord.ui.DynamicItem[discord.ui.Button[Any]], template=_PATTERN):
    """One button: `np:<verb>:<id>`. The id is a run's or a conversation's, so a press needs no memory of the notice."""

    def __init__(self, button: discord.ui.Button[Any], verb: str, subject: int) -> None:
        super().__init__(button)
        self._verb = verb
        self._subject = subject

    @classmethod
    async def from_custom_id(cls, _interaction: discord.Interaction, item: discord.ui.Item[Any], match: re.Match[str], /) -> Self:
        """See `DynamicItem.from_custom_id`."""
        if not isinstance(item, discord.ui.Button):
            raise TypeError(item)
        return cls(item, match["verb"], int(match["id"]))

    async def callback(self, interaction: discord.Interaction) -> None:
        """Acknowledge, act, say; then take the buttons away."""
        await pressed(interaction, self._verb, self._subject)


async def pressed(interaction: discord.Interaction[Any], verb: str, subject: int) -> None:
    """Act on a press."""
    backend: Backend = interaction.client.backend
    settings: Settings = interaction.client.settings
    caller = caller_of_interaction(interaction)
    held = level(settings.access, settings.discord.guilds, caller)
    if held < Level.MEMBER:
        await refuse(interaction, sentences.STRANGER)
        return
    if verb in _ADMINS and held < Level.ADMIN:
        await refuse(interaction, sentences.FOR_ADMINS)
        return
    answer = await Answer.begin(interaction)
    try:
        conversation = await _conversation(backend, verb, subject)
        if conversation is None or conversation.channel_id != interaction.channel_id:
            await answer.say(sentences.GONE)
            return
        if verb in _WORKING and settings.channel(conversation.channel_id, getattr(interaction.channel, "parent_id", None)) is None:
            await answer.say(sentences.NOT_BOUND)
            return
        outcome = await _act(backend, verb, subject, person(caller, held))
    except Impossible:
        # discord.py puts it into the log, and would leave whoever pressed without a word.
        await answer.say(sentences.FAULT)
        raise
    except StorageError as error:
        log.warning("button.not_stored", verb=verb, error=str(error))
        await answer.say(sentences.NO_DATABASE)
        return
    if isinstance(outcome, Refusal):
        await answer.say(sentences.of_button(outcome.code))
    else:
        await answer.say(_DONE[verb])
    await answer.remove_buttons()


async def _conversation(backend: Backend, verb: str, subject: int) -> Conversation | None:
    """The conversation that the button is about; a press in another channel is nobody's button."""
    if verb in {"resume", "fresh", "discard", "give-up"}:
        return await backend.run_conversation(RunId(subject))
    return await backend.conversation_by_id(ConversationId(subject))


async def _act(backend: Backend, verb: str, subject: int, by: Person) -> Outcome | None:
    match verb:
        case "resume":
            return await backend.resume(RunId(subject), by)
        case "fresh":
            return await backend.start_fresh(RunId(subject), by)
        case "continue":
            return await backend.attend(ConversationId(subject), by)
        case "give-up":
            return await backend.give_up(RunId(subject), by)
        case "try-now":
            return await backend.unpark(ConversationId(subject), by)
        case "offer-run" | "offer-discard":
            return await backend.choose(ConversationId(subject), verb == "offer-run", by)
        case _:
            # Discard: an interrupted run has ended; only the question goes away.
            return None


async def answer_unknown(interaction: discord.Interaction) -> None:
    """A press on a button that nobody handles any more would look broken after 3 s: say so instead."""
    data: Any = interaction.data
    if interaction.type is discord.InteractionType.component and re.fullmatch(_PATTERN, str(data.get("custom_id"))) is None:
        await refuse(interaction, sentences.GONE)
