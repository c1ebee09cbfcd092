"""Looks for what a demo may have left behind: processes that carry its mark or work in its folder, and open sockets."""

from __future__ import annotations

import asyncio
import json
import os
import socket
from collections.abc import AsyncIterator, Iterable
from pathlib import Path

from bot.agents import procs
from bot.demo.process import MARK

#: State "listening" in /proc/net/tcp (include/net/tcp_states.h).
_LISTEN = "0A"
_HIDDEN = "?"


def processes(mark: str, folder: Path, launched: Iterable[str] = ()) -> list[str]:
    """Every process that carries the mark or one of the launcher's in its environment, or works in `folder`: "pid command"."""
    needles = {f"{MARK}={mark}".encode(), *(f"{procs.MARK}={one}".encode() for one in launched)}
    found = []
    for proc in procs.table().values():
        if not proc.runs:
            continue
        here = Path("/proc") / str(proc.pid)
        environ, command = _bytes(here / "environ"), _bytes(here / "cmdline")
        marked = not needles.isdisjoint(environ.split(b"\0")) or str(folder).encode() in command
        if marked or _works_in(here, folder):
            words = command.replace(b"\0", b" ").decode("utf-8", "replace").strip() or _HIDDEN
            found.append(f"{proc.pid} {words[:80]}")
    return found


def agents(process_rows: Iterable[str | None]) -> dict[int, int]:
    """Pid and start time of every agent's process (launcher and program) that the runs' `process` columns name."""
    found: dict[int, int] = {}
    for row in process_rows:
        if row:
            values = json.loads(row)
            found[values["launcher_pid"]] = values["launcher_start"]
            found[values["agent_pid"]] = values["agent_start"]
    return found


def alive(recorded: dict[int, int]) -> list[int]:
    """Which of these processes still run."""
    return sorted(pid for pid, start in recorded.items() if procs.alive(pid, start))


async def ended(running: dict[int, int], patience_s: float) -> AsyncIterator[int]:
    """Yield the pid of each of these processes as it ends; raises TimeoutError when one is still there after `patience_s`."""
    async with asyncio.timeout(patience_s):
        for pid, start in running.items():
            try:
                descriptor = os.pidfd_open(pid)
            except ProcessLookupError:
                yield pid
                continue
            gone = asyncio.Event()
            # Readable once the process has ended (pidfd_open(2)).
            asyncio.get_running_loop().add_reader(descriptor, gone.set)
            try:
                # Asked after the descriptor is held: from here on it names one process only.
                if procs.alive(pid, start):
                    await gone.wait()
            finally:
                asyncio.get_running_loop().remove_reader(descriptor)
                os.close(descriptor)
            yield pid


def marks(process_rows: Iterable[str | None]) -> set[str]:
    """The marks that the launcher gave to the agents in these rows."""
    return {str(json.loads(row)["mark"]) for row in process_rows if row}


def sockets(ports: Iterable[int], folder: Path) -> list[str]:
    """Listening TCP ports among `ports`, and unix sockets in `folder` that somebody listens on."""
    wanted = {f"{port:04X}" for port in ports}
    found = []
    for line in _text(Path("/proc/net/tcp")).splitlines()[1:]:
        fields = line.split()
        port = fields[1].rpartition(":")[2]
        if fields[3] == _LISTEN and port in wanted:
            found.append(f"port {int(port, 16)} is listening")
    return found + [f"socket {path} is open" for path in folder.rglob("*") if path.is_socket() and _answers(path)]


def _answers(path: Path) -> bool:
    folder = os.open(path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
            # Through the descriptor: a socket's path may have 107 characters (unix(7)).
            client.connect(f"/proc/self/fd/{folder}/{path.name}")
            return True
    except OSError:
        return False
    finally:
        os.close(folder)


def _works_in(here: Path, folder: Path) -> bool:
    try:
        return (here / "cwd").readlink().is_relative_to(folder)
    except OSError:
        return False


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


def _text(path: Path) -> str:
    return _bytes(path).decode("utf-8", "replace")
