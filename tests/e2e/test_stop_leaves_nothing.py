"""P12 with the real program: nothing that a turn started outlives Nightporter, however it ends."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from bot.agents import procs
from bot.demo import leftovers
from storage.states import RunState
from tests.support.porter import Porter

pytestmark = pytest.mark.real_cli

#: From the SIGKILL of Nightporter to the end of its agent's last descendant (issue: acceptance of stage B).
_GONE_S = 2.0

#: Run by the agent's shell: starts two sleepers, one of them in a session of its own, says their pids, and sleeps too.
SLEEPERS = """\
import pathlib, subprocess, sys, time
sleep = [sys.executable, "-c", "import time; time.sleep(300)"]
one, two = subprocess.Popen(sleep), subprocess.Popen(["setsid", *sleep])
pathlib.Path("pids.part").write_text(f"{one.pid} {two.pid}")
pathlib.Path("pids.part").rename("pids")
time.sleep(300)
"""


async def test_nothing_of_a_turn_outlives_a_sigkill_of_nightporter(tmp_path: Path) -> None:
    async with Porter(tmp_path, agent="real") as porter:
        (porter.project / "sleepers.py").write_text(SLEEPERS)
        await porter.start()
        message = await porter.say("shell python3 sleepers.py")
        pids = porter.project / "pids"
        words = await porter.eventually(lambda: pids.read_text().split() if pids.exists() else None, "the sleepers say their pids")
        sleepers = {proc.pid: proc.start for word in words if (proc := procs.read(int(word))) is not None}
        run = await porter.run_of(message, RunState.DISPATCHED)
        agents = porter.agents()
        assert len(sleepers) == len(agents) == 2
        # The one under setsid has left the shell's session, and with it whatever kills by session or process group.
        assert len({os.getsid(pid) for pid in sleepers}) == 2
        running = {**sleepers, **agents}
        assert leftovers.alive(running) == sorted(running)

        await porter.kill()
        gone = [pid async for pid in leftovers.ended(running, _GONE_S)]
        assert sorted(gone) == sorted(running)
        assert leftovers.alive(running) == []
        assert procs.marked(json.loads(run.process or "{}")["mark"], procs.table()) == set()
        assert porter.left() == []


async def test_sigterm_lets_a_running_turn_end_and_leaves_nothing(tmp_path: Path) -> None:
    async with Porter(tmp_path, agent="real") as porter:
        await porter.start()
        message = await porter.say("tool Bash 2\nsay it is done")
        await porter.run_of(message, RunState.DISPATCHED)
        code = await porter.stop()
        assert code == 0
        assert (await porter.run_of(message)).state is RunState.SUCCEEDED
        assert porter.left() == []
        assert "Traceback" not in porter.output
        # What was not sent any more is sent by the next start.
        await porter.start()
        await porter.answer("it is done")
        await porter.at_rest()
        assert await porter.stop() == 0
        porter.assert_kept()
