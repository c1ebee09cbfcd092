"""The scripted agent's real process: a shell under the launcher that runs one command at a time."""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import signal
from collections.abc import Mapping
from pathlib import Path

from bot.agents.base import AgentProcess, AgentUnavailable, Death
from bot.agents.launch import Launch, prove_dead
from bot.clock import Clock

#: A command's output beyond this is cut, as real agents do.
_OUTPUT_BYTES = 30_000


class ScriptedShell:
    """A shell that reads commands from its standard input."""

    def __init__(self, state_dir: Path, clock: Clock) -> None:
        self._state_dir = state_dir
        self._launch = Launch(state_dir, clock)
        self._child: asyncio.subprocess.Process | None = None
        self._process: AgentProcess | None = None

    @property
    def alive(self) -> bool:
        """Whether the process still runs."""
        return self._child is not None and self._child.returncode is None

    async def start(self, folder: Path, env: Mapping[str, str]) -> AgentProcess:
        """Start it. Raises `AgentUnavailable`."""
        self._launch.prepare("/bin/sh", [], env)
        try:
            self._child = await asyncio.create_subprocess_exec(
                self._launch.path,
                cwd=folder,
                env=self._launch.env,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                limit=2 * _OUTPUT_BYTES,
            )
        except OSError as error:
            self._launch.forget()
            raise AgentUnavailable(f"The scripted agent cannot be started: {error.strerror}.") from error
        # An answer of the shell proves that the launcher listens: it binds its socket before it starts the agent.
        await self.command(":")
        self._process = await self._launch.identity()
        if self._process is None:
            await self.end()
            raise AgentUnavailable("The scripted agent ended as soon as it was started.")
        return self._process

    async def command(self, command: str) -> tuple[str, int]:
        """Run one command and return its output and exit code; the output so far and -1 if the shell ends."""
        if self._child is None or self._child.stdin is None or self._child.stdout is None:
            return "", -1
        token = secrets.token_hex(8)
        line = f"{{ {command}\n}} 2>&1 </dev/null; printf '\\n{token} %s\\n' $?\n"
        output = b""
        try:
            self._child.stdin.write(line.encode())
            await self._child.stdin.drain()
            async for raw in self._child.stdout:
                if raw.startswith(token.encode()):
                    return output.removesuffix(b"\n").decode(errors="replace"), int(raw.split()[1])
                output = (output + raw)[:_OUTPUT_BYTES]
        except (ConnectionError, ValueError):
            # The shell has gone, or one line was longer than the limit; either way there is no answer.
            pass
        return output.decode(errors="replace"), -1

    async def wait(self) -> None:
        """Return once the process has ended."""
        if self._child is not None:
            await self._child.wait()

    def die(self) -> None:
        """SIGKILL the agent, not the launcher: the launcher then kills what it had started."""
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._process.agent_pid, signal.SIGKILL)

    async def sweep(self) -> bool:
        """Whether nothing but the idle shell is left."""
        return await self._launch.sweep()

    async def end(self) -> Death:
        """End the process and everything it started."""
        if self.alive:
            await self._launch.kill()
        if self._child is not None:
            if self._child.stdin is not None:
                self._child.stdin.close()
            if self._child.returncode is None and self._process is None:
                # Never identified, so nothing but the pid is known; it is our own child and cannot be another's.
                self._child.kill()
        death = Death.DEAD if self._process is None else await prove_dead(self._process, self._state_dir)
        if death is Death.DEAD:
            await self.wait()
            self._launch.forget()
        return death
