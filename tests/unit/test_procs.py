"""What counts as running."""

from __future__ import annotations

import subprocess
import sys

from bot.agents import procs

#: The first thread ends, which shows the process as a zombie, and another one waits for the end of the input.
HEADLESS = """
import ctypes, os, sys, threading
def work():
    print("up", flush=True)
    os.read(0, 1)
    os._exit(0)
threading.Thread(target=work).start()
ctypes.CDLL(None).pthread_exit(None)
"""


def test_a_process_whose_first_thread_has_ended_still_runs_and_one_whose_last_has_does_not() -> None:
    with subprocess.Popen([sys.executable, "-c", HEADLESS], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"up\n"
        seen = procs.read(process.pid)
        while seen is not None and seen.state != "Z":
            seen = procs.read(process.pid)
        assert seen is not None
        assert seen.runs
        assert procs.alive(seen.pid, seen.start)
        process.kill()
        while procs.alive(seen.pid, seen.start):
            pass
        # Nobody has reaped it yet.
        left = procs.read(process.pid)
        assert left is not None
        assert (left.state, left.runs) == ("Z", False)
