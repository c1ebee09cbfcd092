"""Nightporter as a process of its own, started exactly as a person starts it, and never left behind."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

#: Carried by Nightporter and, through the agent's environment, by all that the agent starts. Not one of Nightporter's own
#: variables: those are never handed to an agent.
MARK = "PORTER_DEMO_MARK"

#: The command line of `nightporter run`, without its options.
RUN = (sys.executable, "-m", "bot.cli", "run")


class PorterProcess:
    """One start of Nightporter. Its output goes to `log`, appended, so that nobody has to read a pipe."""

    def __init__(self, config: Path, log: Path, env: Mapping[str, str], command: Sequence[str] = RUN) -> None:
        self._config = config
        self._log = log
        self._env = dict(env)
        self._command = tuple(command)
        self._process: asyncio.subprocess.Process | None = None

    @property
    def pid(self) -> int:
        """Its pid. Raises RuntimeError if it was never started."""
        return self._running.pid

    @property
    def started(self) -> bool:
        """Whether it was ever started."""
        return self._process is not None

    @property
    def exit_code(self) -> int | None:
        """None while it runs; negative for a signal."""
        return self._running.returncode

    @property
    def _running(self) -> asyncio.subprocess.Process:
        if self._process is None:
            raise RuntimeError("Nightporter was not started")
        return self._process

    async def start(self) -> None:
        """Start it; returns before it is ready."""
        with self._log.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                *self._command,
                "--config",
                str(self._config),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=self._env,
                cwd=self._config.parent,
                # Ctrl-C in the terminal is for whoever started it, who then stops it properly.
                start_new_session=True,
            )

    async def wait(self) -> int:
        """Wait until it has ended; returns the exit code. Bound it outside."""
        return await self._running.wait()

    async def kill(self) -> None:
        """SIGKILL, and wait until it is gone. Nothing happens if it has ended."""
        await self._end(signal.SIGKILL)

    async def stop(self, patience_s: float) -> int:
        """SIGTERM; SIGKILL after `patience_s`. Returns the exit code."""
        self._signal(signal.SIGTERM)
        try:
            return await asyncio.wait_for(self._running.wait(), patience_s)
        except TimeoutError:
            return await self._end(signal.SIGKILL)

    def output(self) -> str:
        """What it has written so far, all starts together."""
        return self._log.read_text("utf-8", "replace") if self._log.exists() else ""

    async def _end(self, number: signal.Signals) -> int:
        self._signal(number)
        return await self._running.wait()

    def _signal(self, number: signal.Signals) -> None:
        if self._running.returncode is None:
            self._running.send_signal(number)


def clean_env(mark: str) -> dict[str, str]:
    """The environment for a Nightporter that must see nothing of the user's own settings, keys and logins."""
    foreign = ("NIGHTPORTER_", "ANTHROPIC_", "CLAUDE", "DISCORD_")
    env = {name: value for name, value in os.environ.items() if not name.upper().startswith(foreign)}
    # The package may stand in a checkout that is not installed, and the process starts in another folder.
    checkout = str(Path(__file__).resolve().parents[2])
    env["PYTHONPATH"] = os.pathsep.join(filter(None, (checkout, env.get("PYTHONPATH"))))
    return {**env, MARK: mark}
