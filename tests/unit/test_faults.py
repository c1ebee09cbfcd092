"""The crash points: silent in production, a SIGKILL at exactly the pass that was ordered."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from bot.errors import ConfigError
from bot.faults import CRASH_VARIABLE, crash_hook

PASSES = """\
import asyncio, os
from bot.faults import crash_hook
from storage.points import no_fault

async def main():
    hook = crash_hook(os.environ) or no_fault
    for _ in range(3):
        for point in ("C3.before", "C3.after"):
            print(point, flush=True)
            await hook(point)

asyncio.run(main())
"""


def passes(order: str | None) -> tuple[int, int]:
    """Exit code, and how many points were reached."""
    env = {} if order is None else {CRASH_VARIABLE: order}
    done = subprocess.run(
        [sys.executable, "-c", PASSES], env={"PYTHONPATH": ":".join(sys.path), **env}, capture_output=True, text=True, check=False
    )
    return done.returncode, len(done.stdout.splitlines())


def test_without_an_order_nothing_happens() -> None:
    assert passes(None) == (0, 6)


@pytest.mark.parametrize(("order", "reached"), [("C3.before:1", 1), ("C3.after:1", 2), ("C3.before:3", 5)])
def test_the_process_dies_at_that_point_in_that_pass(order: str, reached: int) -> None:
    assert passes(order) == (-signal.SIGKILL, reached)


@pytest.mark.parametrize("order", ["C3", "C3.before", "C3.before:0", "C3.during:1", "C33.before:1", "agent.turn:1"])
def test_an_order_that_cannot_be_read_is_an_error(order: str) -> None:
    with pytest.raises(ConfigError, match=CRASH_VARIABLE):
        crash_hook({CRASH_VARIABLE: order})
