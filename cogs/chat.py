"""Hands messages, edits and deletions to intake, in the order in which Discord sent them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import discord
from discord.ext import commands

if TYPE_CHECKING:
    from bot.gateway.bot import NightporterBot


class Chat(commands.Cog):
    """The eyes below a stored message and the typing sign come from the runtime, which knows when they are true."""

    def __init__(self, bot: NightporterBot) -> None:
        self._bot = bot

    @commands.Cog.listener()
    async def on_message(self, message: discord.Message) -> None:
        """Nothing is awaited: every event is a task of its own, and only their beginnings are in order."""
        if self._bot.user is not None:
            self._bot.intake.hear(message, self._bot.user.id)

    @commands.Cog.listener()
    async def on_raw_message_edit(self, payload: discord.RawMessageUpdateEvent) -> None:
        """See `on_message`; the raw event, since no messages are cached."""
        if self._bot.user is not None:
            self._bot.intake.hear_edit(payload.message, self._bot.user.id)

    @commands.Cog.listener()
    async def on_raw_message_delete(self, payload: discord.RawMessageDeleteEvent) -> None:
        """See `on_message`."""
        self._bot.intake.hear_deletion(payload.message_id, payload.channel_id, payload.guild_id)

    @commands.Cog.listener()
    async def on_raw_bulk_message_delete(self, payload: discord.RawBulkMessageDeleteEvent) -> None:
        """See `on_message`."""
        for message_id in sorted(payload.message_ids):
            self._bot.intake.hear_deletion(message_id, payload.channel_id, payload.guild_id)


async def setup(bot: NightporterBot) -> None:
    """For `load_extension`."""
    await bot.add_cog(Chat(bot))
