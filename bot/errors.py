"""The errors that Nightporter expects: each is one clear sentence and ends the process with a known exit code.

Anything that is not one of these is a fault of the program and keeps its traceback. The codes are those of sysexits.h, so
that a service manager can tell "never start this again unchanged" (78) from "try again later" (69).
"""

from __future__ import annotations

from typing import ClassVar

#: sysexits.h EX_OK.
EXIT_OK = 0
#: A step failed in a way that is already explained on the screen (a demo's verdict, a check).
EXIT_FAILED = 1
#: sysexits.h EX_UNAVAILABLE: something outside is not there now; starting again later may help.
EXIT_UNAVAILABLE = 69
#: sysexits.h EX_CONFIG: the configuration must be mended first; starting again unchanged will not help.
EXIT_CONFIG = 78


class NightporterError(Exception):
    """Base of all expected errors. `str(error)` is one sentence for a person: what is wrong, and what mends it."""

    #: What the process exits with when this error ends it.
    exit_code: ClassVar[int] = EXIT_FAILED


class ConfigError(NightporterError):
    """The configuration, or what it points at, is wrong; the sentence names the key and the mend."""

    exit_code: ClassVar[int] = EXIT_CONFIG


class Unavailable(NightporterError):
    """Something outside (Discord, the agent, the database) cannot be reached or used at the moment."""

    exit_code: ClassVar[int] = EXIT_UNAVAILABLE
