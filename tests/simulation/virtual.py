"""Time, randomness and the database's threads in one hand: the same seed gives the same history, step by step.

The loop runs one callback after the other and its clock jumps to the next timer when nothing is ready. Tasks and futures have
hashes that count, so that sets of them have one order. SQLite runs inside the loop instead of in threads.
"""

from __future__ import annotations

import asyncio
import gc
import heapq
import itertools
import random
import sqlite3
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from datetime import UTC, datetime, tzinfo
from typing import Any
from unittest import mock

import aiosqlite

#: Where every story begins: the wall clock at loop time 0.
EPOCH_MS = 1_800_000_000_000


class Crash(BaseException):
    """The process is gone: nothing of it runs any more."""


class Stuck(BaseException):
    """Everybody waits for ever, or somebody runs in circles."""


#: So many callbacks within one virtual second are a circle.
_CIRCLE = 20_000


class SimFuture(asyncio.Future[Any]):
    """A future whose place in a set does not depend on its address."""

    def __init__(self, number: int, **more: Any) -> None:
        self._number = number
        super().__init__(**more)

    def __hash__(self) -> int:
        return self._number


class SimTask(asyncio.Task[Any]):
    """A task whose place in a set does not depend on its address."""

    def __init__(self, number: int, coro: Any, **more: Any) -> None:
        # Before the base class, which puts the task into a set.
        self._number = number
        super().__init__(coro, **more)

    def __hash__(self) -> int:
        return self._number


class VirtualLoop(asyncio.SelectorEventLoop):
    """One callback at a time; `crash_at` is the step before which the process dies."""

    def __init__(self, now_s: float) -> None:
        super().__init__()
        self._now_s = now_s
        self._numbers = itertools.count(1)
        self.steps = 0
        self._second = (0, 0)
        self.crash_at: int | None = None
        #: Its tasks are being thrown away.
        self.dead = False
        #: Given the time of the next timer, how far time may jump instead: the process sleeps through a quiet night.
        self.quiet_until_s: Callable[[float], float] = lambda when_s: when_s
        self.set_task_factory(self._task)

    def _task(self, loop: asyncio.AbstractEventLoop, coro: Any, **more: Any) -> SimTask:
        return SimTask(next(self._numbers), coro, loop=loop, **more)

    def create_future(self) -> asyncio.Future[Any]:
        return SimFuture(next(self._numbers), loop=self)

    def time(self) -> float:
        return self._now_s

    def crash(self) -> None:
        """Nothing runs after the callback that is running now."""
        self.crash_at = self.steps

    def run_in_executor(self, executor: Any, func: Any, *args: Any) -> asyncio.Future[Any]:  # type: ignore[override]
        done = self.create_future()
        try:
            done.set_result(func(*args))
        except Exception as error:  # noqa: BLE001 - it belongs to whoever waits
            done.set_exception(error)
        return done

    def _asyncgen_finalizer_hook(self, agen: Any) -> None:
        if not self.dead:
            super()._asyncgen_finalizer_hook(agen)  # type: ignore[misc]

    def _mind_circles(self) -> None:
        second, since = self._second
        if int(self._now_s) != second:
            self._second = (int(self._now_s), self.steps)
        elif self.steps - since > _CIRCLE:
            raise Stuck(f"{_CIRCLE} callbacks within one second")

    def _write_to_self(self) -> None:
        """Nobody selects."""

    def _run_once(self) -> None:
        ready: Any = self._ready  # type: ignore[attr-defined]
        timers: list[asyncio.TimerHandle] = self._scheduled  # type: ignore[attr-defined]
        if self.crash_at is not None and self.steps >= self.crash_at:
            raise Crash
        _drop_cancelled(timers)
        if not ready:
            if not timers:
                raise Stuck("nothing is ready and no timer is set")
            when_s = timers[0].when()
            if when_s > self._now_s:
                self._now_s = max(when_s, self.quiet_until_s(when_s))
        while timers and (timers[0].cancelled() or timers[0].when() <= self._now_s):
            handle = _pop(timers)
            if not handle.cancelled():
                ready.append(handle)
        if ready:
            handle = ready.popleft()
            self.steps += 1
            self._mind_circles()
            if not handle.cancelled():
                handle._run()  # noqa: SLF001


def _drop_cancelled(timers: list[asyncio.TimerHandle]) -> None:
    while timers and timers[0].cancelled():
        _pop(timers)


def _pop(timers: list[asyncio.TimerHandle]) -> Any:
    handle: Any = heapq.heappop(timers)
    handle._scheduled = False  # noqa: SLF001
    return handle


class WallClock:
    """`bot.clock.Clock` on a virtual loop; the wall clock is `offset_ms` off the true time."""

    def __init__(self, true_s: Callable[[], float], offset_ms: Callable[[], int] = lambda: 0) -> None:
        self._true_s = true_s
        self._offset_ms = offset_ms

    def now_ms(self) -> int:
        return EPOCH_MS + int(self._true_s() * 1_000) + self._offset_ms()

    def monotonic_s(self) -> float:
        return self._true_s()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(max(0.0, seconds))


# --- SQLite without threads --------------------------------------------------------------------------------------------

#: Asked before each statement with its text and whether the connection only reads; returns the error it meets, if any.
StatementFault = Callable[[str, bool], Exception | None]


class _Inline:
    """In place of the queue of the driver's thread: what is put in is done at once."""

    def __init__(self, connection: InlineConnection) -> None:
        self._connection = connection

    def put_nowait(self, item: Any) -> None:
        future, call = item
        try:
            self._connection.meet(call)
            result = call()
        except BaseException as error:  # noqa: BLE001 - the driver hands everything over
            if future is not None and not future.done():
                future.set_exception(error)
        else:
            if future is not None and not future.done():
                future.set_result(result)


class _NoThread:
    daemon = True

    def start(self) -> None:
        """There is none."""


class InlineConnection(aiosqlite.Connection):
    """The real driver's connection, whose calls run in the loop itself."""

    def __init__(self, connector: Callable[[], sqlite3.Connection], fault: StatementFault) -> None:
        super().__init__(connector, 64)
        self._fault = fault
        self._reads = False
        self._tx = _Inline(self)  # type: ignore[assignment]
        self._thread = _NoThread()  # type: ignore[assignment]

    def meet(self, call: Any) -> None:
        args = getattr(call, "args", ())
        if not args or not isinstance(args[0], str):
            return
        if args[0] == "PRAGMA query_only=ON":
            self._reads = True
        if (error := self._fault(args[0], self._reads)) is not None:
            raise error

    def kill(self) -> None:
        """The process is gone: what is not committed is not there."""
        raw, self._connection, self._running = self._connection, None, False
        if raw is not None:
            raw.close()


# --- everything at once ------------------------------------------------------------------------------------------------


class Sources:
    """What a simulated process takes from outside, for as long as `simulated` lasts."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(f"{seed}:names")
        self.connections: list[InlineConnection] = []
        self.wall_ms: Callable[[], int] = lambda: EPOCH_MS
        self.statement_fault: StatementFault = lambda _sql, _reads: None

    def uuid4(self) -> uuid.UUID:
        return uuid.UUID(int=self._random.getrandbits(128), version=4)

    def token_bytes(self, count: int = 32) -> bytes:
        return self._random.randbytes(count)

    def _meet(self, sql: str, reads: bool) -> Exception | None:
        # Of the life that runs now.
        return self.statement_fault(sql, reads)

    def connect(self, database: Any, *, iter_chunk_size: int = 64, **more: Any) -> InlineConnection:
        del iter_chunk_size
        connection = InlineConnection(lambda: sqlite3.connect(str(database), **more), self._meet)
        self.connections.append(connection)
        return connection

    def kill_connections(self) -> None:
        for connection in self.connections:
            with suppress(sqlite3.Error):
                connection.kill()
        self.connections.clear()


@contextmanager
def simulated(seed: int) -> Iterator[Sources]:
    """Names, nonces, the scheduler's wall clock and the database driver come from here. Garbage is collected only when told."""
    sources = Sources(seed)

    class Now(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> Any:
            return datetime.fromtimestamp(sources.wall_ms() / 1_000, tz or UTC)

    was_on = gc.isenabled()
    # When garbage is collected must not depend on what ran before; and what is there by now stays.
    gc.disable()
    gc.freeze()
    with ExitStack() as stack:
        for target, value in (
            ("uuid.uuid4", sources.uuid4),
            ("secrets.token_bytes", sources.token_bytes),
            ("aiosqlite.connect", sources.connect),
            ("apscheduler.schedulers.base.datetime", Now),
            ("apscheduler.executors.base.datetime", Now),
        ):
            stack.enter_context(mock.patch(target, value))
        try:
            yield sources
        finally:
            sources.kill_connections()
            gc.unfreeze()
            if was_on:
                gc.enable()
