"""A clock that runs by itself and can also be moved forward."""

from __future__ import annotations

import asyncio

from bot.clock import SystemClock


class SkippingClock(SystemClock):
    """The machine's clocks, ahead of them by what the test has skipped.

    For a deadline far enough away that no stall of the machine reaches it, which the test then brings about at once.
    """

    def __init__(self) -> None:
        self._ahead_s = 0.0
        self._skipped = asyncio.Event()

    def now_ms(self) -> int:
        return super().now_ms() + round(self._ahead_s * 1_000)

    def monotonic_s(self) -> float:
        return super().monotonic_s() + self._ahead_s

    async def sleep(self, seconds: float) -> None:
        until_s = self.monotonic_s() + seconds
        while (left_s := until_s - self.monotonic_s()) > 0:
            try:
                await asyncio.wait_for(self._skipped.wait(), left_s)
            except TimeoutError:
                continue
        await asyncio.sleep(0)

    def skip(self, seconds: float) -> None:
        """Move both clocks forward and wake whoever's time has come."""
        self._ahead_s += seconds
        self._skipped.set()
        self._skipped = asyncio.Event()
