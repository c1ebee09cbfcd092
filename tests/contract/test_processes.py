"""P12 for every adapter: a turn leaves nothing behind, and nothing at all outlives its owner."""

from __future__ import annotations

import asyncio
import json
import os
import select
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from bot.agents import procs
from bot.agents.base import AgentProcess, Death, ToolEnded
from bot.agents.host import host
from tests.contract.harness import Rig, make_api, sleepers, sleeping, start, texts, turn

ROOT = Path(__file__).parents[2]

#: The promise itself (P12): nothing is alive this long after the owner's death.
PROMISED_S = 2.0


async def test_a_turn_leaves_nothing_behind_but_the_idle_agent(rig: Rig) -> None:
    session = await rig.open()
    playing = start(session, f"shell {sleepers(rig.folder)}\nsay started\nwait 5m x")
    await playing.until(lambda event: isinstance(event, ToolEnded))
    assert len(sleeping(rig.folder)) == 2
    await playing.end()
    assert await session.swept()
    assert sleeping(rig.folder) == []
    assert session.alive
    assert procs.marked(session.process.mark, procs.table()) == {session.process.launcher_pid, session.process.agent_pid}
    assert texts(await turn(session, "say on")) == ["on"]


async def test_closing_leaves_nothing_behind(rig: Rig) -> None:
    session = await rig.open()
    await turn(session, f"shell {sleepers(rig.folder)}")
    assert len(sleeping(rig.folder)) == 2
    await session.close()
    await session.close()
    assert sleeping(rig.folder) == []
    assert procs.marked(session.process.mark, procs.table()) == set()
    assert list((rig.root / "state" / "run").iterdir()) == []


async def test_a_successor_proves_an_agent_dead_that_outlived_its_launcher(rig: Rig) -> None:
    session = await rig.open()
    await turn(session, f"shell {sleepers(rig.folder)}")
    os.kill(session.process.launcher_pid, signal.SIGKILL)
    assert len(sleeping(rig.folder)) == 2
    assert await rig.provider.prove_dead(session.process) is Death.DEAD
    assert sleeping(rig.folder) == []


async def test_death_is_judged_by_start_time_boot_and_host_and_not_by_pid_alone(rig: Rig) -> None:
    me = procs.read(os.getpid())
    assert me is not None
    parent = procs.read(me.ppid)
    assert parent is not None
    # Pids that are used again: by this test's parent, which would not survive a mistake.
    used_again = parent.start - 1
    process = AgentProcess(host(rig.root / "state"), procs.boot_id(), parent.pid, used_again, parent.pid, used_again, "no-such-mark")
    assert await rig.provider.prove_dead(process) is Death.DEAD
    assert procs.alive(parent.pid, parent.start)
    recorded = replace(process, launcher_start=parent.start, agent_start=parent.start)
    assert await rig.provider.prove_dead(replace(recorded, boot_id="another boot")) is Death.DEAD
    assert await rig.provider.prove_dead(replace(recorded, host="another host")) is Death.OTHER_HOST
    assert procs.alive(parent.pid, parent.start)


@pytest.mark.parametrize("name", ["scripted", pytest.param("claude", marks=pytest.mark.real_cli)])
async def test_no_descendant_outlives_an_owner_that_is_killed_in_a_turn(name: str, tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    (tmp_path / "state").mkdir(mode=0o700)
    async with make_api() as api:
        prompt = f"shell {sleepers(project)}\nshell {sys.executable} -I -S -c 'import time; time.sleep(600)'\nsay never"
        owner = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "tests.contract.owner", name, str(tmp_path), api.url, prompt),
            cwd=ROOT,
            stdout=asyncio.subprocess.PIPE,
        )
        assert owner.stdout is not None
        try:
            process = AgentProcess(**json.loads(await owner.stdout.readline()))
            # The sleepers are started, and the turn goes on in a third command.
            for event in ("ToolStarted", "ToolEnded", "ToolStarted"):
                assert json.loads(await owner.stdout.readline()) == event
            descendants = sorted(procs.marked(process.mark, procs.table()))
            assert {process.launcher_pid, process.agent_pid} < set(descendants)
            assert {proc.pid for proc in sleeping(project)} < set(descendants)
            assert len(sleeping(project)) == 2
            with watched(descendants) as descriptors:
                owner.send_signal(signal.SIGKILL)
                assert await asyncio.to_thread(all_end, descriptors, PROMISED_S)
            assert procs.marked(process.mark, procs.table()) == set()
        finally:
            if owner.returncode is None:
                owner.kill()
            await owner.wait()
            procs.kill_marked(process.mark, {}, 2.0)


@contextmanager
def watched(pids: Sequence[int]) -> Iterator[list[int]]:
    """A descriptor for each process, held before anything is killed."""
    with ExitStack() as stack:
        descriptors = []
        for pid in pids:
            descriptor = os.pidfd_open(pid)
            stack.callback(os.close, descriptor)
            descriptors.append(descriptor)
        yield descriptors


def all_end(descriptors: Sequence[int], limit_s: float) -> bool:
    """Whether every process ends within the limit; the kernel tells, nothing polls."""
    poller = select.poll()
    for descriptor in descriptors:
        poller.register(descriptor, select.POLLIN)
    waiting = set(descriptors)
    while waiting:
        news = poller.poll(limit_s * 1000)
        if not news:
            return False
        for descriptor, _ in news:
            poller.unregister(descriptor)
            waiting.discard(descriptor)
    return True
