"""Finds and kills processes by walking /proc, so that a turn leaves nothing behind (P12).

Standard library only, because the launcher imports it and must start in milliseconds. Everything here blocks for at most its
own deadline; the event loop calls it in a thread. It reads `time.monotonic` itself: the launcher is a process of its own and
has no clock to be handed. Linux only: layouts are those of proc(5), pidfd_open(2) and pidfd_send_signal(2).
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable, Mapping
from typing import NamedTuple

#: The environment variable that the launcher and all its descendants carry.
MARK = "NIGHTPORTER_MARK"

#: How long one killed process may take to disappear before it is looked for again.
_PAUSE_S = 0.004

#: Clean passes in a row before "none left" is believed: a process that forks and ends while /proc is being read hides its child
#: from that pass. A subreaper sees every such end (its own children die), so for it two passes without one prove that none is left.
_CLEAN_PASSES = 2


class Proc(NamedTuple):
    """One process as /proc shows it. No dataclass: importing those costs the launcher a third of its start."""

    pid: int
    ppid: int
    #: State letter, e.g. "Z" for a zombie, which runs nothing any more.
    state: str
    #: Clock ticks since boot; with the pid and the boot id it names one process for ever.
    start: int
    #: Threads that have not ended yet; a killed process still holds its files until the last one has.
    threads: int

    @property
    def runs(self) -> bool:
        """False for what has ended and only waits to be reaped. A first thread that has ended is a zombie while others work on."""
        return self.state not in {"Z", "X", "x"} or self.threads > 1


def boot_id() -> str:
    """The kernel's id of this boot (random(4)); pids and start times mean nothing under another one."""
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:  # noqa: PTH123
        return file.read().strip()


def read(pid: int) -> Proc | None:
    """The process with this pid, or None if there is none."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:  # noqa: PTH123  # pathlib costs as much as the read, for each process
            raw = file.read()
    except OSError:
        return None
    # The name (field 2) may hold spaces and parentheses: the fields after it begin behind the last ")".
    fields = raw[raw.rindex(b")") + 2 :].split()
    return Proc(pid, int(fields[1]), fields[0].decode("ascii"), int(fields[19]), int(fields[17]))


def table() -> dict[int, Proc]:
    """All processes of this pid namespace."""
    found: dict[int, Proc] = {}
    for name in os.listdir("/proc"):  # noqa: PTH208  # names are all that is wanted
        if name.isdigit() and (proc := read(int(name))) is not None:
            found[proc.pid] = proc
    return found


def descendants(root: int, processes: Mapping[int, Proc]) -> set[int]:
    """The pids of all children of `root`, their children, and so on, without `root`."""
    children: dict[int, list[int]] = {}
    for proc in processes.values():
        children.setdefault(proc.ppid, []).append(proc.pid)
    found: set[int] = set()
    todo = [root]
    while todo:
        for child in children.get(todo.pop(), ()):
            if child not in found:
                found.add(child)
                todo.append(child)
    return found


def children(pid: int) -> set[int]:
    """The children of a process with one thread, the ended ones too; empty where the kernel does not list them (proc(5))."""
    try:
        with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:  # noqa: PTH123
            return {int(child) for child in file.read().split()}
    except OSError:
        return set()


def marked(mark: str, processes: Mapping[int, Proc]) -> set[int]:
    """The pids that were started with `NIGHTPORTER_MARK=mark` in their environment.

    A process of another user, or one that made itself undumpable, cannot be read and is not found here.
    """
    needle = f"{MARK}={mark}".encode()
    found: set[int] = set()
    for pid in processes:
        try:
            with open(f"/proc/{pid}/environ", "rb") as file:  # noqa: PTH123
                environ = file.read()
        except OSError:
            continue
        if needle in environ.split(b"\0"):
            found.add(pid)
    return found


def alive(pid: int, start: int) -> bool:
    """Whether exactly this process (not a later one with the same pid) still runs."""
    proc = read(pid)
    return proc is not None and proc.start == start and proc.runs


def kill(proc: Proc) -> None:
    """SIGKILL exactly this process; one that has ended, or whose pid is used again, is left alone."""
    try:
        fd = os.pidfd_open(proc.pid)
    except OSError:
        return
    try:
        # Checked after the pidfd is held: from here on the descriptor names one process only.
        now = read(proc.pid)
        if now is not None and now.start == proc.start:
            # A refusal (another user's process) shows as "still there" in the next pass.
            with contextlib.suppress(OSError):
                signal.pidfd_send_signal(fd, signal.SIGKILL)
    finally:
        os.close(fd)


def kill_until_none(select: Callable[[Mapping[int, Proc]], set[int]], deadline_s: float, reap: Callable[[], int] = lambda: 0) -> set[int]:
    """Kill what `select` finds, again and again, until nothing that runs is found; return what is left at the deadline.

    `reap` is called after each pass and says how many children have ended: a pass in which one ended is not clean, since it may
    have left a child behind where the pass had looked already. An empty answer was confirmed by a second full pass.
    """
    end = time.monotonic() + deadline_s
    clean = 0
    while True:
        processes = table()
        left = {pid for pid in select(processes) if processes[pid].runs}
        for pid in left:
            kill(processes[pid])
        ended = reap()
        clean = 0 if left or ended else clean + 1
        if clean >= _CLEAN_PASSES:
            return set()
        if time.monotonic() >= end:
            return left
        if left:
            time.sleep(_PAUSE_S)


def kill_marked(mark: str, recorded: Mapping[int, int], deadline_s: float) -> set[int]:
    """Kill all that carries `mark` and each `recorded` pid with its start time; return what is left at the deadline.

    What they have as descendants at that moment goes with them.
    """

    def select(processes: Mapping[int, Proc]) -> set[int]:
        roots = {pid for pid, start in recorded.items() if pid in processes and processes[pid].start == start}
        found = marked(mark, processes) | roots
        for root in tuple(found):
            found |= descendants(root, processes)
        found.discard(os.getpid())
        return found

    return kill_until_none(select, deadline_s)
