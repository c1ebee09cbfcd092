"""Decides what becomes of everything that is heard: whose it is, whether it is for the agent, and into which conversation it goes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, Literal

import discord
import structlog

from bot.clock import Clock
from bot.gateway.access import Level, level
from bot.gateway.backend import Backend
from bot.gateway.bindings import Bindings
from bot.gateway.catchup import CatchUp, ClientOf, NotAsked
from bot.gateway.courtesy import say_aside
from bot.gateway.lines import Deleted, Edited, Hidden, Item, Line, Lines, Look
from bot.gateway.reading import Heard, read
from bot.gateway.sender import ms_of
from bot.runtime.ports import Accepted, Incoming
from bot.settings import Settings
from storage.errors import Impossible, StorageError
from storage.models import Conversation

log = structlog.get_logger(__name__)

#: First and longest pause before a catch-up that failed is tried again.
_FIRST_PAUSE_S: Final = 1.0
_LONGEST_PAUSE_S: Final = 60.0
#: More doublings than the longest pause has; a channel may stay unreadable for weeks, and a float has an end.
_DOUBLINGS: Final = 16
_NOT_STORED: Final = "Nightporter cannot store messages at the moment. They stay here and are read again as soon as it can."
_FILES_UNREAD: Final = "-# I see that a file is attached, but I cannot read files yet; the agent is told its name."


def pause_s(failures: int) -> float:
    """How long to wait after so many failed tries, before the next one."""
    return min(_LONGEST_PAUSE_S, _FIRST_PAUSE_S * float(2 ** min(failures, _DOUBLINGS)))


class Intake:
    """What the gateway's events are fed to. It lives as long as the process; clients come and go."""

    def __init__(
        self, settings: Settings, backend: Backend, clock: Clock, client: ClientOf, crashed: Callable[[BaseException], None]
    ) -> None:
        self._settings = settings
        self._backend = backend
        self._clock = clock
        self._client = client
        self._bindings = Bindings(settings, backend, clock, client)
        self._lines = Lines(self._work, crashed)
        self._catch_up = CatchUp(backend, client, self._bindings, self._handle)
        #: Grows with every gateway session that is not a resumed one: whatever came between two sessions has to be fetched.
        self._session = 0

    # --- events, each fed before the first await ---------------------------------------------------------------------------

    def connected(self) -> None:
        """READY, not RESUMED: nothing of what came meanwhile will be sent by itself."""
        self._session += 1

    def hear(self, message: discord.Message, me: int) -> None:
        """A message came."""
        self._feed(read(message, me))

    def hear_edit(self, message: discord.Message, me: int) -> None:
        """A message was updated; without an edit time that is only a link's preview."""
        heard = read(message, me)
        if heard.edited and heard.kind == "person" and self._concerns(heard.channel_id, heard.guild_id, heard.parent_id):
            self._put(heard.channel_id, heard.guild_id, heard.parent_id, Edited(heard))

    def hear_deletion(self, message_id: int, channel_id: int, guild_id: int | None) -> None:
        """A message was deleted."""
        line = self._lines.get(channel_id)
        parent_id = line.parent_id if line is not None else self._bindings.parent_of(channel_id)
        if line is not None or self._concerns(channel_id, guild_id, parent_id):
            self._put(channel_id, guild_id, parent_id, Deleted(message_id))

    def guild_here(self, guild: discord.Guild) -> None:
        """A guild is there (again), or what we may do in it has changed: look what was missed in its channels."""
        if guild.id not in self._settings.discord.guilds:
            return
        for channel_id in self._bindings.in_guild(guild):
            self.channel_here(channel_id, guild.id, None)
        for thread in guild.threads:
            self.channel_here(thread.id, guild.id, thread.parent_id)

    def channel_here(self, channel_id: int, guild_id: int, parent_id: int | None) -> None:
        """The same for one channel or thread; and for what was heard of its threads before, which Discord may not name again."""
        if not self._concerns(channel_id, guild_id, parent_id):
            return
        self._put(channel_id, guild_id, parent_id, Look(anew=True))
        for line in self._lines.of_parent(channel_id):
            self._lines.feed(line, Look(anew=True))

    def guild_gone(self, guild_id: int) -> None:
        """A guild went away: its return may be told only after the first new message in it."""
        for line in self._lines.in_guild(guild_id):
            self._lines.feed(line, Hidden())

    def channel_gone(self, channel_id: int) -> None:
        """The same for one channel with its threads."""
        line = self._lines.get(channel_id)
        for each in (*(() if line is None else (line,)), *self._lines.of_parent(channel_id)):
            self._lines.feed(each, Hidden())

    async def all_here(self) -> None:
        """Every guild that there is has come: look into what is bound and was not among them (archived threads, DMs)."""
        client = self._client()
        for channel_id in () if client is None else self._bindings.missing(client):
            log.warning("discord.channel_not_seen", channel=channel_id, mend="check its id, and that the bot may view it")
        try:
            conversations = await self._backend.bound()
        except StorageError as error:
            log.warning("intake.bound_unread", error=str(error))
            return
        for conversation in conversations:
            line = self._lines.get(conversation.channel_id)
            if line is None or line.session != self._session:
                parent_id = await self._bindings.find_parent(conversation.channel_id)
                if self._concerns(conversation.channel_id, conversation.guild_id, parent_id):
                    self._put(conversation.channel_id, conversation.guild_id, parent_id, Look())

    async def aclose(self) -> None:
        """Stop looking; what is not stored is found again at the next start."""
        await self._lines.aclose()

    def _feed(self, heard: Heard) -> None:
        if self._concerns(heard.channel_id, heard.guild_id, heard.parent_id):
            self._put(heard.channel_id, heard.guild_id, heard.parent_id, heard)

    def _concerns(self, channel_id: int, guild_id: int | None, parent_id: int | None) -> bool:
        if guild_id is not None and guild_id not in self._settings.discord.guilds:
            return False
        return self._bindings.binding(channel_id, parent_id) is not None

    def _put(self, channel_id: int, guild_id: int | None, parent_id: int | None, item: Item) -> None:
        line = self._lines.line(channel_id, guild_id, parent_id)
        self._lines.feed(line, item)

    # --- one by one ------------------------------------------------------------------------------------------------------

    async def _work(self, line: Line) -> None:
        item = line.items.popleft()
        session = self._session
        if isinstance(item, Hidden) or (isinstance(item, Look) and item.anew):
            line.session = 0
        if isinstance(item, Hidden):
            return
        try:
            if isinstance(item, Heard) and item.kind == "own" and item.nonce is not None:
                # A receipt that somebody may be waiting for does not wait for the catch-up.
                await self._backend.echo(item.nonce, item.message_id, item.channel_id)
            if line.session != session and not self._threads_behind(line) and await self._catch_up.run(line):
                line.session = session
            elif line.session != session:
                self._again_later(line)
            await self._one(line, item)
            if not line.items:
                await self._tell_seen(line)
            line.trouble_told = False
            if line.session == session:
                line.failures = 0
                self._let_channel_on(line)
        except Impossible:
            raise
        except StorageError as error:
            log.warning("intake.not_stored", channel=line.channel_id, error=str(error))
            self._lost(line)
            await self._tell_trouble(line, item)
        except NotAsked as error:
            log.warning("intake.not_asked", channel=line.channel_id, error=str(error))
            self._lost(line)

    async def _one(self, line: Line, item: Item) -> None:
        match item:
            case Heard():
                await self._handle(line, item, "live")
            case Edited(heard):
                if heard.text:
                    await self._backend.edited(heard.message_id, heard.text)
                else:
                    await self._backend.deleted(heard.message_id)
            case Deleted(message_id):
                await self._backend.deleted(message_id)
            case Look() | Hidden():
                pass

    async def _handle(self, line: Line, heard: Heard, source: Literal["live", "catch_up"]) -> None:
        """One message, whichever way it came."""
        conversation = await self._for_agent(line, heard)
        if conversation is None:
            line.seen_id = max(line.seen_id, heard.message_id)
            return
        caught_up = source == "live" and self._up_to_date(line)
        result = await self._backend.accept(
            Incoming(
                conversation_id=conversation.id,
                channel_id=heard.channel_id,
                message_id=heard.message_id,
                sent_ms=ms_of(heard.message_id),
                author_id=heard.author_id,
                author_name=heard.author_name,
                text=heard.text,
                addressed=heard.addressed,
                source=source,
                caught_up=caught_up,
                reply_to=heard.reply_to,
            )
        )
        log.info("intake.accepted", conversation=conversation.id, message=heard.message_id, source=source, result=type(result).__name__)
        if heard.files and isinstance(result, Accepted):
            await say_aside(self._client(), heard.channel_id, _FILES_UNREAD, reply_to_id=heard.message_id)

    async def _for_agent(self, line: Line, heard: Heard) -> Conversation | None:
        """The conversation that the message goes into; None if it is not for the agent."""
        if not self._meant(line, heard):
            return None
        caller = heard.caller if heard.caller is not None else await self._catch_up.caller(heard)
        if level(self._settings.access, self._settings.discord.guilds, caller) < Level.MEMBER:
            return None
        # A thread becomes a conversation with the first message in it that is for the agent.
        conversation = await self._bindings.conversation(line, last_seen_id=heard.message_id - 1)
        line.bound = conversation is not None
        return conversation

    def _meant(self, line: Line, heard: Heard) -> bool:
        """Whether it is for the agent, if its author may speak to it."""
        binding = self._bindings.binding(line.channel_id, line.parent_id)
        if heard.kind != "person" or not heard.text or binding is None:
            return False
        return heard.addressed or binding.listen == "all"

    def _threads_behind(self, line: Line) -> bool:
        """Whether one of the channel's threads may hold a message that is not stored.

        Until somebody speaks to the agent there, a thread has no mark but its channel's, so that one must not pass it: whoever is
        killed in between would never look there again.
        """
        threads = (thread for thread in self._lines.of_parent(line.channel_id) if not thread.bound)
        return any(thread.items or thread.task is not None or thread.session != self._session for thread in threads)

    def _up_to_date(self, line: Line) -> bool:
        """Whether everything before a live message of this channel is stored, so that its mark may move."""
        return line.session == self._session and not self._threads_behind(line)

    def _let_channel_on(self, thread: Line) -> None:
        """A thread is read: its channel, which may wait for that, looks again."""
        channel = self._lines.get(thread.parent_id) if thread.parent_id is not None and not thread.items else None
        if channel is not None and channel.session != self._session:
            self._lines.feed(channel, Look())

    async def _tell_seen(self, line: Line) -> None:
        """Move the mark past messages that are no prompts: once for many, since a mark that lags only costs a second look."""
        seen_id, line.seen_id = line.seen_id, 0
        if not seen_id or not self._up_to_date(line):
            return
        conversation = await self._backend.conversation(line.channel_id)
        if conversation is not None and seen_id > conversation.last_seen_id:
            await self._backend.seen(conversation.id, seen_id, "live", caught_up=True)

    # --- trouble ---------------------------------------------------------------------------------------------------------

    def _lost(self, line: Line) -> None:
        """Something was not stored: the mark must not pass it, and the catch-up brings it back."""
        line.session, line.seen_id = 0, 0
        self._again_later(line)

    def _again_later(self, line: Line) -> None:
        if line.retry is not None and not line.retry.done():
            return
        pause = pause_s(line.failures)
        line.failures += 1

        async def again() -> None:
            await self._clock.sleep(pause)
            self._lines.feed(line, Look())

        line.retry = asyncio.create_task(again(), name=f"intake-retry-{line.channel_id}")

    async def _tell_trouble(self, line: Line, item: Item) -> None:
        """One visible line for each outage, to those only who would have been answered."""
        if line.trouble_told or not isinstance(item, Heard) or item.caller is None or not self._meant(line, item):
            return
        if level(self._settings.access, self._settings.discord.guilds, item.caller) >= Level.MEMBER:
            line.trouble_told = True
            await say_aside(self._client(), line.channel_id, _NOT_STORED, reply_to_id=item.message_id)
