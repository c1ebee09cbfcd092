"""SIGKILL at both sides of every named point, in turn: nothing is lost, nothing runs twice, nothing is said twice, nothing is left."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from bot.faults import POINTS
from tests.crash.aimed import BOUNDED, BOUNDS, OUTSIDE, PEOPLE, TURNS, VIRTUAL, Story, killed_at
from tests.support.postgres import running_postgres

pytestmark = [pytest.mark.ci, pytest.mark.timeout(600)]


async def check(folder: Path, points: Mapping[str, Story], **stage: Any) -> None:
    outcome = await killed_at(folder, points, **stage)
    assert not outcome.broken, "\n".join([*outcome.broken, outcome.log[-6_000:]])
    assert outcome.kills == sum(2 + 2 * (story.first is not None) for story in points.values())


# A class each, so that they run side by side.


class TestTurns:
    async def test_killed_at_every_commit_of_a_turn(self, tmp_path: Path) -> None:
        await check(tmp_path, TURNS)


class TestPeople:
    async def test_killed_at_every_commit_that_people_ask_for(self, tmp_path: Path) -> None:
        await check(tmp_path, PEOPLE)


class TestOutside:
    async def test_killed_around_every_touch_of_the_outside(self, tmp_path: Path) -> None:
        await check(tmp_path, OUTSIDE)


class TestBounds:
    async def test_killed_where_people_are_asked(self, tmp_path: Path) -> None:
        await check(tmp_path, BOUNDED, env=BOUNDS)


class TestPostgres:
    async def test_killed_at_every_numbered_commit_with_postgresql(self, tmp_path: Path) -> None:
        if sys.version_info >= (3, 15):
            pytest.skip("the PostgreSQL wheel does not exist for this Python")
        numbered = {point: story for point, story in TURNS.items() if point.startswith("C")}
        with running_postgres() as server:
            await check(tmp_path, numbered, postgres=server.url(server.new_database()))


class TestTable:
    def test_every_point_has_a_kill(self) -> None:
        tables = (TURNS, PEOPLE, OUTSIDE, BOUNDED, VIRTUAL)
        assert sorted(point for table in tables for point in table) == sorted(POINTS)
