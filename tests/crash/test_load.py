"""A short load in every run of .ci/run, so that the long one (`just load`) works when it is wanted."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.crash.load import load


@pytest.mark.ci
@pytest.mark.timeout(600)
async def test_load_with_faults_and_kills_breaks_no_promise(tmp_path: Path) -> None:
    outcome = await load(tmp_path, minutes=0.5, kill_minutes=0.25, seed=5)
    assert outcome.kills > 0
    assert not outcome.broken, "\n".join(outcome.broken)
