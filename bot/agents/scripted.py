"""The scripted agent: does what the prompt says in the language of `bot.agents.script`, for demos, crash tests and load.

It keeps every rule of `bot.agents.base` like a real one: durable transcripts (one JSONL file for each session, written line by
line, so that a SIGKILL loses nothing written), a session it does not know is `Lost`, and with `processes=True` it runs a real
shell under the launcher, in which `shell` and `die` act. Without processes it needs no start-up time and runs on virtual time.
"""

from __future__ import annotations

import asyncio
import itertools
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path
from typing import Literal

from bot.agents import procs, script
from bot.agents.base import (
    AgentEvent,
    AgentProcess,
    AgentSession,
    AgentUnavailable,
    Capabilities,
    Death,
    Ended,
    EndKind,
    ErrorKind,
    Lost,
    PromptPart,
    RunEnded,
    SessionSpec,
    SessionStarted,
    ToolEnded,
    ToolHandler,
    ToolStarted,
    Unknown,
)
from bot.agents.calls import ToolCalls
from bot.agents.host import host
from bot.agents.launch import base_env, prove_dead
from bot.agents.scripted_shell import ScriptedShell
from bot.agents.scripted_transcript import Transcript
from bot.agents.scripted_turn import ScriptedTurn
from bot.agents.watchdog import Silence, Watchdog
from bot.clock import Clock
from storage.guard import refuse_in_transaction

#: Decides what a prompt makes the agent do: the default reads the script language.
ScriptedBrain = Callable[[SessionSpec, str], Sequence[script.Line] | Awaitable[Sequence[script.Line]]]

_marks = itertools.count(1)


def read_script(_spec: SessionSpec, prompt: str) -> Sequence[script.Line]:
    """The default brain."""
    return script.parse(prompt)


class ScriptedProvider:
    """The `scripted` agent. `state_dir` holds the transcripts and, with processes, the launcher's folders."""

    name = "scripted"
    capabilities = Capabilities(usage_scope="turn")

    def __init__(
        self,
        state_dir: Path,
        clock: Clock,
        *,
        environ: dict[str, str] | None = None,
        processes: bool = True,
        brain: ScriptedBrain = read_script,
        silence: Silence = Silence(),  # noqa: B008  # frozen
    ) -> None:
        self._silence = silence
        self._state_dir = state_dir
        self._clock = clock
        self._environ = environ or {}
        self._processes = processes
        self._brain = brain
        self._inside: dict[str, ScriptedSession] = {}

    async def check(self) -> str | None:
        """Always usable: POSIX promises the shell."""
        return None

    async def open(self, spec: SessionSpec) -> AgentSession | Lost:
        """See `AgentProvider.open`."""
        refuse_in_transaction("opening an agent")
        if not spec.folder.is_dir():
            raise AgentUnavailable(f"The project folder {spec.folder} does not exist.")
        transcript = self._transcript(spec.native_id)
        if spec.resume and not transcript.exists():
            return Lost(f"no transcript of session {spec.native_id}")
        if not spec.resume and transcript.exists():
            raise AgentUnavailable(f"Session id {spec.native_id} is already in use.")
        shell = None
        if self._processes:
            shell = ScriptedShell(self._state_dir, self._clock)
            process = await shell.start(spec.folder, {**base_env(self._environ), **spec.env})
        else:
            mark = f"scripted{next(_marks)}"
            process = AgentProcess(host(self._state_dir), procs.boot_id(), 0, 0, 0, 0, mark)
        session = ScriptedSession(spec, self._brain, self._clock, self._silence, transcript, process, shell)
        if shell is None:
            self._inside[process.mark] = session
        return session

    async def outcome(self, spec: SessionSpec, prompt_uuid: str) -> Ended | Unknown:
        """See `AgentProvider.outcome`."""
        return self._transcript(spec.native_id).outcome(prompt_uuid)

    async def prove_dead(self, process: AgentProcess) -> Death:
        """See `AgentProvider.prove_dead`."""
        refuse_in_transaction("proving an agent dead")
        inside = self._inside.pop(process.mark, None)
        if inside is not None:
            await inside.close()
        return await prove_dead(process, self._state_dir)

    async def close(self) -> None:
        """See `AgentProvider.close`."""

    def _transcript(self, native_id: str) -> Transcript:
        # The id is ours and a UUID; anything else must not reach a path.
        return Transcript(self._state_dir / "scripted" / f"{uuid.UUID(native_id)}.jsonl")


class ScriptedSession:
    """One open session of the scripted agent."""

    def __init__(
        self,
        spec: SessionSpec,
        brain: ScriptedBrain,
        clock: Clock,
        silence: Silence,
        transcript: Transcript,
        process: AgentProcess,
        shell: ScriptedShell | None,
    ) -> None:
        self._spec = spec
        self._brain = brain
        self._clock = clock
        self._silence = silence
        self._transcript = transcript
        self._process = process
        self._shell = shell
        self._turn: asyncio.Task[RunEnded] | None = None
        self._interrupted = False
        self._closed = False
        self._how: Literal["new", "resumed", "warm"] = "resumed" if spec.resume else "new"

    @property
    def native_id(self) -> str:
        """See `AgentSession.native_id`."""
        return self._spec.native_id

    @property
    def process(self) -> AgentProcess:
        """See `AgentSession.process`."""
        return self._process

    @property
    def alive(self) -> bool:
        """See `AgentSession.alive`."""
        return not self._closed and (self._shell is None or self._shell.alive)

    async def run(self, prompt_uuid: str, parts: Sequence[PromptPart], tools: ToolHandler) -> AsyncIterator[AgentEvent]:
        """See `AgentSession.run`."""
        refuse_in_transaction("running an agent")
        if self._turn is not None:
            raise RuntimeError("this session already runs a turn")
        events: asyncio.Queue[AgentEvent | None] = asyncio.Queue()
        self._interrupted = False
        self._turn = asyncio.create_task(self._act(prompt_uuid, "\n".join(part.text for part in parts), tools, events))
        # The end of the queue comes with the end of the task, whatever ended it.
        self._turn.add_done_callback(lambda _: events.put_nowait(None))
        try:
            yield SessionStarted(self.native_id, self._how)
            self._how = "warm"
            while (event := await events.get()) is not None:
                yield event
            ended = self._ended(self._turn)
            self._turn = None
            yield ended
        finally:
            if self._turn is not None:
                # Nobody listens any more: the turn cannot be told apart from the next one, so the session ends with it.
                self._closed = True
                self._turn.cancel()
                self._turn = None

    async def swept(self) -> bool:
        """See `AgentSession.swept`."""
        if self._shell is None:
            return True
        if self.alive:
            return await self._shell.sweep()
        return await self._shell.end() is Death.DEAD

    async def interrupt(self) -> None:
        """See `AgentSession.interrupt`."""
        if self._turn is not None:
            self._interrupted = True
            self._turn.cancel()
            await asyncio.wait({self._turn})

    async def close(self) -> None:
        """See `AgentSession.close`."""
        self._closed = True
        if self._turn is not None:
            self._turn.cancel()
            await asyncio.wait({self._turn})
        if self._shell is not None:
            await self._shell.end()

    async def _act(self, prompt_uuid: str, prompt: str, tools: ToolHandler, events: asyncio.Queue[AgentEvent | None]) -> RunEnded:
        # Asked, not looked up: the end of a process is seen a moment late.
        if not self.alive or (self._shell is not None and await self._shell.command(":") != ("", 0)):
            self._closed = True
            return RunEnded(EndKind.FAILED, ErrorKind.PROCESS, "The agent's process has ended.")
        before = self._transcript.prompts()
        self._transcript.prompt(prompt_uuid)
        lines = self._brain(self._spec, prompt)
        if not isinstance(lines, Sequence):
            lines = await lines
        watchdog = Watchdog(self._clock, self._silence)
        calls = ToolCalls(tools)

        def emit(event: AgentEvent) -> None:
            match event:
                case ToolStarted():
                    watchdog.tool_started(event.tool_id)
                case ToolEnded():
                    watchdog.tool_ended(event.tool_id)
                case _:
                    watchdog.touch()
            events.put_nowait(event)

        turn = ScriptedTurn(prompt_uuid, before, self._transcript, self._clock, self._shell, calls, emit)
        playing = asyncio.ensure_future(turn.play(lines))
        silent = asyncio.ensure_future(watchdog.silent())
        gone = asyncio.ensure_future(self._gone())
        try:
            await asyncio.wait({playing, silent, gone}, return_when=asyncio.FIRST_COMPLETED)
            if playing.done():
                return playing.result()
            self._closed = True
            if gone.done():
                return RunEnded(EndKind.FAILED, ErrorKind.PROCESS, "The agent's process ended in the middle of its turn.")
            return RunEnded(EndKind.FAILED, ErrorKind.TIMEOUT, "The agent was silent for too long and was stopped.")
        finally:
            for task in (playing, silent, gone):
                task.cancel()
            await asyncio.gather(playing, silent, gone, return_exceptions=True)
            await calls.end()

    async def _gone(self) -> None:
        if self._shell is None:
            await asyncio.get_running_loop().create_future()
        else:
            await self._shell.wait()

    def _ended(self, turn: asyncio.Task[RunEnded]) -> RunEnded:
        if turn.cancelled():
            if self._interrupted:
                return RunEnded(EndKind.INTERRUPTED, detail="Stopped.")
            return RunEnded(EndKind.FAILED, ErrorKind.PROCESS, "The agent was closed in the middle of its turn.")
        ended = turn.result()
        if ended.error is ErrorKind.PROCESS:
            self._closed = True
        return ended
