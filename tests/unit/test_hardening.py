"""Starts real processes: what counts is what the kernel shows of them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SECRET = "MTk4NjIy.Cl2FMQ.secret-of-the-bot"

#: Reports what it got and what the kernel shows of it, then waits until its input is closed.
PROGRAM = """
import ctypes, json, os, sys
from bot.hardening import shed_secrets
env = shed_secrets()
print(json.dumps({
    "token": env.get("NIGHTPORTER_DISCORD__TOKEN"),
    "mark": os.environ.get("NIGHTPORTER_MARK"),
    "plain": os.environ.get("PLAIN"),
    "ours": sorted(name for name in os.environ if name.startswith("NIGHTPORTER_")),
    "arguments": sys.argv,
    "memfds": [fd for fd in os.listdir("/proc/self/fd") if "memfd" in os.path.realpath(f"/proc/self/fd/{fd}")],
    "dumpable": ctypes.CDLL(None).prctl(3, 0, 0, 0, 0),
    "pid": os.getpid(),
}), flush=True)
sys.stdin.read()
"""


def start(tmp_path: Path, **variables: str) -> subprocess.Popen[bytes]:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    env = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), "PLAIN": "kept", **variables}
    return subprocess.Popen([sys.executable, str(program), "an argument"], env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE)


def read_line(process: subprocess.Popen[bytes]) -> dict[str, object]:
    assert process.stdout is not None
    report = json.loads(process.stdout.readline())
    assert isinstance(report, dict)
    return report


def test_no_other_process_finds_a_secret_in_the_environment_and_the_program_still_has_it(tmp_path: Path) -> None:
    with start(tmp_path, NIGHTPORTER_DISCORD__TOKEN=SECRET, NIGHTPORTER_DISCORD='{"token": "x"}', NIGHTPORTER_MARK="m1") as process:
        try:
            report = read_line(process)
            environment = Path(f"/proc/{process.pid}/environ").read_bytes()
            arguments = Path(f"/proc/{process.pid}/cmdline").read_bytes()
        finally:
            process.kill()
    assert report["token"] == SECRET
    assert b"PLAIN=kept" in environment, "this is the environment, and it can be read here"
    assert SECRET.encode() not in environment + arguments
    assert b"NIGHTPORTER_DISCORD" not in environment
    assert report["pid"] == process.pid, "a service manager still watches the right process"
    assert report["arguments"] == [str(tmp_path / "program.py"), "an argument"]
    assert report["mark"] == "m1", "the mark by which a process is found again is no secret and stays"
    assert report["plain"] == "kept"
    assert report["ours"] == ["NIGHTPORTER_MARK"], "children inherit nothing either"
    assert report["memfds"] == [], "nothing is left open"


@pytest.mark.parametrize("variables", [{}, {"NIGHTPORTER_DISCORD__TOKEN": SECRET}])
def test_the_process_is_not_dumpable_with_and_without_secrets_in_its_environment(tmp_path: Path, variables: dict[str, str]) -> None:
    with start(tmp_path, **variables) as process:
        try:
            report = read_line(process)
        finally:
            process.kill()
    assert report["dumpable"] == 0


#: Becomes another user, who may then read it or not as the argument says, and waits until its input is closed.
#: Changing the user makes a process undumpable too, so that is undone first.
SEEN = """
import ctypes, os, sys
from bot.hardening import _refuse_inspection
os.setuid(65534)
ctypes.CDLL(None).prctl(4, 1, 0, 0, 0)
if sys.argv[1] == "hardened":
    _refuse_inspection()
print("ready", flush=True)
sys.stdin.read()
"""
#: Tries, as the same user, to look into the process whose id it is given.
LOOK = """
import os, sys
os.setuid(65534)
for look in (lambda p: open(f"{p}/environ", "rb").close(), lambda p: os.listdir(f"{p}/fd")):
    try:
        look(f"/proc/{sys.argv[1]}")
        print("open")
    except PermissionError:
        print("closed")
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can start processes as another user, to look with that user's eyes")
@pytest.mark.parametrize(("how", "expected"), [("as it is", "open"), ("hardened", "closed")])
def test_a_process_of_the_same_user_can_look_into_it_only_while_it_is_not_hardened(how: str, expected: str) -> None:
    env = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT)}
    with subprocess.Popen([sys.executable, "-c", SEEN, how], env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"ready\n"
            seen = subprocess.run([sys.executable, "-c", LOOK, str(process.pid)], env=env, capture_output=True, text=True, check=True)
        finally:
            process.kill()
    assert seen.stdout.split() == [expected, expected]
