"""Fetches what was written while nobody listened: page by page, oldest first, through the same intake as live messages."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, Literal, Protocol

import discord
import structlog

from bot.gateway.access import Caller, caller_of
from bot.gateway.backend import Backend
from bot.gateway.bindings import Bindings
from bot.gateway.lines import Line
from bot.gateway.readable import may_read_back
from bot.gateway.reading import Heard, read
from bot.gateway.sender import NETWORK_ERRORS
from storage.models import Conversation

log = structlog.get_logger(__name__)

ClientOf = Callable[[], discord.Client | None]

#: A page, as Discord gives it (developer docs, Get Channel Messages).
_PAGE: Final = 100
_PAGE_DEADLINE_S: Final = 60.0
#: Channels that are read at the same time.
_AT_ONCE: Final = 4
#: How far back a thread is read in which nobody has spoken to the agent yet.
_UNBOUND_REACH_MS: Final = 7 * 86_400_000


class NotAsked(Exception):
    """Discord could not be asked who somebody is; his message must not be judged now."""


class Handle(Protocol):
    """Intake of one message."""

    async def __call__(self, line: Line, heard: Heard, source: Literal["live", "catch_up"]) -> None:
        """Store it, or look past it."""
        ...


class CatchUp:
    """Runs inside a channel's line, so that live messages of the channel wait for it and for nothing else."""

    def __init__(self, backend: Backend, client: ClientOf, bindings: Bindings, handle: Handle) -> None:
        self._backend = backend
        self._client = client
        self._bindings = bindings
        self._handle = handle
        self._slots = asyncio.Semaphore(_AT_ONCE)
        self._callers: dict[tuple[int, int], Caller] = {}
        self._starting = asyncio.Lock()
        #: Where each channel's mark stood when this process first looked. The mark itself moves with the channel's own catch-up,
        #: which may be done before one of its threads gets its turn, and would pass over what was missed there.
        self._marks: dict[int, int] | None = None
        #: The same for a channel that was none yet: it began then.
        self._began = 0
        #: Up to where a thread was read in which nobody has spoken to the agent yet.
        self._read_to: dict[int, int] = {}

    async def run(self, line: Line) -> bool:
        """Fetch what this channel missed. False: it has to be tried again; what was stored so far stays stored.

        A crash in between: the mark stands behind the last message that was looked at, and the next start goes on there.
        """
        # Roles may have changed since they were last asked for.
        self._callers.clear()
        marks = await self._first_marks()
        async with self._slots:
            conversation = await self._backend.conversation(line.channel_id)
            if conversation is None and line.parent_id is None:
                # Bound for the first time: it begins now.
                await self._bindings.conversation(line, last_seen_id=self._bindings.newest(line))
                return True
            line.bound = conversation is not None
            after = self._unbound_mark(line, marks) if conversation is None else conversation.last_seen_id
            if conversation is not None:
                # The config may bind it to another project than before.
                await self._bindings.conversation(line, last_seen_id=conversation.last_seen_id)
            read_to = await self._walk(line, after)
            if read_to is None:
                return False
        found = await self._backend.conversation(line.channel_id)
        if found is None:
            self._read_to[line.channel_id] = read_to
        else:
            await self._backend.caught_up(found.id)
        return True

    async def _first_marks(self) -> dict[int, int]:
        async with self._starting:
            if self._marks is None:
                bound = await self._backend.bound()
                self._began = self._bindings.now_snowflake(0)
                self._marks = {conversation.channel_id: conversation.last_seen_id for conversation in bound}
            return self._marks

    def _unbound_mark(self, line: Line, marks: dict[int, int]) -> int:
        """A thread without a conversation: what came after its parent was last looked at may have been missed in it."""
        parent = marks.get(line.parent_id or 0, self._began)
        read_to = self._read_to.get(line.channel_id, 0)
        return max(parent, read_to, line.channel_id - 1, self._bindings.now_snowflake(_UNBOUND_REACH_MS))

    async def _walk(self, line: Line, after: int) -> int | None:
        """Read to the end and return the last message there; None if Discord could not be asked for all of it."""
        count = 0
        while True:
            page = await self._page(line, after)
            if page is None:
                return None
            for message, heard in page:
                await self._handle(line, heard, "catch_up")
                after = message.id
            count += len(page)
            await self._tell_seen(line)
            if len(page) < _PAGE:
                break
        if count:
            log.info("catch_up.done", channel=line.channel_id, messages=count)
        return after

    async def _page(self, line: Line, after: int) -> list[tuple[discord.Message, Heard]] | None:
        """The next messages, oldest first; None if Discord cannot be asked, or does not show them, now. A channel that is gone has none."""
        client = self._client()
        if client is None or client.user is None or client.is_closed():
            return None
        cached = client.get_channel(line.channel_id)
        if isinstance(cached, discord.TextChannel | discord.Thread | discord.VoiceChannel | discord.StageChannel | discord.DMChannel):
            channel: discord.abc.Messageable = cached
        else:
            guild_id = line.guild_id
            channel = client.get_partial_messageable(line.channel_id, guild_id=guild_id)
        me = client.user.id
        try:
            async with asyncio.timeout(_PAGE_DEADLINE_S):
                if not await may_read_back(client, line.channel_id):
                    _denied(line, "the bot may not read its history")
                    return None
                history = channel.history(limit=_PAGE, after=discord.Object(after), oldest_first=True)
                return [(message, read(message, me)) async for message in history]
        except discord.Forbidden as error:
            _denied(line, str(error))
            return None
        except discord.NotFound as error:
            log.info("catch_up.gone", channel=line.channel_id, error=str(error))
            return []
        except (discord.DiscordException, *NETWORK_ERRORS, RuntimeError) as error:
            log.warning("catch_up.failed", channel=line.channel_id, error=repr(error))
            return None

    async def _tell_seen(self, line: Line) -> None:
        """Move the mark past what was no prompt, once for each page."""
        seen_id, line.seen_id = line.seen_id, 0
        conversation: Conversation | None = await self._backend.conversation(line.channel_id) if seen_id else None
        if conversation is not None and seen_id > conversation.last_seen_id:
            await self._backend.seen(conversation.id, seen_id, "catch_up", caught_up=False)

    async def caller(self, heard: Heard) -> Caller:
        """The author of a message from history, with the roles he has now; somebody who has left the guild has none.

        Raises:
            NotAsked: see there.
        """
        if heard.guild_id is None:
            return Caller(heard.author_id, heard.author_name, None)
        key = (heard.guild_id, heard.author_id)
        if key not in self._callers:
            self._callers[key] = await self._fetch(heard.guild_id, heard)
        return self._callers[key]

    async def _fetch(self, guild_id: int, heard: Heard) -> Caller:
        client = self._client()
        guild = None if client is None else client.get_guild(guild_id)
        if guild is None:
            raise NotAsked("the guild is not known at the moment")
        try:
            async with asyncio.timeout(_PAGE_DEADLINE_S):
                return caller_of(await guild.fetch_member(heard.author_id))
        except discord.NotFound:
            return Caller(heard.author_id, heard.author_name, guild_id)
        except (discord.DiscordException, *NETWORK_ERRORS, RuntimeError) as error:
            raise NotAsked(repr(error)) from error


def _denied(line: Line, error: str) -> None:
    """What may not be read may be allowed later, and then what was missed counts: the mark stays before it. Said once."""
    if not line.failures:
        log.warning("catch_up.denied", channel=line.channel_id, error=error, mend="give the bot Read Message History there")
