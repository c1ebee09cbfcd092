"""The only door to time: wall clock, monotonic clock and sleep, so that a test can hold all three in its hand."""

from __future__ import annotations

import asyncio
import heapq
import itertools
import time
from typing import Protocol


class Clock(Protocol):
    """What the rest of the program knows about time."""

    def now_ms(self) -> int:
        """The wall clock: whole milliseconds since 1970 UTC. It may jump either way."""
        ...

    def monotonic_s(self) -> float:
        """Seconds from an unknown beginning; never goes back. For ages and deadlines inside this process."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Return after at least that many monotonic seconds; zero or less only gives way to other tasks."""
        ...


class SystemClock:
    """The machine's clocks."""

    __slots__ = ()

    def now_ms(self) -> int:
        """See `Clock.now_ms`."""
        return time.time_ns() // 1_000_000

    def monotonic_s(self) -> float:
        """See `Clock.monotonic_s`."""
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        """See `Clock.sleep`."""
        await asyncio.sleep(max(0.0, seconds))


class ManualClock:
    """A clock that stands still until it is told to move: a test says when, and nothing has to be waited for.

    Sleepers are woken in the order of their deadlines, each seeing at least its own deadline as the time.
    """

    def __init__(self, now_ms: int = 1_700_000_000_000) -> None:
        self._wall_ms = now_ms
        self._monotonic_ms = 0
        self._order = itertools.count()
        self._sleepers: list[tuple[int, int, asyncio.Future[None]]] = []
        self._arrived = asyncio.Event()

    def now_ms(self) -> int:
        """See `Clock.now_ms`."""
        return self._wall_ms

    def monotonic_s(self) -> float:
        """See `Clock.monotonic_s`."""
        return self._monotonic_ms / 1_000

    async def sleep(self, seconds: float) -> None:
        """See `Clock.sleep`; returns only when `advance` reaches the deadline."""
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        # Rounded up: a sleep may be longer than asked for, never shorter.
        deadline_ms = self._monotonic_ms - int(-seconds * 1_000 // 1)
        heapq.heappush(self._sleepers, (deadline_ms, next(self._order), woken))
        self._arrived.set()
        await woken

    def advance(self, seconds: float) -> None:
        """Move both clocks forward and wake whoever's time has come; the woken run when the caller next awaits."""
        if seconds < 0:
            raise ValueError("monotonic time does not go back; use jump_wall for the wall clock")
        step_ms = round(seconds * 1_000)
        self._wall_ms += step_ms
        self._monotonic_ms += step_ms
        while self._sleepers and self._sleepers[0][0] <= self._monotonic_ms:
            _, _, woken = heapq.heappop(self._sleepers)
            if not woken.done():
                woken.set_result(None)

    def jump_wall(self, delta_ms: int) -> None:
        """Move the wall clock alone, either way, as an administrator or a time server may."""
        self._wall_ms += delta_ms

    @property
    def sleeping(self) -> int:
        """How many tasks sleep on this clock now."""
        return sum(not woken.done() for _, _, woken in self._sleepers)

    async def until_sleeping(self, tasks: int = 1) -> None:
        """Wait until that many tasks sleep here: the signal that a loop under test has come to rest."""
        while self.sleeping < tasks:
            self._arrived.clear()
            await self._arrived.wait()
