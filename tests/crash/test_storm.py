"""A short storm in every run of .ci/run; long ones are `just storm --kills 200 --seed 7`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.crash.storm import storm


@pytest.mark.ci
@pytest.mark.timeout(600)
async def test_killed_at_random_instants_it_answers_every_message_once_or_says_why_not(tmp_path: Path) -> None:
    outcome = await storm(tmp_path, kills=6, seed=3)
    assert outcome.kills == 6
    assert not outcome.broken, "\n".join(outcome.broken)
