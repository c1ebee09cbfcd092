"""Hundreds of kills of the real program, on both databases and with both agents: `just crash-full`.

On each database every named crash point is killed on both sides, then storms come, with the scripted agent and with the real one.
Every story ends with the history checker.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import structlog

from tests.crash.aimed import BOUNDED, BOUNDS, OUTSIDE, PEOPLE, TURNS, killed_at
from tests.crash.storm import Agent, storm
from tests.support.postgres import Postgres, running_postgres

#: With the real agent a life takes several times as long.
_REAL_SHARE = 0.3
#: A storm has so many lives; many short ones find more than a long one, since each ends with the calm and the checks.
_LIVES = 25


@dataclass(frozen=True)
class Story:
    """One story, and what came of it."""

    name: str
    kills: int
    broken: tuple[str, ...]


def main() -> int:
    """The exit code: 0 if every promise was kept."""
    parser = argparse.ArgumentParser(prog="python -m tests.crash.full", description=__doc__)
    parser.add_argument("--kills", type=int, default=500, help="at least so many, both databases together")
    parser.add_argument("--seed", type=int, default=1, help="of the first storm")
    chosen = parser.parse_args()
    began = time.monotonic()
    with ProcessPoolExecutor(2) as pool:
        halves = [pool.submit(_half, database, chosen.kills // 2, chosen.seed) for database in ("sqlite", "postgresql")]
        stories = [story for half in halves for story in half.result()]
    broken = [f"{story.name}: {sentence}" for story in stories for sentence in story.broken]
    for sentence in broken:
        print(sentence)  # noqa: T201 - a command
    kills = sum(story.kills for story in stories)
    print(f"{kills} kills in {len(stories)} stories, {time.monotonic() - began:.0f} s: {len(broken)} broken promises")  # noqa: T201
    return 0 if not broken and kills >= chosen.kills else 1


def _half(database: str, kills: int, seed: int) -> list[Story]:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(50))
    with ExitStack() as stack:
        server = stack.enter_context(running_postgres()) if database == "postgresql" else None
        half = _Half(database, server)
        for name, points in (("turns", TURNS), ("people", PEOPLE), ("outside", OUTSIDE)):
            half.play(name, partial(killed_at, points=points))
        half.play("bounds", partial(killed_at, points=BOUNDED, env=BOUNDS))
        storms = -(-max(0, kills - sum(story.kills for story in half.stories)) // _LIVES)
        for number in range(storms):
            agent: Agent = "real" if number < storms * _REAL_SHARE else "scripted"
            half.play(f"storm {seed + number}, {agent} agent", partial(storm, kills=_LIVES, seed=seed + number, agent=agent))
    return half.stories


class _Half:
    """The stories of one database."""

    def __init__(self, database: str, server: Postgres | None) -> None:
        self.stories: list[Story] = []
        self._database = database
        self._server = server

    def play(self, name: str, story: Any) -> None:
        url = None if self._server is None else self._server.url(self._server.new_database())
        began = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="np-full-") as folder:
            outcome = asyncio.run(story(Path(folder), postgres=url))
        self.stories.append(Story(f"{self._database}, {name}", outcome.kills, tuple(outcome.broken)))
        counted = ", ".join(f"{key} {count}" for key, count in sorted(outcome.counts.items()))
        seconds = time.monotonic() - began
        print(f"{self._database}, {name}: {outcome.kills} kills, {seconds:.0f} s: {counted}", flush=True)  # noqa: T201 - a command
        if outcome.broken:
            print(outcome.log[-20_000:], flush=True)  # noqa: T201 - a command


if __name__ == "__main__":
    sys.exit(main())
