"""Knows which channel belongs to which project, and makes a channel a conversation when its time comes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Final

import discord
import structlog

from bot.clock import Clock
from bot.gateway.backend import Backend
from bot.gateway.lines import Line
from bot.gateway.sender import NETWORK_ERRORS, snowflake_of
from bot.settings import ChannelSettings, Settings
from storage.models import Conversation

log = structlog.get_logger(__name__)

_DEADLINE_S: Final = 20.0


class Bindings:
    """The configured channels, and their threads, which inherit from them."""

    def __init__(self, settings: Settings, backend: Backend, clock: Clock, client: Callable[[], discord.Client | None]) -> None:
        self._settings = settings
        self._backend = backend
        self._clock = clock
        self._client = client
        self._channels = {channel.id: channel for channel in settings.channels}

    def binding(self, channel_id: int, parent_id: int | None) -> ChannelSettings | None:
        """What the config says about a channel, or about the one that a thread belongs to."""
        return self._settings.channel(channel_id, parent_id)

    def in_guild(self, guild: discord.Guild) -> Iterator[int]:
        """The configured channels that are in this guild."""
        return (channel_id for channel_id in self._channels if guild.get_channel_or_thread(channel_id) is not None)

    def missing(self, client: discord.Client) -> tuple[int, ...]:
        """Configured channels that the bot does not see: not there, not shown to it, or a direct message that nobody has begun."""
        return tuple(channel_id for channel_id in self._channels if client.get_channel(channel_id) is None)

    def parent_of(self, channel_id: int) -> int | None:
        """The parent of a thread that the client knows."""
        client = self._client()
        channel = None if client is None else client.get_channel(channel_id)
        return channel.parent_id if isinstance(channel, discord.Thread) else None

    async def find_parent(self, channel_id: int) -> int | None:
        """The parent of any thread, archived ones too."""
        client = self._client()
        if channel_id in self._channels or client is None:
            return None
        if client.get_channel(channel_id) is not None:
            return self.parent_of(channel_id)
        try:
            async with asyncio.timeout(_DEADLINE_S):
                channel = await client.fetch_channel(channel_id)
        except (discord.DiscordException, *NETWORK_ERRORS) as error:
            log.info("discord.channel_unread", channel=channel_id, error=repr(error))
            return None
        return channel.parent_id if isinstance(channel, discord.Thread) else None

    async def conversation(self, line: Line, *, last_seen_id: int) -> Conversation | None:
        """The line's conversation; bound now, beginning after `last_seen_id`, if it is none yet. None: the config does not know it."""
        binding = self.binding(line.channel_id, line.parent_id)
        if binding is None:
            return None
        project = self._settings.project(binding.project)
        folder = str(project.path)
        found = await self._backend.conversation(line.channel_id)
        wanted = (project.name, project.agent, folder, project.shared)
        if found is not None and (found.project, found.agent, found.folder, found.shared) == wanted:
            return found
        bound = await self._backend.bind(
            channel_id=line.channel_id,
            guild_id=line.guild_id,
            project=project.name,
            agent=project.agent,
            folder=folder,
            shared=project.shared,
            last_seen_id=last_seen_id,
        )
        log.info("conversation.bound", conversation=bound.id, channel=line.channel_id, project=bound.project)
        return bound

    def newest(self, line: Line) -> int:
        """Where a channel that is bound for the first time begins: behind its newest message.

        Discord names that message with the channel; without it this machine's clock has to do.
        """
        client = self._client()
        channel = None if client is None else client.get_channel(line.channel_id)
        newest = getattr(channel, "last_message_id", None)
        if newest is not None:
            return int(newest)
        # An empty channel is older than everything that will be in it.
        return channel.id if channel is not None and hasattr(channel, "last_message_id") else snowflake_of(self._clock.now_ms())

    def now_snowflake(self, ago_ms: int) -> int:
        """The id of that time ago, by this machine's clock."""
        return snowflake_of(self._clock.now_ms() - ago_ms)
