"""Owns every task of the runtime: a loop that dies is told loudly and ends the process; nothing is left behind at stop.

This is the one place of the runtime that catches `Exception`: it cannot know what a fault of the program looks like, and must
neither swallow one nor let a single turn's fault take every conversation along.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import structlog

from bot.clock import Clock
from storage.errors import Impossible, StorageError

log = structlog.get_logger(__name__)

#: How long a loop pauses after the database could not be used.
_STORAGE_PAUSE_S = 1.0


class Supervisor:
    """Loops and tasks with an owner."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._tasks: set[asyncio.Task[Any]] = set()
        self._died: asyncio.Future[str] | None = None

    def loop(self, name: str, step: Callable[[], Awaitable[None]]) -> asyncio.Task[None]:
        """Run `step` for ever. A database that cannot be used pauses the loop; any other error ends the process loudly."""
        return self.spawn(name, self._forever(name, step))

    def spawn(self, name: str, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run something to its end. Whatever it raises ends the process loudly."""
        task = asyncio.create_task(self._guarded(name, work), name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        # A task that is cancelled before its first step never begins the work, which would then be complained about.
        task.add_done_callback(lambda _: work.close())
        return task

    async def contained(self, name: str, work: Awaitable[None], after_crash: Callable[[], Awaitable[None]]) -> None:
        """One unit of work (a turn) whose faults are its own: logged, then cleaned up by `after_crash`, which must not fail."""
        try:
            await work
        except (Exception, asyncio.CancelledError) as error:
            if _told_to_end(error):
                raise
            log.exception("task.crashed", task=name, error=repr(error))
            await after_crash()

    async def died(self) -> str:
        """Wait until something has died; its name. The owner of the process then ends it."""
        return await asyncio.shield(self._death())

    async def stop(self, bound_s: float) -> None:
        """Cancel everything and wait for it, but no longer than that."""
        tasks = {task for task in self._tasks if task is not asyncio.current_task()}
        for task in tasks:
            task.cancel()
        if not tasks:
            return
        sleeping = asyncio.create_task(self._clock.sleep(bound_s))
        while not sleeping.done() and not all(task.done() for task in tasks):
            await asyncio.wait({sleeping, *(task for task in tasks if not task.done())}, return_when=asyncio.FIRST_COMPLETED)
        sleeping.cancel()
        for task in tasks:
            if not task.done():
                log.error("task.would_not_stop", task=task.get_name())

    def _death(self) -> asyncio.Future[str]:
        if self._died is None:
            self._died = asyncio.get_running_loop().create_future()
        return self._died

    async def _forever(self, name: str, step: Callable[[], Awaitable[None]]) -> None:
        trouble = ""
        while True:
            try:
                await step()
                if trouble:
                    log.info("storage.usable_again", task=name)
                trouble = ""
            except Impossible:
                raise
            except StorageError as error:
                # Said once for each kind of trouble, not once a second.
                if str(error) != trouble:
                    log.error("storage.unusable", task=name, error=str(error))  # noqa: TRY400 - an outside fault: one line, no traceback
                trouble = str(error)
                await self._clock.sleep(_STORAGE_PAUSE_S)

    async def _guarded(self, name: str, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except (Exception, asyncio.CancelledError) as error:
            if _told_to_end(error):
                raise
            log.critical("loop.died", task=name, error=repr(error), exc_info=error)
            death = self._death()
            if not death.done():
                death.set_result(name)


def _told_to_end(error: BaseException) -> bool:
    """Whether this task was cancelled. One that nobody cancelled can still meet a CancelledError: of something that it waited for.

    asyncio takes such a task for cancelled and says nothing, so it would end in silence.
    """
    task = asyncio.current_task()
    return isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling() > 0
