"""A cancelled task is not a rolled-back transaction: database work runs to its end, whoever is cancelled meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

import structlog

T = TypeVar("T")
log = structlog.get_logger(__name__)


class Shield:
    """Runs database work in tasks of its own, and can wait for all of them."""

    def __init__(self) -> None:
        self._running: set[asyncio.Task[Any]] = set()

    async def run(self, work: Coroutine[Any, Any, T]) -> T:
        """The work's real outcome.

        If the caller is cancelled, the work still ends first; then CancelledError is raised, and what was written is written. An
        error of the work is then only logged.
        """
        task = asyncio.create_task(work)
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        cancelled: asyncio.CancelledError | None = None
        while not task.done():
            try:
                # Unlike `await task`, this does not pass a cancellation on.
                await asyncio.wait({task})
            except asyncio.CancelledError as error:
                cancelled = error
        if cancelled is None:
            return task.result()
        if not task.cancelled() and (failed := task.exception()) is not None:
            log.warning("storage.failed_while_cancelled", error=str(failed))
        raise cancelled

    async def drain(self) -> None:
        """Wait until all work has ended; its callers get its errors."""
        while self._running:
            await asyncio.wait(self._running)
