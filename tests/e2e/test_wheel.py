"""The built wheel holds all that is needed: installed into an empty environment, it waits and is woken from an empty folder.

A helper that exists only in the source tree is the classic fault; so nothing here may find the source tree.
"""

from __future__ import annotations

import importlib.util
import os
import pwd
import subprocess
import sys
import zipfile
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

import pytest

from bot.agents import procs
from storage.states import ContinuationState, RunState
from tests.support.porter import Porter

ROOT = Path(__file__).resolve().parents[2]

#: The first installation on a machine may have to fetch the packages, 250 MB of them.
pytestmark = [pytest.mark.ci, pytest.mark.timeout(600)]


def run(words: Sequence[str | Path], folder: Path) -> subprocess.CompletedProcess[str]:
    """A command in `folder` that finds nothing of this checkout, with the caches of the user who runs the tests."""
    home = pwd.getpwuid(os.getuid()).pw_dir
    env = {name: value for name, value in os.environ.items() if name not in {"PYTHONPATH", "VIRTUAL_ENV"}} | {"HOME": home}
    return subprocess.run([str(word) for word in words], cwd=folder, env=env, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from this checkout without fetching anything."""
    folder = tmp_path_factory.mktemp("wheel")
    built = run([sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder], ROOT)
    assert built.returncode == 0, built.stderr
    (found,) = folder.glob("*.whl")
    return found


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The `bin` folder of an environment that holds the wheel, what it depends on, and nothing else."""
    folder = tmp_path_factory.mktemp("installed")
    made = run([sys.executable, "-m", "venv", "--without-pip", folder / "venv"], folder)
    assert made.returncode == 0, made.stderr
    bin_folder = folder / "venv" / "bin"
    what: list[str | Path] = ["install", "-c", ROOT / "constraints.txt", wheel]
    # What is quickest with what is there: uv's cache, pip's cache, the network.
    uv: list[str | Path] = [Path(sys.executable).with_name("uv"), "pip", *what, "--python", bin_folder / "python"]
    pip: list[str | Path] = [sys.executable, "-m", "pip", "--python", bin_folder / "python", *what]
    ways: list[list[str | Path]] = [[*uv, "--offline"], *([pip] if importlib.util.find_spec("pip") else []), uv]
    said = []
    for way in ways:
        done = run(way, folder)
        if done.returncode == 0:
            return bin_folder
        said.append(done.stderr)
    raise AssertionError("\n".join(said))


def test_every_module_is_in_the_wheel(wheel: Path) -> None:
    inside = set(zipfile.ZipFile(wheel).namelist())
    there = {str(path.relative_to(ROOT)) for package in ("bot", "cogs", "storage") for path in (ROOT / package).rglob("*.py")}
    assert there <= inside


def test_it_says_its_version_from_an_empty_folder(installed: Path, tmp_path: Path) -> None:
    said = run([installed / "nightporter", "--version"], tmp_path)
    assert (said.returncode, said.stdout.strip()) == (0, f"nightporter, version {version('nightporter')}")


@pytest.mark.real_cli
async def test_it_waits_and_is_woken_from_an_empty_folder(installed: Path, tmp_path: Path) -> None:
    command = (str(installed / "nightporter"), "run")
    async with Porter(tmp_path, agent="real", command=command, env={"PYTHONPATH": ""}) as porter:
        checked = run([installed / "nightporter", "check-config"], tmp_path)
        assert checked.returncode == 0, checked.stdout + checked.stderr
        assert str(installed.parent) in checked.stdout, "the agent's program is the installed one"

        await porter.start()
        message = await porter.say("wait 1s say I looked again\nsay I look again")
        await porter.answer("I look again")
        await porter.answer("I looked again")
        await porter.continuation(ContinuationState.DISPATCHED)
        run_row = await porter.run_of(message, RunState.SUCCEEDED)
        for pid in porter.agents():
            assert b"site-packages" in Path(f"/proc/{pid}/cmdline").read_bytes()
            assert str(ROOT).encode() + b"/bot" not in Path(f"/proc/{pid}/cmdline").read_bytes()
        assert run_row.process is not None
        await porter.at_rest()
        assert await porter.stop() == 0
        assert "Traceback" not in porter.output
        assert not procs.marked(porter.mark, procs.table())
        porter.assert_kept()
