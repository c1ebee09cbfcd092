"""Keeps Nightporter's own secrets out of its environment, where every process of the same user could read them.

A variable that is deleted from `os.environ` stays in `/proc/<pid>/environ` for the life of the process: the kernel shows
what was handed over at exec. So the process executes itself once more, with the same arguments and without its settings
in the environment; they travel through an unnamed file in memory that only this process has open and closes after reading.

Linux only: memfd, /proc and prctl have no portable twins. Nightporter runs nowhere else.
"""

from __future__ import annotations

import ctypes
import json
import os
import sys
from collections.abc import Mapping

from bot.errors import ConfigError
from bot.settings_tree import is_setting

#: Names the inherited descriptor; it holds a number, no secret.
_FD_VARIABLE = "NIGHTPORTER_SECRETS_FD"
#: <linux/prctl.h>
_PR_SET_DUMPABLE = 4


def shed_secrets() -> dict[str, str]:
    """The environment this process was started with, as `load_settings` wants it, while nobody can read it from outside.

    The first call in a process that has settings in its environment does not return: it executes the same command anew.
    Afterwards other processes of the same user can neither read this one's memory and descriptors nor make it dump core.
    Call it before any thread, socket or event loop exists: an exec ends them without a word.

    Raises:
        ConfigError: the handed-over descriptor is not one; somebody set the variable by hand.
    """
    handed_over = os.environ.pop(_FD_VARIABLE, None)
    if handed_over is not None:
        _refuse_inspection()
        return {**os.environ, **_receive(handed_over)}
    ours = {name: value for name, value in os.environ.items() if is_setting(name)}
    if ours:
        _execute_without(ours)
    _refuse_inspection()
    return dict(os.environ)


def _execute_without(ours: Mapping[str, str]) -> None:
    descriptor = os.memfd_create("settings", os.MFD_CLOEXEC)
    with os.fdopen(descriptor, "wb", closefd=False) as file:
        file.write(json.dumps(ours).encode())
    os.lseek(descriptor, 0, os.SEEK_SET)
    os.set_inheritable(descriptor, True)  # noqa: FBT003 - the standard library's own signature
    environment = {name: value for name, value in os.environ.items() if name not in ours}
    environment[_FD_VARIABLE] = str(descriptor)
    # exec drops what is still buffered.
    sys.stdout.flush()
    sys.stderr.flush()
    os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], environment)  # noqa: S606 - no shell wanted


def _receive(handed_over: str) -> dict[str, str]:
    try:
        with os.fdopen(int(handed_over), "rb") as file:
            values = json.loads(file.read())
    except (OSError, ValueError):
        raise ConfigError(f"{_FD_VARIABLE} is set, but not by Nightporter: unset it") from None
    return {str(name): str(value) for name, value in values.items()}


def _refuse_inspection() -> None:
    """PR_SET_DUMPABLE = 0: /proc/<pid>/{environ,mem,fd} belong to root, ptrace by the same user and core dumps are refused.

    Set again after every exec, since the kernel resets it there.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), "prctl(PR_SET_DUMPABLE)")
