"""Notices that an agent has gone silent in the middle of a turn (design section 11)."""

from __future__ import annotations

from dataclasses import dataclass

from bot.clock import Clock


@dataclass(frozen=True, slots=True)
class Silence:
    """How long a turn may go without a sign of life, in seconds."""

    turn_s: float = 600.0
    #: While a tool runs: a build says nothing for long.
    tool_s: float = 3600.0


class Watchdog:
    """Told of every sign of life within one turn."""

    def __init__(self, clock: Clock, silence: Silence) -> None:
        self._clock = clock
        self._silence = silence
        self._last_s = clock.monotonic_s()
        self._tools: set[str] = set()

    def touch(self) -> None:
        """The agent gave a sign of life."""
        self._last_s = self._clock.monotonic_s()

    def tool_started(self, tool_id: str) -> None:
        """From now on the longer limit counts."""
        self.touch()
        self._tools.add(tool_id)

    def tool_ended(self, tool_id: str) -> None:
        """The shorter limit counts again once no tool runs."""
        self.touch()
        self._tools.discard(tool_id)

    async def silent(self) -> None:
        """Return when the limit is passed. It looks at least once in a short limit, so a tool's end is not slept through."""
        while True:
            limit_s = self._silence.tool_s if self._tools else self._silence.turn_s
            left_s = self._last_s + limit_s - self._clock.monotonic_s()
            if left_s <= 0:
                return
            await self._clock.sleep(min(left_s, self._silence.turn_s))
