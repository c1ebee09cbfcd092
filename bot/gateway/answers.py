"""Answers an interaction: acknowledge first, act whatever became of that, then say what came of it."""

from __future__ import annotations

import asyncio
from typing import Any, Final

import discord
import structlog

from bot.gateway.courtesy import say_aside
from bot.gateway.sender import NETWORK_ERRORS

log = structlog.get_logger(__name__)

#: Discord takes the first answer within 3 s (developer docs, Receiving and Responding).
_ACK_DEADLINE_S: Final = 2.5
_SAY_DEADLINE_S: Final = 20.0
_FAILURES: Final = (discord.DiscordException, *NETWORK_ERRORS, RuntimeError)


class Answer:
    """The answer to one interaction; only its author sees it, unless the acknowledgement failed."""

    def __init__(self, interaction: discord.Interaction[Any]) -> None:
        self._interaction = interaction
        self._pressed = interaction.type is discord.InteractionType.component
        self._acked = False

    @classmethod
    async def begin(cls, interaction: discord.Interaction[Any]) -> Answer:
        """Acknowledge. A failure (too late, acknowledged by somebody else, Discord's own) is no reason not to act: see `say`."""
        answer = cls(interaction)
        try:
            async with asyncio.timeout(_ACK_DEADLINE_S):
                # A button's message stays as it is; a command shows that it works.
                await interaction.response.defer(ephemeral=not answer._pressed, thinking=not answer._pressed)
        except _FAILURES as error:
            log.warning("interaction.not_acknowledged", interaction=interaction.id, error=repr(error))
        else:
            answer._acked = True
        return answer

    async def say(self, text: str, *, embed: discord.Embed | None = None, in_channel: str | None = "") -> None:
        """Say the outcome. Where it cannot be said in private it is an ordinary message in the channel.

        `in_channel` is what that message says: empty for the same text, None for nothing (what not everybody there may read).
        """
        if self._acked and await self._say_privately(text, embed):
            return
        public = text if in_channel == "" else in_channel
        if public is not None and self._interaction.channel_id is not None:
            name = self._interaction.user.display_name
            await say_aside(self._interaction.client, self._interaction.channel_id, f"{name}: {public}")

    async def _say_privately(self, text: str, embed: discord.Embed | None) -> bool:
        mute = discord.AllowedMentions.none()
        embeds = [] if embed is None else [embed]
        try:
            async with asyncio.timeout(_SAY_DEADLINE_S):
                if self._pressed:
                    await self._interaction.followup.send(text, embeds=embeds, ephemeral=True, allowed_mentions=mute)
                else:
                    await self._interaction.edit_original_response(content=text or None, embeds=embeds, allowed_mentions=mute)
        except _FAILURES as error:
            log.warning("interaction.not_answered", interaction=self._interaction.id, error=repr(error))
            return False
        return True

    async def remove_buttons(self) -> None:
        """Take the buttons off the message that was pressed, as they have done their work; if it cannot be, they answer again."""
        message = self._interaction.message
        if message is None:
            return
        try:
            async with asyncio.timeout(_SAY_DEADLINE_S):
                if self._acked:
                    await self._interaction.edit_original_response(view=None)
                else:
                    await message.edit(view=None)
        except _FAILURES as error:
            log.info("interaction.buttons_stay", message=message.id, error=repr(error))


async def refuse(interaction: discord.Interaction[Any], sentence: str) -> bool:
    """Answer at once with one sentence that only the author sees; whether that went through."""
    try:
        async with asyncio.timeout(_ACK_DEADLINE_S):
            if interaction.response.is_done():
                await interaction.followup.send(sentence, ephemeral=True, allowed_mentions=discord.AllowedMentions.none())
            else:
                await interaction.response.send_message(sentence, ephemeral=True, allowed_mentions=discord.AllowedMentions.none())
    except _FAILURES as error:
        log.info("interaction.not_refused", interaction=interaction.id, error=repr(error))
        return False
    return True
