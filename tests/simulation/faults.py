"""What goes wrong with the database of one life, and where its process dies: drawn from the seed at each commit and statement."""

from __future__ import annotations

import asyncio
import random
import sqlite3
from collections.abc import Collection
from dataclasses import dataclass

from sqlalchemy.exc import OperationalError

from storage.errors import OutcomeUnknown
from tests.simulation.virtual import VirtualLoop


@dataclass
class DatabaseMood:
    """In percent for each commit or statement."""

    #: Another program holds the file's lock until the patience is over.
    locked: float = 0.0
    #: The connection breaks during COMMIT: half of them are stored.
    unknown: float = 0.0
    #: A query fails.
    unread: float = 0.0
    #: The longest a commit takes, seconds.
    slow_s: float = 0.02


#: How long the store waits for a lock, seconds.
BUSY_S = 30.0


class Faults:
    """`storage.points.FaultHook`, and the driver's statements."""

    def __init__(self, loop: VirtualLoop, rng: random.Random, mood: DatabaseMood, crash_points: Collection[str] = ()) -> None:
        self._loop = loop
        #: The only points at which the process dies; empty: all of them.
        self._crash_points = crash_points
        self._random = rng
        self.mood = mood
        #: Off while a life begins and at the very end.
        self.on = False
        #: Passes of commit points until the process dies at one.
        self.crash_in: int | None = None
        #: Points passed, for the statistics.
        self.crashed_at: str | None = None
        #: True times at which the database was in trouble.
        self.trouble_s: list[float] = []
        #: Commits that are under way.
        self.under_way = 0

    async def point(self, name: str) -> None:
        if not self.on:
            return
        self.under_way += 1
        try:
            await self._pass(name)
        finally:
            self.under_way -= 1

    async def _pass(self, name: str) -> None:
        if self.crash_in is not None and (not self._crash_points or name in self._crash_points):
            self.crash_in -= 1
            if self.crash_in <= 0:
                self.crashed_at = name
                self._loop.crash()
                await self._loop.create_future()
        await asyncio.sleep(self._random.uniform(0, self.mood.slow_s))
        if name.endswith(".before") and self._drawn(self.mood.locked):
            # Sometimes the lock is noticed only when the patience is over, and every other writer waits behind this one.
            await asyncio.sleep(self._random.choice((0.0, 0.5, BUSY_S)))
            self._trouble()
            raise _locked()
        if self._drawn(self.mood.unknown / 2):
            self._trouble()
            raise OutcomeUnknown("It is not known whether this was stored: the connection to the database was lost.")

    def statement(self, sql: str, reads: bool) -> Exception | None:
        if self.on and reads and sql.startswith("SELECT") and self._drawn(self.mood.unread):
            self._trouble()
            return _busy()
        return None

    def _trouble(self) -> None:
        self.trouble_s.append(self._loop.time())

    def _drawn(self, percent: float) -> bool:
        return percent > 0 and self._random.random() * 100 < percent


def _busy() -> sqlite3.OperationalError:
    error = sqlite3.OperationalError("database is locked")
    error.sqlite_errorname = "SQLITE_BUSY"
    return error


def _locked() -> OperationalError:
    return OperationalError("BEGIN IMMEDIATE", None, _busy())
