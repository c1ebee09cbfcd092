"""Shows what the agent waits for, and lets people cancel it or have it now."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import discord
from discord import app_commands
from discord.ext import commands

from bot.gateway import sentences
from bot.gateway.answers import Answer
from bot.gateway.backend import Outcome
from bot.runtime.ports import Person
from cogs.common import Interaction, authorise, choices, here, joined, parse_id, safe, who
from storage.events import Refusal
from storage.models import Continuation, ContinuationId, Conversation
from storage.states import ContinuationState

if TYPE_CHECKING:
    from bot.gateway.bot import NightporterBot

_REASON_LIMIT = 200
#: What a state means to a person.
_STATES = {
    ContinuationState.REQUESTED: "asked for; counts once the turn has ended well",
    ContinuationState.PENDING: "waiting",
    ContinuationState.CLAIMED: "due; its turn comes next",
}


@app_commands.guild_only()
class Continuations(commands.GroupCog, group_name="continuations", group_description="What the agent waits for"):
    """Members see and change what they began and see what is in their channel; admins everything of the guild."""

    def __init__(self, bot: NightporterBot) -> None:
        self._bot = bot

    @app_commands.command(name="list", description="Show what the agent waits for, and when it wakes")
    async def show(self, interaction: Interaction) -> None:
        """Who, where, from what, why and when."""
        by = await authorise(interaction)
        if by is None:
            return
        answer = await Answer.begin(interaction)
        found = await self._visible(interaction, by)
        if not found:
            await answer.say("Nothing is waiting.", in_channel=None)
            return
        lines = [await self._line(continuation, conversation) for continuation, conversation in found]
        embed = discord.Embed(title="What the agent waits for", description=joined(lines), colour=discord.Colour.blurple())
        embed.set_footer(text="/continuations cancel or wake, with the id")
        # Not everybody in the channel may see what waits in other channels.
        await answer.say("", embed=embed, in_channel="that took too long to show; please ask again.")

    @app_commands.command(name="cancel", description="Cancel a wait: the agent is not woken, and is told so")
    @app_commands.rename(wait="id")
    @app_commands.describe(wait="The wait, such as c17")
    async def cancel(self, interaction: Interaction, wait: str) -> None:
        """Members only what they began."""
        await self._change(interaction, wait, self._bot.backend.cancel, "is cancelled; it will not wake the agent.")

    @app_commands.command(name="wake", description="Wake the agent now instead of later")
    @app_commands.rename(wait="id")
    @app_commands.describe(wait="The wait, such as c17")
    async def wake(self, interaction: Interaction, wait: str) -> None:
        """Members only what they began."""
        await self._change(interaction, wait, self._bot.backend.wake_now, "is due now; the agent is woken next.")

    @cancel.autocomplete("wait")
    @wake.autocomplete("wait")
    async def complete(self, interaction: Interaction, typed: str) -> list[app_commands.Choice[str]]:
        """The waits that the person may change, by id or words of the reason."""
        by = who(interaction)
        if by is None:
            return []
        mine = [c for c, _ in await self._visible(interaction, by) if by.admin or c.began_by == by.id]
        named = [(f"c{c.id}", f"c{c.id} · {_clock(c.due_at_ms)} · {c.reason}") for c in mine]
        return choices([(value, name) for value, name in named if typed.lower() in name.lower()])

    async def _change(
        self, interaction: Interaction, typed: str, change: Callable[[ContinuationId, Person], Awaitable[Outcome]], done: str
    ) -> None:
        by = await authorise(interaction)
        if by is None:
            return
        answer = await Answer.begin(interaction)
        found = await self._find(interaction, typed)
        if found is None:
            await answer.say(sentences.NO_CONTINUATION)
            return
        outcome = await change(found.id, by)
        await answer.say(sentences.of_continuation(outcome.code) if isinstance(outcome, Refusal) else f"c{found.id} {done}")

    async def _visible(self, interaction: Interaction, by: Person) -> list[tuple[Continuation, Conversation]]:
        if interaction.guild_id is None:
            return []
        current = await here(interaction)
        found: list[tuple[Continuation, Conversation]] = []
        for continuation in await self._bot.backend.live_continuations(interaction.guild_id):
            conversation = await self._bot.backend.conversation_by_id(continuation.conversation_id)
            in_channel = current is not None and continuation.conversation_id == current.id
            if conversation is not None and (by.admin or in_channel or continuation.began_by == by.id):
                found.append((continuation, conversation))
        return found

    async def _find(self, interaction: Interaction, typed: str) -> Continuation | None:
        """The wait with that id, if it is of this guild; what is elsewhere does not exist here."""
        number = parse_id(typed, "c")
        found = None if number is None else await self._bot.backend.continuation(ContinuationId(number))
        conversation = None if found is None else await self._bot.backend.conversation_by_id(found.conversation_id)
        return found if conversation is not None and conversation.guild_id == interaction.guild_id else None

    async def _line(self, continuation: Continuation, conversation: Conversation) -> str:
        due = continuation.due_at_ms // 1_000
        origin = await self._bot.backend.origin_message(continuation.origin_run_id)
        link = f"https://discord.com/channels/{conversation.guild_id}/{conversation.channel_id}/{origin}"
        source = f"[turn r{continuation.origin_run_id}]({link})" if origin is not None else f"turn r{continuation.origin_run_id}"
        state = _STATES.get(continuation.state, continuation.state.value)
        return (
            f"**c{continuation.id}** <t:{due}:R> (<t:{due}:t>) · {state}\n"
            f"<@{continuation.began_by}> in <#{conversation.channel_id}>, from {source}\n"
            f"> {safe(continuation.reason, _REASON_LIMIT)}"
        )


def _clock(ms: int) -> str:
    """A time for a completion, where Discord shows no relative times."""
    return datetime.fromtimestamp(ms / 1_000, UTC).strftime("%d %b %H:%MZ")


async def setup(bot: NightporterBot) -> None:
    """For `load_extension`."""
    await bot.add_cog(Continuations(bot))
