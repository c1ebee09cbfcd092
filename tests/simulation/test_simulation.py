"""The whole runtime on virtual time, seed by seed; `just sim` plays 200 of them and `just sim-full` 2,000."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.simulation.world import run_seed

#: Few enough for every run of the tests; .ci/run plays some more, the recipes the others.
SEEDS = [*range(1, 6), *(pytest.param(seed, marks=pytest.mark.ci) for seed in range(6, 201))]


@pytest.mark.parametrize("seed", SEEDS)
def test_promises_hold_whatever_goes_wrong(seed: int) -> None:
    ended = run_seed(seed)
    told = "\n".join(ended.broken)
    assert not ended.broken, f"replay: python -m tests.simulation --seed {seed} --trace\n{told}"


@pytest.mark.ci
def test_the_same_seed_gives_the_same_history_in_another_process() -> None:
    here = run_seed(9).digest
    # Another order of everything that Python hashes by itself.
    env = {**os.environ, "PYTHONHASHSEED": "77", "PYTHONPATH": str(Path(__file__).parents[2])}
    command = [sys.executable, "-m", "tests.simulation", "--seed", "9"]
    there = subprocess.run(command, check=True, capture_output=True, text=True, env=env, timeout=100)
    assert f"seed 9: {here}" in there.stdout


@pytest.mark.ci
def test_another_seed_gives_another_history() -> None:
    assert run_seed(1).digest != run_seed(2).digest
