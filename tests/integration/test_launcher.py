"""The launcher alone, with a shell in the agent's place: nothing of the agent outlives the agent, a sweep, or the owner."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from bot.agents import launcher, procs
from bot.agents.host import host
from bot.agents.launch import Launch
from bot.clock import SystemClock

PYTHON = f"{sys.executable} -I -S -c"
#: Says that it runs by a byte in the file `up`, then stays.
SLEEP = f"""{PYTHON} 'import time; up = open("up", "a"); up.write("x"); up.flush(); time.sleep(600)' """

#: Forks and ends again and again, so that a single look at /proc can miss it.
#: Bounded, so that a broken sweep does not harm the machine.
HOPPER = f"""{PYTHON} 'import os, sys
sys.stdout.close()
for _ in range(20_000):
    if os.fork():
        os._exit(0)' """


class Shell:
    """A shell under the launcher, which runs what it is told."""

    def __init__(self, launch: Launch, process: asyncio.subprocess.Process) -> None:
        self.launch = launch
        self.process = process

    async def run(self, command: str) -> list[str]:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{command}\necho END-OF-OUTPUT\n".encode())
        lines = []
        while (line := (await self.process.stdout.readline()).decode().rstrip("\n")) != "END-OF-OUTPUT":
            lines.append(line)
        return lines

    async def run_sleepers(self, command: str, count: int = 1) -> None:
        """Run a command that starts so many sleepers, and return once they run."""
        await self.run(f"cd {self.launch.folder}; : > up; {command}\nwhile [ $(wc -c < up) -lt {count} ]; do sleep 0.01; done")
        assert len(self.descendants()) > count

    def descendants(self) -> set[int]:
        """Those that run: a zombie waits for its parent to read its end, and that may be the agent's affair."""
        processes = procs.table()
        return {pid for pid in procs.descendants(self.process.pid, processes) if processes[pid].runs}


async def started(launch: Launch, program: str = "/bin/sh") -> asyncio.subprocess.Process:
    launch.prepare(program, [], {"PATH": os.environ["PATH"], "WANTED": "1"})
    return await asyncio.create_subprocess_exec(
        launch.path,
        env={**os.environ, "NIGHTPORTER_TOKEN": "secret", **launch.env},
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )


@pytest_asyncio.fixture(name="launch")
async def _launch(tmp_path: Path) -> AsyncIterator[Launch]:
    launch = Launch(tmp_path, SystemClock())
    yield launch
    procs.kill_marked(launch.mark, {}, 2.0)


@pytest_asyncio.fixture(name="shell")
async def _shell(launch: Launch) -> AsyncIterator[Shell]:
    process = await started(launch)
    yield Shell(launch, process)
    # Asked first: a descendant without the mark is known to the launcher only.
    await launch.kill()
    if process.returncode is None:
        process.kill()
    await process.communicate()


async def test_the_agents_environment_is_exactly_what_was_ordered(shell: Shell) -> None:
    names = {line.split("=")[0] for line in await shell.run("env")}
    assert names - {"PWD", "OLDPWD", "SHLVL", "_"} == {"PATH", "WANTED", procs.MARK}
    environ = Path(f"/proc/{shell.process.pid}/environ").read_bytes()
    assert environ.rstrip(b"\0").split(b"\0") == [f"{procs.MARK}={shell.launch.mark}".encode()]


async def test_it_says_who_it_and_the_agent_are(shell: Shell, tmp_path: Path) -> None:
    (pid,) = await shell.run("echo $$")
    identity = await shell.launch.identity()
    assert identity is not None
    assert (identity.launcher_pid, identity.agent_pid) == (shell.process.pid, int(pid))
    for process, start in ((identity.launcher_pid, identity.launcher_start), (identity.agent_pid, identity.agent_start)):
        assert procs.alive(process, start)
    assert (identity.boot_id, identity.host, identity.mark) == (procs.boot_id(), host(tmp_path), shell.launch.mark)


@pytest.mark.parametrize(
    ("command", "count"),
    [
        (f"{SLEEP} &", 1),
        (f"setsid {SLEEP} &", 1),
        (f"(setsid {SLEEP} &) &", 1),
        (f"(env -i {SLEEP} &) &", 1),
        (f"trap '' TERM HUP INT; {SLEEP} &", 1),
        (f"for i in 1 2 3 4 5; do (setsid {SLEEP} &); done", 5),
    ],
)
async def test_a_sweep_leaves_only_the_agent(shell: Shell, command: str, count: int) -> None:
    (agent,) = await shell.run("echo $$")
    await shell.run_sleepers(command, count)
    assert await shell.launch.sweep()
    assert shell.descendants() == {int(agent)}
    assert await shell.run("echo on") == ["on"]


async def test_a_sweep_catches_a_process_that_flees_by_forking(shell: Shell) -> None:
    (agent,) = await shell.run("echo $$")
    await shell.run(f"{HOPPER} &")
    assert await shell.launch.sweep()
    assert shell.descendants() == {int(agent)}


async def test_the_agents_exit_code_is_passed_on_and_what_it_had_started_dies_with_it(shell: Shell) -> None:
    await shell.run_sleepers(f"(setsid {SLEEP} &)")
    assert shell.process.stdin is not None
    shell.process.stdin.write(b"exit 3\n")
    assert await shell.process.wait() == 3
    assert procs.marked(shell.launch.mark, procs.table()) == set()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
async def test_a_signal_ends_the_agent_and_everything_it_started(shell: Shell, number: signal.Signals) -> None:
    await shell.run_sleepers(f"trap '' TERM INT HUP; (setsid {SLEEP} &)")
    shell.process.send_signal(number)
    assert await shell.process.wait() != 0
    assert procs.marked(shell.launch.mark, procs.table()) == set()


async def test_kill_ends_everything(shell: Shell) -> None:
    await shell.run_sleepers(f"(setsid {SLEEP} &)")
    await shell.launch.kill()
    await shell.process.wait()
    assert procs.marked(shell.launch.mark, procs.table()) == set()
    assert await shell.launch.identity() is None
    assert not await shell.launch.sweep()


async def test_a_client_that_says_nothing_does_not_stop_the_next(shell: Shell) -> None:
    await shell.run(":")
    reader, writer = await asyncio.open_unix_connection(str(shell.launch.folder / "s"))
    assert await shell.launch.sweep()
    writer.close()
    with contextlib.suppress(ConnectionError):
        await writer.wait_closed()
    assert await reader.read() == b""


async def test_a_missing_program_is_one_sentence(launch: Launch) -> None:
    process = await started(launch, "/nothing/here")
    _, stderr = await process.communicate()
    assert process.returncode == 127
    assert stderr.decode() == "nightporter-launcher: cannot start /nothing/here: No such file or directory.\n"


async def test_nothing_is_started_for_an_owner_that_has_died(launch: Launch) -> None:
    launch.prepare("/bin/sh", ["-c", f"touch {launch.folder}/began"], {})
    orders = launch.folder / "orders.json"
    orders.write_text(orders.read_text().replace(f'"parent": {os.getpid()}', '"parent": 1'))
    process = await asyncio.create_subprocess_exec(launch.path, env=launch.env, stderr=asyncio.subprocess.PIPE)
    _, stderr = await process.communicate()
    assert process.returncode == 70
    assert b"has ended" in stderr
    assert not (launch.folder / "began").exists()


async def test_started_by_a_person_it_explains_itself() -> None:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "bot.agents.launcher"), cwd=Path(__file__).parents[2], env={}, stderr=asyncio.subprocess.PIPE
    )
    _, stderr = await process.communicate()
    assert process.returncode == 64
    assert launcher.ORDERS in stderr.decode()
    assert "Traceback" not in stderr.decode()
