"""What a killed Nightporter leaves in its state folder does not pile up."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from bot.agents import procs
from bot.agents.launch import forget_left_over

NOW_MS = 2_000_000_000_000


def folder(state: Path, mark: str, age_s: int) -> Path:
    made = state / "run" / mark
    (made / "t").mkdir(parents=True)
    (made / "instructions.md").write_text("x")
    os.utime(made, (NOW_MS / 1_000 - age_s,) * 2)
    return made


def test_only_old_folders_of_launches_that_nothing_runs_of_are_removed(tmp_path: Path) -> None:
    left, new, alive = folder(tmp_path, "00aa", 3_600), folder(tmp_path, "00bb", 10), folder(tmp_path, "00cc", 3_600)
    with subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", "input()"], stdin=subprocess.PIPE, env={**os.environ, procs.MARK: "00cc"}
    ) as running:
        assert forget_left_over(tmp_path, NOW_MS) == 1
        running.communicate(b"\n")
    assert (left.exists(), new.exists(), alive.exists()) == (False, True, True)


def test_a_state_folder_without_any_launch_has_nothing_left_over(tmp_path: Path) -> None:
    assert forget_left_over(tmp_path, NOW_MS) == 0
