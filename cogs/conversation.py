"""Commands about the conversation in this channel: what goes on, stop, begin anew, and the queue."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import discord
from discord import app_commands
from discord.ext import commands

from bot.gateway import sentences
from bot.gateway.answers import Answer
from bot.gateway.status_embed import describe
from cogs.common import Interaction, authorise, choices, here, here_or_say, joined, parse_id, safe, who
from storage.events import Refusal
from storage.models import Prompt, PromptId, PromptKind

if TYPE_CHECKING:
    from bot.gateway.bot import NightporterBot

_TEXT_LIMIT: Final = 120
_KINDS: Final = {PromptKind.USER: "", PromptKind.RESUME: "resume · ", PromptKind.WAKE: "wake · ", PromptKind.EVENT: "event · "}
_HELP: Final = """\
Mention the bot (or reply to it) to speak to the agent. 👀 means that your message is stored. Several messages are answered in order. \
An edit counts as long as the message waits; a deletion takes it back. A thread is a conversation of its own.

`/status` what goes on here
`/queue list`, `/queue remove` what waits for the agent
`/stop` end the agent's turn and all that waits here
`/reset` the same, and begin a new session
`/continuations list`, `cancel`, `wake` what the agent waits for

Members can end what they began themselves; admins everything."""


class ConversationCommands(commands.Cog, name="Conversation"):
    """Each acknowledges, calls the runtime, and says what came of it to the person alone."""

    queue = app_commands.Group(name="queue", description="What waits for the agent in this channel", guild_only=True)

    def __init__(self, bot: NightporterBot) -> None:
        self._bot = bot

    @app_commands.guild_only()
    @app_commands.command(name="status", description="Show what goes on in this channel")
    async def status(self, interaction: Interaction) -> None:
        """The run, the queue, the wait, what is not sent yet, and the last turns."""
        if await authorise(interaction) is None:
            return
        answer = await Answer.begin(interaction)
        conversation = await here_or_say(interaction, answer)
        if conversation is not None:
            embed = describe(await self._bot.backend.status(conversation.id))
            await answer.say("", embed=embed, in_channel="that took too long to show; please ask again.")

    @app_commands.guild_only()
    @app_commands.command(name="stop", description="End the agent's turn, and everything that waits in this channel")
    async def stop(self, interaction: Interaction) -> None:
        """Messages written after the command are kept: its snowflake draws the line."""
        await self._end(interaction, reset=False)

    @app_commands.guild_only()
    @app_commands.command(name="reset", description="Stop, and begin a new session without the memory of this one")
    async def reset(self, interaction: Interaction) -> None:
        """The same, and the provider session ends."""
        await self._end(interaction, reset=True)

    async def _end(self, interaction: Interaction, *, reset: bool) -> None:
        by = await authorise(interaction)
        if by is None:
            return
        answer = await Answer.begin(interaction)
        conversation = await here_or_say(interaction, answer)
        if conversation is None:
            return
        outcome = await self._bot.backend.stop_conversation(conversation.id, stop_id=interaction.id, by=by, reset=reset)
        if isinstance(outcome, Refusal):
            await answer.say(sentences.of_stop(outcome.code))
        elif reset:
            await answer.say("Stopped. The next message begins a new session.")
        else:
            await answer.say("Stopped. The agent's turn ends, and nothing that waited here will run.")

    @queue.command(name="list", description="Show what waits for the agent in this channel")
    async def queue_list(self, interaction: Interaction) -> None:
        """In the order in which it will be taken."""
        if await authorise(interaction) is None:
            return
        answer = await Answer.begin(interaction)
        conversation = await here_or_say(interaction, answer)
        if conversation is None:
            return
        waiting = await self._bot.backend.waiting(conversation.id)
        if not waiting:
            await answer.say("Nothing waits for the agent.", in_channel=None)
            return
        lines = [_line(prompt) for prompt in waiting]
        embed = discord.Embed(title="What waits for the agent", description=joined(lines), colour=discord.Colour.blurple())
        await answer.say("", embed=embed, in_channel="that took too long to show; please ask again.")

    @queue.command(name="remove", description="Take a message that still waits out of the queue")
    @app_commands.rename(prompt="id")
    @app_commands.describe(prompt="The message, such as p12")
    async def queue_remove(self, interaction: Interaction, prompt: str) -> None:
        """Removing a wake cancels its wait."""
        by = await authorise(interaction)
        if by is None:
            return
        answer = await Answer.begin(interaction)
        conversation = await here_or_say(interaction, answer)
        if conversation is None:
            return
        number = parse_id(prompt, "p")
        found = None if number is None else await self._bot.backend.prompt(PromptId(number))
        if found is None or found.conversation_id != conversation.id:
            await answer.say(sentences.NO_PROMPT)
            return
        outcome = await self._bot.backend.remove_prompt(found.id, by)
        await answer.say(sentences.of_prompt(outcome.code) if isinstance(outcome, Refusal) else f"p{found.id} is out of the queue.")

    @queue_remove.autocomplete("prompt")
    async def complete(self, interaction: Interaction, typed: str) -> list[app_commands.Choice[str]]:
        """The waiting prompts that the person may remove."""
        by, conversation = who(interaction), await here(interaction)
        if by is None or conversation is None:
            return []
        mine = [p for p in await self._bot.backend.waiting(conversation.id) if by.admin or p.author_id == by.id]
        named = [(f"p{p.id}", f"p{p.id} · {p.author_name or p.kind.value} · {p.text}") for p in mine]
        return choices([(value, name) for value, name in named if typed.lower() in name.lower()])

    @app_commands.guild_only()
    @app_commands.command(name="help", description="How to work with the agent")
    async def help(self, interaction: Interaction) -> None:
        """The same for everybody who may use it."""
        if await authorise(interaction) is None:
            return
        answer = await Answer.begin(interaction)
        await answer.say("", embed=discord.Embed(description=_HELP, colour=discord.Colour.blurple()), in_channel=_HELP)


def _line(prompt: Prompt) -> str:
    when = f"<t:{prompt.created_ms // 1_000}:R>"
    return f"**p{prompt.id}** {_KINDS[prompt.kind]}<@{prompt.author_id}> {when}: {safe(prompt.text, _TEXT_LIMIT)}"


async def setup(bot: NightporterBot) -> None:
    """For `load_extension`."""
    await bot.add_cog(ConversationCommands(bot))
