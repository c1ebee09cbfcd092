"""One line for each channel: what comes in is looked at one by one, in the order in which it came."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from bot.gateway.reading import Heard


@dataclass(frozen=True, slots=True)
class Edited:
    """Somebody edited a message; not a link's preview."""

    heard: Heard


@dataclass(frozen=True, slots=True)
class Deleted:
    """Somebody deleted a message."""

    message_id: int


@dataclass(frozen=True, slots=True)
class Look:
    """Nothing came, but what came while nobody listened has to be fetched."""

    #: Within one gateway session too something may have been missed: the channel was hidden from us for a while.
    anew: bool = False


@dataclass(frozen=True, slots=True)
class Hidden:
    """From here on we are not told what is written; whatever comes next is preceded by a catch-up."""


Item = Heard | Edited | Deleted | Look | Hidden


@dataclass(slots=True, eq=False)
class Line:
    """What one channel has waiting. `session` is the gateway session that its catch-up is complete for; 0: none."""

    channel_id: int
    guild_id: int | None
    parent_id: int | None
    session: int = 0
    items: deque[Item] = field(default_factory=deque)
    #: It is a conversation, with a mark of its own.
    bound: bool = False
    #: Newest message that was looked at and is no prompt; told to storage when the line is empty.
    seen_id: int = 0
    task: asyncio.Task[None] | None = None
    #: A later try of the catch-up is scheduled.
    retry: asyncio.Task[None] | None = None
    #: Tries of the catch-up that failed, one after the other.
    failures: int = 0
    #: People were told that their messages cannot be stored at the moment.
    trouble_told: bool = False


class Lines:
    """All lines. Each has a task only while something waits in it."""

    def __init__(self, work: Callable[[Line], Awaitable[None]], crashed: Callable[[BaseException], None]) -> None:
        self._work = work
        self._crashed = crashed
        self._lines: dict[int, Line] = {}

    def get(self, channel_id: int) -> Line | None:
        """The line of a channel that something came from before."""
        return self._lines.get(channel_id)

    def line(self, channel_id: int, guild_id: int | None, parent_id: int | None) -> Line:
        """The line of a channel, made when it is not there."""
        return self._lines.setdefault(channel_id, Line(channel_id, guild_id, parent_id))

    def of_parent(self, channel_id: int) -> tuple[Line, ...]:
        """The lines of a channel's threads."""
        return tuple(line for line in self._lines.values() if line.parent_id == channel_id)

    def in_guild(self, guild_id: int) -> tuple[Line, ...]:
        """The lines of a guild's channels and threads."""
        return tuple(line for line in self._lines.values() if line.guild_id == guild_id)

    def feed(self, line: Line, item: Item) -> None:
        """Put something at the end of a line; called before the first await of a handler, so that the order is Discord's."""
        line.items.append(item)
        if line.task is None:
            line.task = asyncio.create_task(self._run(line), name=f"intake-{line.channel_id}")
            line.task.add_done_callback(self._ended)

    async def _run(self, line: Line) -> None:
        try:
            while line.items:
                await self._work(line)
        finally:
            line.task = None

    def _ended(self, task: asyncio.Task[None]) -> None:
        """A fault of the program must not end as a silent line: the owner of the process is told."""
        if not task.cancelled() and (error := task.exception()) is not None:
            self._crashed(error)

    async def aclose(self) -> None:
        """End all tasks. What was not stored is found again by the next start's catch-up."""
        tasks = [task for line in self._lines.values() for task in (line.task, line.retry) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
