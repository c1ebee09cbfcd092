"""Tells whether a request of discord.py may have reached Discord: its own retries hide the answers that came in between."""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass, field
from types import SimpleNamespace

import aiohttp

_FIRST_SERVER_ERROR = 500
_OK = 200
_NOT_OK = 300


@dataclass(slots=True)
class Attempt:
    """The requests of one call, seen by aiohttp's tracing."""

    #: Begun and not answered.
    open: int = 0
    #: Broken off, by a connection that failed after it was made, or by a deadline.
    broken: int = 0
    statuses: list[int] = field(default_factory=list)

    @property
    def maybe_done(self) -> bool:
        """Whether any request may have taken effect. A refusal (4xx, 429) and a connection never made did not."""
        answered = any(status >= _FIRST_SERVER_ERROR or _OK <= status < _NOT_OK for status in self.statuses)
        return self.open > 0 or self.broken > 0 or answered


#: The attempt that the current task makes, if it wants to know.
current_attempt: ContextVar[Attempt | None] = ContextVar("current_attempt", default=None)


def tracing() -> aiohttp.TraceConfig:
    """For discord.py's `http_trace`; one for each client."""
    trace = aiohttp.TraceConfig()
    trace.on_request_start.append(_started)
    trace.on_request_end.append(_ended)
    trace.on_request_exception.append(_failed)
    return trace


async def _started(_session: aiohttp.ClientSession, _context: SimpleNamespace, _params: aiohttp.TraceRequestStartParams) -> None:
    if (attempt := current_attempt.get()) is not None:
        attempt.open += 1


async def _ended(_session: aiohttp.ClientSession, _context: SimpleNamespace, params: aiohttp.TraceRequestEndParams) -> None:
    if (attempt := current_attempt.get()) is not None:
        attempt.open -= 1
        attempt.statuses.append(params.response.status)


async def _failed(_session: aiohttp.ClientSession, _context: SimpleNamespace, params: aiohttp.TraceRequestExceptionParams) -> None:
    if (attempt := current_attempt.get()) is not None:
        attempt.open -= 1
        # A connection that was never made carried nothing.
        if not isinstance(params.exception, aiohttp.ClientConnectorError):
            attempt.broken += 1
