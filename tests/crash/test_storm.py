"""A short storm in every run of the tests; long ones are `just storm --kills 200 --seed 7`."""

from __future__ import annotations

from pathlib import Path

from tests.crash.storm import storm


async def test_killed_at_random_instants_it_answers_every_message_once_or_says_why_not(tmp_path: Path) -> None:
    outcome = await storm(tmp_path, kills=2, seed=3)
    assert outcome.kills == 2
    assert not outcome.broken, "\n".join(outcome.broken)
