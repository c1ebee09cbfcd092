"""The clock and the ids of the loopback Discord, which stands for somebody else's computer and so has its own."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

from bot.clock import SystemClock

EPOCH_MS = 1_420_070_400_000
"""First millisecond of 2015, the origin of snowflakes (developer documentation, "Snowflakes")."""


class LoopbackClock:
    """Real time plus an offset that tests move forward, so that windows and deadlines pass without sleeping."""

    def __init__(self) -> None:
        self._system = SystemClock()
        self._offset_s = 0.0
        self._watchers: list[Callable[[], None]] = []

    def now_ms(self) -> int:
        """Milliseconds UTC since 1970, offset included."""
        return self._system.now_ms() + round(self._offset_s * 1000)

    def monotonic_s(self) -> float:
        """Seconds that never go back, offset included."""
        return self._system.monotonic_s() + self._offset_s

    async def sleep(self, seconds: float) -> None:
        """Really sleep: delays that are injected as faults are felt by clients in another process."""
        await self._system.sleep(seconds)

    def advance(self, seconds: float) -> None:
        """Move this clock forward; deadlines that so pass are acted on before this returns."""
        self._offset_s += seconds
        for watcher in self._watchers:
            watcher()

    def on_advance(self, watcher: Callable[[], None]) -> None:
        """Have ``watcher`` called after each jump."""
        self._watchers.append(watcher)


class Snowflakes:
    """Issues ids that grow strictly and carry the millisecond of their birth."""

    def __init__(self, clock: LoopbackClock) -> None:
        self._clock = clock
        self._last = 0

    def next(self) -> int:
        """A new id."""
        self._last = max((self._clock.now_ms() - EPOCH_MS) << 22, self._last + 1)
        return self._last


def snowflake_ms(snowflake: int) -> int:
    """Milliseconds UTC at which the id was made."""
    return (snowflake >> 22) + EPOCH_MS


def iso(ms: int) -> str:
    """ISO 8601 with offset, as the API writes times."""
    return datetime.fromtimestamp(ms / 1000, tz=UTC).isoformat()
