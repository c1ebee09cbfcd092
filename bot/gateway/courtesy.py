"""Says something in a channel that no promise is about: no outbox, no receipt, no second try."""

from __future__ import annotations

import asyncio
from typing import Final

import discord
import structlog

from bot.gateway.sender import NETWORK_ERRORS

log = structlog.get_logger(__name__)

_DEADLINE_S: Final = 20.0


async def say_aside(client: discord.Client | None, channel_id: int, text: str, *, reply_to_id: int | None = None) -> bool:
    """Post one message that pings nobody; whether it went out. Failures are logged."""
    if client is None or client.is_closed():
        return False
    channel = client.get_partial_messageable(channel_id)
    try:
        async with asyncio.timeout(_DEADLINE_S):
            if reply_to_id is None:
                await channel.send(text, allowed_mentions=discord.AllowedMentions.none())
            else:
                reference = discord.MessageReference(message_id=reply_to_id, channel_id=channel_id, fail_if_not_exists=False)
                await channel.send(text, reference=reference, allowed_mentions=discord.AllowedMentions.none(), mention_author=False)
    except (discord.DiscordException, *NETWORK_ERRORS, RuntimeError) as error:
        log.info("discord.aside_failed", channel=channel_id, error=repr(error))
        return False
    return True
