"""The pool's side of the launcher: writes its orders, starts nothing itself, asks it questions, and proves processes dead."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import secrets
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bot.agents import launcher, procs
from bot.agents.base import AgentProcess, AgentUnavailable, Death
from bot.agents.host import host
from bot.clock import Clock

#: How long the launcher may take to answer; above its own limit for a sweep.
_ANSWER_S = 5.0

#: How long a successor tries to kill what an earlier owner left.
_PROOF_S = 3.0

#: A folder so old without a process is left over: between its making and its program's start there are milliseconds.
_LEFT_OVER_MS = 300_000

#: What of Nightporter's environment an agent needs to work at all. Nothing here is a secret.
_BASE_ENV = ("PATH", "HOME", "LANG", "TERM", "TZ", "USER")


def base_env(environ: Mapping[str, str]) -> dict[str, str]:
    """The part of `environ` that every agent gets; everything else must be named by the config or the adapter."""
    return {name: value for name, value in environ.items() if name in _BASE_ENV or name.startswith("LC_")}


class Launch:
    """One start of the launcher: a folder of its own under `state_dir`/run, the orders in it, and the socket."""

    def __init__(self, state_dir: Path, clock: Clock) -> None:
        self.mark = secrets.token_hex(8)
        self.folder = _folder(state_dir, self.mark)
        self._state_dir = state_dir
        self._clock = clock
        self._orders = self.folder / "orders.json"
        self._socket = self.folder / "s"
        #: The executable file to start, once the orders are written; from an installed wheel as well as from a source tree.
        self.path = ""

    def prepare(self, program: str, args: list[str], env: Mapping[str, str]) -> None:
        """Write the orders: what to start and its whole environment. A crash here leaves a folder that `forget` removes.

        Raises:
            AgentUnavailable: the state folder cannot be written.
        """
        orders = {
            "program": program,
            "args": args,
            "env": {**env, procs.MARK: self.mark},
            "mark": self.mark,
            "socket": str(self._socket),
            "parent": os.getpid(),
        }
        try:
            self.folder.mkdir(mode=0o700, parents=True)
            with os.fdopen(os.open(self._orders, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
                json.dump(orders, file)
            self.path = self._executable()
        except OSError as error:
            self.forget()
            raise AgentUnavailable(f"Cannot write to {self.folder}: {error.strerror}.") from error

    @property
    def env(self) -> dict[str, str]:
        """What the launcher itself must be started with."""
        return {launcher.ORDERS: str(self._orders), procs.MARK: self.mark}

    def _executable(self) -> str:
        """A stub that starts the launcher of this very code, or the console script where the state folder may not hold programs.

        Not the console script first: beside an interpreter that several checkouts share it may be another one's.
        """
        stub = self.folder / "launcher"
        # A shell script rather than a shebang of our own: interpreters' paths may be long or hold spaces.
        quoted = " ".join("'" + word.replace("'", "'\\''") + "'" for word in (sys.executable, "-I", "-S", launcher.__file__))
        stub.write_text(f'#!/bin/sh\nexec {quoted} "$@"\n', encoding="utf-8")
        stub.chmod(0o700)
        # False on a file system that is mounted noexec, access(2).
        return str(stub if os.access(stub, os.X_OK) else Path(sys.executable).with_name("nightporter-launcher"))

    async def identity(self) -> AgentProcess | None:
        """Who runs now; None if the launcher does not answer."""
        answer = await self._ask("identity")
        if answer is None or "error" in answer:
            return None
        return AgentProcess(
            host=host(self._state_dir),
            boot_id=str(answer["boot_id"]),
            launcher_pid=int(answer["launcher_pid"]),
            launcher_start=int(answer["launcher_start"]),
            agent_pid=int(answer["agent_pid"]),
            agent_start=int(answer["agent_start"]),
            mark=self.mark,
        )

    async def sweep(self) -> bool:
        """Whether nothing but the agent itself is left."""
        answer = await self._ask("sweep")
        return answer is not None and answer.get("left") == []

    async def kill(self) -> None:
        """End the agent and everything it started; bounded. Whether it worked, `prove_dead` tells."""
        await self._ask("kill")

    async def _ask(self, word: str) -> dict[str, Any] | None:
        """One question, one line of JSON; None if there was no answer in time."""
        asking = asyncio.ensure_future(self._exchange(word))
        limit = asyncio.ensure_future(self._clock.sleep(_ANSWER_S))
        try:
            await asyncio.wait({asking, limit}, return_when=asyncio.FIRST_COMPLETED)
            if not asking.done() or asking.exception() is not None:
                return None
            return asking.result()
        finally:
            for task in (asking, limit):
                task.cancel()
            await asyncio.gather(asking, limit, return_exceptions=True)

    async def _exchange(self, word: str) -> dict[str, Any] | None:
        folder = os.open(self.folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            # Through the descriptor, since a socket's path may have 107 characters and the state folder's may not fit.
            reader, writer = await asyncio.open_unix_connection(f"/proc/self/fd/{folder}/{self._socket.name}")
        finally:
            os.close(folder)
        try:
            writer.write(word.encode() + b"\n")
            await writer.drain()
            line = await reader.readline()
        finally:
            writer.close()
        answer = json.loads(line) if line else None
        return answer if isinstance(answer, dict) else None

    def forget(self) -> None:
        """Remove the folder, once nothing of the process is left."""
        shutil.rmtree(self.folder, ignore_errors=True)


def _folder(state_dir: Path, mark: str) -> Path:
    return state_dir / "run" / mark


async def prove_dead(process: AgentProcess, state_dir: Path) -> Death:
    """Kill what is left of an agent that this or an earlier owner started, and say what is known."""
    if process.host != host(state_dir):
        return Death.OTHER_HOST
    if process.boot_id != procs.boot_id():
        # The machine was started anew: nothing of before runs.
        return Death.DEAD
    recorded = {process.launcher_pid: process.launcher_start, process.agent_pid: process.agent_start}
    left = await asyncio.to_thread(procs.kill_marked, process.mark, recorded, _PROOF_S)
    if left:
        return Death.ALIVE
    if process.mark.isalnum():
        with contextlib.suppress(OSError):
            await asyncio.to_thread(shutil.rmtree, _folder(state_dir, process.mark), ignore_errors=True)
    return Death.DEAD


def forget_left_over(state_dir: Path, now_ms: int) -> int:
    """Remove the folders of launches that nothing runs of any more and nobody recorded; how many there were.

    A killed Nightporter leaves those of its idle agents, and no run names them. It reads all of /proc: call it in a thread.
    """
    try:
        folders = [folder for folder in (state_dir / "run").iterdir() if folder.stat().st_mtime * 1_000 < now_ms - _LEFT_OVER_MS]
    except OSError:
        return 0
    processes = procs.table() if folders else {}
    left = [folder for folder in folders if not procs.marked(folder.name, processes)]
    for folder in left:
        shutil.rmtree(folder, ignore_errors=True)
    return len(left)
