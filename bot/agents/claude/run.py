"""What belongs to one run of a Claude session: its events, its tool calls, its watchdog, and the one `RunEnded`."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence

from bot.agents.base import AgentEvent, Notice, RunEnded, ToolEnded, ToolHandler, ToolStarted
from bot.agents.calls import ToolCalls
from bot.agents.claude.events import TurnTranslator
from bot.agents.watchdog import Silence, Watchdog
from bot.clock import Clock


class Run:
    """Collects events until the end; what comes after it is dropped."""

    def __init__(self, prompt_uuid: str, tools: ToolHandler, clock: Clock, silence: Silence) -> None:
        self.prompt_uuid = prompt_uuid
        self.calls = ToolCalls(tools)
        self.watchdog = Watchdog(clock, silence)
        self.translator = TurnTranslator()
        #: How it ends if it does not end by itself first: set by an interrupt, a rejected key or the watchdog.
        self.verdict: RunEnded | None = None
        self.ended = asyncio.Event()
        self._events: asyncio.Queue[AgentEvent] = asyncio.Queue()
        #: What works for this run and ends with it.
        self.helpers: set[asyncio.Task[None]] = set()

    def emit(self, events: Iterable[AgentEvent]) -> None:
        """Add events."""
        for event in events:
            if self.ended.is_set():
                return
            match event:
                case ToolStarted():
                    self.watchdog.tool_started(event.tool_id)
                case ToolEnded():
                    self.watchdog.tool_ended(event.tool_id)
                case _:
                    pass
            self._events.put_nowait(event)

    def denied(self, sentence: str) -> None:
        """A tool call was denied."""
        self.emit([Notice("permission_denied", sentence)])

    def finish(self, ended: RunEnded, last: Sequence[AgentEvent] = ()) -> None:
        """End it, after the `last` events; only the first call counts."""
        if self.ended.is_set():
            return
        self.emit(last)
        self._events.put_nowait(ended)
        self.ended.set()

    async def next(self) -> AgentEvent:
        """The next event."""
        return await self._events.get()

    async def release(self) -> None:
        """Cancel its tool calls and helpers. Bounded, and after it nothing of the run acts any more."""
        self.ended.set()
        await self.calls.end()
        helpers = self.helpers - {asyncio.current_task()}
        for helper in helpers:
            helper.cancel()
        if helpers:
            await asyncio.wait(helpers)
