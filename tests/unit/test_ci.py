"""The scripts that decide whether a change may land must themselves say no."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CASE = '<testcase classname="tests.unit.test_x" name="test_y[1]">{}</testcase>'
SKIPPED = CASE.format('<skipped type="pytest.skip" message="no such tool"/>')


@pytest.mark.parametrize(
    ("cases", "allowed", "complaint"),
    [
        (CASE.format(""), "", None),
        (SKIPPED, "tests.unit.test_x::test_y*  # the tool is not everywhere", None),
        (SKIPPED, "", "tests.unit.test_x::test_y[1]: no such tool"),
        (SKIPPED, "tests.unit.test_z::*  # another one", "tests.unit.test_x::test_y[1]: no such tool"),
        (CASE.format(""), "tests.unit.test_x::test_y*", "no reason given for tests.unit.test_x::test_y*"),
        ("", "", "no test ran"),
    ],
)
def test_a_skip_that_is_not_on_the_list_with_a_reason_fails(tmp_path: Path, cases: str, allowed: str, complaint: str | None) -> None:
    shutil.copy(ROOT / ".ci" / "skips.py", tmp_path)
    (tmp_path / "allowed-skips").write_text(allowed)
    (tmp_path / "report.xml").write_text(f"<testsuites><testsuite>{cases}</testsuite></testsuites>")
    result = subprocess.run([sys.executable, "skips.py", "report.xml"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (result.returncode != 0) == (complaint is not None)
    assert (complaint or "") in result.stderr


def test_the_lock_files_hold_versions_and_hashes_and_no_address() -> None:
    constraints = (ROOT / "constraints.txt").read_text().splitlines()
    assert all("==" in line.partition(";")[0] for line in constraints)
    lock = (ROOT / "requirements.lock").read_text()
    assert "://" not in lock
    pinned = [line for line in lock.splitlines() if not line.startswith(" ")]
    assert {line.partition(" ")[0] for line in pinned} <= {line.partition(" ")[0] for line in constraints}
    assert lock.count("--hash=sha256:") >= len(pinned)


def test_the_image_installs_only_what_was_hashed_and_does_not_run_as_root() -> None:
    lines = (ROOT / "Dockerfile").read_text().splitlines()
    installs = [line for line in lines if "nightporter/bin/pip install" in line]
    assert len(installs) == 2
    assert all("--require-hashes -r requirements.lock" in line or "--no-deps" in line for line in installs)
    users = [line.split()[1] for line in lines if line.startswith("USER ")]
    assert users == ["porter"]
