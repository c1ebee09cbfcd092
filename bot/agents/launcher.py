"""The launcher: stands between Nightporter and an agent's program, so that nothing of the agent outlives either (P12).

It is started in place of the agent with the agent's arguments, and takes its orders from a file named by the environment
variable NIGHTPORTER_LAUNCH (see `Orders`). It becomes a session leader and a subreaper, asks for SIGTERM when Nightporter
dies, builds the agent's environment from the orders alone, starts the agent on the pipes that it inherited, and answers two
questions on a unix socket: who are you (`identity`), and is anything left of the turn (`sweep`). When the agent ends, when it
is told to (`kill`, SIGTERM) or when Nightporter dies, it kills every descendant and ends.

Standard library only. If the launcher itself is killed, the agent gets SIGKILL from the kernel (PR_SET_PDEATHSIG), and what
the agent had started is found by its mark (`procs.kill_marked`).
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import selectors
import signal
import socket
import sys
from collections.abc import Mapping
from types import FrameType
from typing import NoReturn

if __package__ in {None, ""}:
    # Started by path in isolated mode: the package's parent is not on the path. It comes last, since it may be a whole
    # site-packages, in which nothing may stand in for the standard library.
    sys.path.append(os.path.realpath(__file__).rsplit("/", 3)[0])

from bot.agents import procs

#: Names the file with the orders; the only variable besides the mark that is read.
ORDERS = "NIGHTPORTER_LAUNCH"

#: sysexits.h EX_USAGE, EX_SOFTWARE; 127 is what a shell says for a program that cannot be started.
_EXIT_USAGE, _EXIT_ORPHAN, _EXIT_NO_PROGRAM = 64, 70, 127

#: prctl(2), linux/prctl.h.
_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36

#: A sweep or a last kill gives up after this long and says what is left. Shorter than the adapter's patience.
_SWEEP_S = 3.0

#: Tries to catch an orphan that flees by forking before everything is looked at again.
_BURST = 500

#: A client that connects and says nothing must not hold up the sweep of another.
_CLIENT_S = 0.2


class Orders:
    """What the adapter wants started: a JSON file, mode 0600, removed as soon as it is read."""

    def __init__(self, raw: str) -> None:
        data = json.loads(raw)
        self.program: str = data["program"]
        #: Arguments that come before those the launcher was called with.
        self.args: list[str] = data.get("args", [])
        #: The agent's whole environment; nothing else is passed on.
        self.env: dict[str, str] = data["env"]
        self.mark: str = data["mark"]
        #: Where to listen; its folder is 0700, which is all the authentication there is.
        self.socket: str = data["socket"]
        #: The pid that must be our parent, else Nightporter died before we could ask for its death signal.
        self.parent: int = data["parent"]


def _prctl(option: int, value: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(option, ctypes.c_ulong(value), 0, 0, 0) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def _fail(code: int, sentence: str) -> NoReturn:
    sys.stderr.write(f"nightporter-launcher: {sentence}\n")
    sys.stderr.flush()
    os._exit(code)


def listen(path: str) -> socket.socket:
    """A listening unix socket at `path`, however long the path is (sun_path holds 108 bytes, unix(7))."""
    folder, name = os.path.split(path)
    fd = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    old = os.umask(0o177)
    try:
        server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
        server.bind(f"/proc/self/fd/{fd}/{name}")
        server.listen(8)
    finally:
        os.umask(old)
        os.close(fd)
    return server


class Launcher:
    """The running launcher: one agent, one socket, one thread."""

    def __init__(self, orders: Orders, arguments: list[str]) -> None:
        self._orders = orders
        self._arguments = [orders.program, *orders.args, *arguments]
        self._me = procs.read(os.getpid())
        self._agent: procs.Proc | None = None
        self._status: int | None = None
        self._dying = False
        # Signals only wake the selector; the work is done in the loop, or in the sweep that is under way.
        self._wake_read, self._wake_write = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)

    def run(self) -> int:
        """Start the agent, serve until it ends or we must, leave nothing behind, and return the exit code."""
        signal.set_wakeup_fd(self._wake_write, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, self._on_end_signal)
        _prctl(_PR_SET_CHILD_SUBREAPER, 1)
        _prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != self._orders.parent:
            _fail(_EXIT_ORPHAN, "the process that wanted the agent has ended.")
        server = listen(self._orders.socket)
        try:
            self._start_agent()
            self._detach()
            self._serve(server)
        finally:
            with contextlib.suppress(OSError):
                os.unlink(self._orders.socket)  # noqa: PTH108
            self._dying = True
            self._sweep()
        if self._status is None:
            return 128 + signal.SIGTERM
        code = os.waitstatus_to_exitcode(self._status)
        return code if code >= 0 else 128 - code

    def _on_end_signal(self, _number: int, _frame: FrameType | None) -> None:
        self._dying = True

    def _start_agent(self) -> None:
        launcher = os.getpid()
        pid = os.fork()
        if pid == 0:
            self._become_agent(launcher)
        self._agent = procs.read(pid)

    def _become_agent(self, launcher: int) -> NoReturn:
        try:
            signal.set_wakeup_fd(-1)
            for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD, signal.SIGPIPE):
                signal.signal(number, signal.SIG_DFL)
            _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
            if os.getppid() != launcher:
                os._exit(_EXIT_ORPHAN)
            os.execve(self._orders.program, self._arguments, self._orders.env)  # noqa: S606  # no shell is the point
        except OSError as error:
            _fail(_EXIT_NO_PROGRAM, f"cannot start {self._orders.program}: {error.strerror}.")

    def _detach(self) -> None:
        """Let go of the agent's pipes and folder: its end of file must reach Nightporter, and the folder may be removed."""
        null = os.open(os.devnull, os.O_RDWR)
        os.dup2(null, 0)
        os.dup2(null, 1)
        os.close(null)
        os.chdir("/")

    def _serve(self, server: socket.socket) -> None:
        with selectors.DefaultSelector() as selector:
            selector.register(server, selectors.EVENT_READ)
            selector.register(self._wake_read, selectors.EVENT_READ)
            while not self._dying and self._status is None:
                for key, _ in selector.select():
                    if key.fileobj is server:
                        self._accept(server)
                    else:
                        with contextlib.suppress(BlockingIOError):
                            os.read(self._wake_read, 4096)
                # The wake-up descriptor is set before the fork, so the end of every child brings us here.
                self._reap()

    def _accept(self, server: socket.socket) -> None:
        connection, _ = server.accept()
        with connection:
            connection.settimeout(_CLIENT_S)
            try:
                word = connection.recv(64).decode("ascii", "replace").strip()
                connection.sendall(json.dumps(self._answer(word)).encode() + b"\n")
            except OSError:
                # The asker went away; it will ask again or find the process dead.
                return

    def _answer(self, word: str) -> Mapping[str, object]:
        match word:
            case "identity":
                if self._me is None or self._agent is None:
                    return {"error": "the agent has ended"}
                return {
                    "boot_id": procs.boot_id(),
                    "launcher_pid": self._me.pid,
                    "launcher_start": self._me.start,
                    "agent_pid": self._agent.pid,
                    "agent_start": self._agent.start,
                    "mark": self._orders.mark,
                }
            case "sweep":
                return {"left": sorted(self._sweep())}
            case "kill":
                self._dying = True
                return {"left": sorted(self._sweep())}
            case _:
                return {"error": f"unknown request {word!r}"}

    def _sweep(self) -> set[int]:
        """Kill all descendants, the agent too once we are dying; return what is left."""

        def select(processes: Mapping[int, procs.Proc]) -> set[int]:
            me = os.getpid()
            found = procs.descendants(me, processes) | procs.marked(self._orders.mark, processes)
            found.discard(me)
            if self._agent is not None and not self._dying:
                found.discard(self._agent.pid)
            return found

        return procs.kill_until_none(select, _SWEEP_S, self._end_orphans)

    def _end_orphans(self) -> int:
        """Kill and reap our children but the agent, as quickly as they come: what flees by forking is faster than a pass over /proc.

        How many children have ended. A child's pid cannot be used again before it is reaped here.
        """
        ended = self._reap()
        for _ in range(_BURST):
            orphans = procs.children(os.getpid())
            if self._agent is not None and not self._dying:
                orphans.discard(self._agent.pid)
            if not orphans:
                break
            for pid in orphans:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            ended += self._reap()
        return ended

    def _reap(self) -> int:
        """Reap the children that have ended, orphans of the agent among them; how many there were."""
        count = 0
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return count
            if pid == 0:
                return count
            count += 1
            # Until it is reaped here the agent's pid cannot be used again, so comparing it is enough.
            if self._agent is not None and pid == self._agent.pid:
                self._status = status


def _open_orders() -> int:
    """Open the orders and remove the file, so that nobody else reads the credential in it."""
    path = os.environ.get(ORDERS)
    if not path:
        _fail(_EXIT_USAGE, f"{ORDERS} is not set; Nightporter starts this program, people do not.")
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
        os.unlink(path)  # noqa: PTH108
    except OSError as error:
        _fail(_EXIT_USAGE, f"cannot read the orders at {path}: {error.strerror}.")
    return fd


def main() -> None:
    """Console script and `python -m bot.agents.launcher`. Runs twice: see below."""
    if len(sys.argv) > 2 and sys.argv[1] == "--orders-fd":  # noqa: PLR2004
        with os.fdopen(int(sys.argv[2]), encoding="utf-8") as file:
            orders = Orders(file.read())
        with contextlib.suppress(PermissionError):
            # Refused only for a process group leader, which whoever started us by hand made us.
            os.setsid()
        sys.exit(Launcher(orders, sys.argv[3:]).run())
    # What Nightporter had in its environment is in ours, and /proc/<pid>/environ shows it to the agent for as long as this
    # process lives, whatever os.environ says. Executing ourselves anew with only the mark is the way to drop it.
    fd = _open_orders()
    os.set_inheritable(fd, True)  # noqa: FBT003  # positional only
    mark = os.environ.get(procs.MARK, "")
    here = os.path.realpath(__file__)
    argv = [sys.executable, "-I", "-S", here, "--orders-fd", str(fd), *sys.argv[1:]]
    os.execve(sys.executable, argv, {procs.MARK: mark})  # noqa: S606


if __name__ == "__main__":
    main()
