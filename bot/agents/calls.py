"""The calls of our tools within one run: answered by the run's handler, and cancelled when the run ends."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import structlog

from bot.agents.base import ToolHandler, ToolResult

log = structlog.get_logger()

#: How long a cancelled handler may take to let go. It only stores, so this is already long.
_LET_GO_S = 2.0

#: What a tool call gets, ours or another, that comes when no run is active.
NO_TURN = ToolResult("Refused: this call does not belong to a turn that Nightporter started, so nothing was done.", is_error=True)

_ENDED = ToolResult("The turn has ended before this was done.", is_error=True)
_BROKEN = ToolResult("Nightporter could not do this because of a fault of its own; it is in its log. Nothing was done.", is_error=True)


class ToolCalls:
    """All calls of one run."""

    def __init__(self, handler: ToolHandler) -> None:
        self._handler = handler
        self._tasks: set[asyncio.Task[ToolResult]] = set()
        self._ended = False

    async def call(self, name: str, arguments: Mapping[str, object]) -> ToolResult:
        """The handler's answer; an error result if the run has ended or the handler fails. Never raises by itself."""
        if self._ended:
            return NO_TURN
        task = asyncio.ensure_future(self._handler(name, arguments))
        self._tasks.add(task)
        try:
            await asyncio.wait({task})
        finally:
            # The caller may be cancelled too, by an interrupt of the agent: then nobody reads the answer.
            task.cancel()
            self._tasks.discard(task)
        if task.cancelled():
            return _ENDED
        if (error := task.exception()) is not None:
            log.error("tool.failed", tool=name, exc_info=error)
            return _BROKEN
        return task.result()

    async def end(self) -> None:
        """Cancel what is unanswered and refuse what still comes. Bounded."""
        self._ended = True
        tasks = set(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=_LET_GO_S)
