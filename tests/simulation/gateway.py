"""One life's connection to Discord: live events in order, catch-up, replays, and what is lost while it is away.

It keeps the rules of `bot.gateway.intake`, with the same lines, but on Discord's double: a channel's items are looked at one by
one; a new session begins with catch-up from the stored mark; what could not be stored is fetched again later.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Literal

from bot.clock import Clock
from bot.gateway.lines import Line, Lines
from bot.loopback.discord import Record
from bot.loopback.discord.timing import snowflake_ms
from bot.runtime.ports import Accepted, Incoming, Offered, Refused
from bot.runtime.runtime import Runtime
from storage.errors import Impossible, StorageError
from storage.models import Conversation
from tests.simulation.discord import Discord, Said, Wire

#: In place of a record: nothing came, but what was missed has to be fetched.
LOOK = None


class Gateway:
    """Feeds the runtime; `connect` and `lose` as often as one likes."""

    def __init__(self, discord: Discord, wire: Wire, runtime: Runtime, clock: Clock, crashed: Callable[[BaseException], None]) -> None:
        self._discord = discord
        self._wire = wire
        self._runtime = runtime
        self._clock = clock
        self._lines = Lines(self._work, crashed)
        self._session = 0
        #: What came while the connection was away and will be replayed, if it is resumed.
        self._missed: list[Record] = []
        self._rooms: dict[int, Conversation] = {}
        self._all: dict[int, Line] = {}
        #: Messages that were called stored.
        self.acknowledged: set[int] = set()

    def bind(self, conversation: Conversation) -> None:
        self._rooms[conversation.channel_id] = conversation

    @property
    def idle(self) -> bool:
        return all(line.task is None and (line.retry is None or line.retry.done()) for line in self._all.values())

    def _unreadable(self) -> bool:
        return self._away or self._discord.chance(self._discord.weather.unreadable)

    @property
    def _away(self) -> bool:
        return not self._wire.ready

    def connect(self) -> None:
        """A new session: nothing of what came meanwhile comes by itself."""
        self._session += 1
        self._missed.clear()
        self._wire.ready = True
        for channel_id in self._rooms:
            self._feed(channel_id, LOOK)

    def resume(self) -> None:
        """The same session: everything since is replayed, and a little of what came before it once more."""
        missed, self._missed = self._missed, []
        self._wire.ready = True
        again = [r for r in list(self._discord.log)[-20:] if r.kind == "message.create"][: self._discord.random.randint(0, 3)]
        for record in (*again, *missed):
            self.hear(record)

    def lose(self) -> None:
        self._wire.ready = False

    def hear(self, record: Record) -> None:
        """An event of Discord."""
        if not self._wire.ready:
            self._missed.append(record)
        elif record.channel_id in self._rooms and record.kind in {"message.create", "message.edit", "message.delete"}:
            self._feed(record.channel_id, record)

    def _feed(self, channel_id: int, item: Record | None) -> None:
        line = self._all[channel_id] = self._lines.line(channel_id, 1, None)
        # A line takes whatever its worker understands.
        something: Any = item
        self._lines.feed(line, something)

    async def aclose(self) -> None:
        await self._lines.aclose()

    # --- one by one ------------------------------------------------------------------------------------------------------

    async def _work(self, line: Line) -> None:
        taken: Any = line.items.popleft()
        record: Record | None = taken
        session = self._session
        try:
            if record is not None and record.bot and record.nonce is not None and record.message_id is not None:
                await self._runtime.echo(record.nonce, record.message_id, line.channel_id)
            if line.session != session and await self._catch_up(line):
                line.session = session
            elif line.session != session:
                self._again_later(line)
            if record is not None and not record.bot:
                await self._one(line, record)
            if line.session == session:
                line.failures = 0
        except Impossible:
            raise
        except StorageError:
            line.session = 0
            self._again_later(line)

    async def _one(self, line: Line, record: Record) -> None:
        said = next((m for m in self._discord.people if m.id == record.message_id), None)
        if said is None:
            return
        match record.kind:
            case "message.create":
                await self._accept(line, said, record.text or "", "live")
            case "message.edit":
                await self._runtime.edited(said.id, record.text or "")
            case "message.delete":
                await self._runtime.deleted(said.id)
            case _:
                pass

    async def _accept(self, line: Line, said: Said, text: str, source: Literal["live", "catch_up"]) -> None:
        caught_up = source == "live" and line.session == self._session
        incoming = Incoming(
            conversation_id=self._rooms[line.channel_id].id,
            channel_id=line.channel_id,
            message_id=said.id,
            sent_ms=snowflake_ms(said.id),
            author_id=said.author_id,
            author_name=said.author,
            text=text,
            addressed=said.addressed,
            source=source,
            caught_up=caught_up,
        )
        result = await self._runtime.accept(incoming)
        assert not isinstance(result, Refused), result.code
        if isinstance(result, Accepted | Offered):
            self.acknowledged.add(said.id)

    async def _catch_up(self, line: Line) -> bool:
        conversation = await self._runtime.conversation(line.channel_id)
        if conversation is None or self._away:
            return False
        await asyncio.sleep(self._discord.random.uniform(0.05, 0.5))
        if self._unreadable():
            return False
        for said in self._discord.since(line.channel_id, conversation.last_seen_id):
            await self._accept(line, said, said.text, "catch_up")
        await self._runtime.caught_up(conversation.id)
        return True

    def _again_later(self, line: Line) -> None:
        if line.retry is not None and not line.retry.done():
            return
        pause_s = min(60.0, 2**line.failures)
        line.failures += 1

        async def again() -> None:
            await self._clock.sleep(pause_s)
            self._feed(line.channel_id, LOOK)

        line.retry = asyncio.create_task(again())
