"""One turn of the scripted agent: plays the statements of a prompt and tells what happens."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import assert_never

import structlog

from bot.agents import script
from bot.agents.base import (
    AgentEvent,
    EndKind,
    ErrorKind,
    MessageDone,
    RunEnded,
    TextDelta,
    ToolEnded,
    ToolStarted,
    Usage,
)
from bot.agents.calls import ToolCalls
from bot.agents.scripted_shell import ScriptedShell
from bot.agents.scripted_transcript import Transcript
from bot.clock import Clock

log = structlog.get_logger()


class ScriptedTurn:
    """Plays statements; each effect is in the transcript before it is told."""

    def __init__(  # a turn is where everything meets
        self,
        prompt_uuid: str,
        prompts_before: int,
        transcript: Transcript,
        clock: Clock,
        shell: ScriptedShell | None,
        tools: ToolCalls,
        emit: Callable[[AgentEvent], None],
    ) -> None:
        self._uuid = prompt_uuid
        self._before = prompts_before
        self._transcript = transcript
        self._clock = clock
        self._shell = shell
        self._tools = tools
        self._emit = emit
        self._count = 0
        self._words = 0

    async def play(self, lines: Sequence[script.Line]) -> RunEnded:
        """Play them all, or up to one that ends the turn."""
        for line in lines:
            if (ended := await self._statement(line.statement)) is not None:
                return ended
        self._transcript.ended(self._uuid)
        self._emit(Usage("turn", len(lines), self._words, None))
        return RunEnded(EndKind.COMPLETED)

    async def _statement(self, statement: script.Statement) -> RunEnded | None:
        """Play one statement; a `RunEnded` if it ends the turn."""
        match statement:
            case script.Say() | script.Recall() | script.Think():
                self._words_of(statement)
            case script.CallOurs() | script.CallTool() | script.UseTool() | script.Shell() | script.SubAgent():
                await self._tool(statement)
            case script.Sleep(seconds):
                await self._clock.sleep(seconds)
            case script.Fail(kind):
                return RunEnded(EndKind.FAILED, kind, "The prompt told the scripted agent to fail.")
            case script.Limit(seconds):
                resets = None if seconds is None else self._clock.now_ms() + round(seconds * 1000)
                return RunEnded(EndKind.LIMIT, detail="The account's usage limit is reached.", resets_at_ms=resets)
            case script.Hang():
                await asyncio.get_running_loop().create_future()
            case script.Die():
                return await self._die()
            case _:
                assert_never(statement)
        return None

    def _words_of(self, statement: script.Say | script.Recall | script.Think) -> None:
        match statement:
            case script.Say(text):
                self._say(text)
            case script.Recall():
                self._say(f"prompts before this one: {self._before}")
            case script.Think():
                pass
            case _:
                assert_never(statement)

    async def _tool(self, statement: script.ToolStatement) -> None:
        match statement:
            case script.CallOurs(name, arguments) | script.CallTool(name, arguments):
                await self._ours(name, arguments)
            case script.UseTool(name, seconds):
                tool_id = self._started(name, f"{seconds:g} s", ours=False)
                await self._clock.sleep(seconds)
                self._emit(ToolEnded(tool_id, is_error=False))
            case script.Shell(command):
                await self._run_shell(command)
            case script.SubAgent(prompt):
                tool_id = self._started("Agent", prompt, ours=False)
                self._emit(ToolEnded(tool_id, is_error=False))
            case _:
                assert_never(statement)

    def _say(self, text: str) -> None:
        block = f"b{self._count}"
        self._count += 1
        self._words += len(text.split())
        self._emit(TextDelta(block, text))
        done = MessageDone(block, text)
        self._transcript.said(self._uuid, done)
        self._emit(done)

    def _started(self, name: str, summary: str, *, ours: bool) -> str:
        started = ToolStarted(f"{self._uuid}:{self._count}", name, summary, ours=ours, subagent=False)
        self._count += 1
        self._transcript.used(self._uuid, started)
        self._emit(started)
        return started.tool_id

    async def _ours(self, name: str, arguments: Mapping[str, object]) -> None:
        tool_id = self._started(name, "", ours=True)
        result = await self._tools.call(name, arguments)
        log.debug("scripted.tool", name=name, result=result.text)
        self._emit(ToolEnded(tool_id, is_error=result.is_error))

    async def _run_shell(self, command: str) -> None:
        tool_id = self._started("Bash", command, ours=False)
        if self._shell is None:
            self._emit(ToolEnded(tool_id, is_error=True))
            return
        output, code = await self._shell.command(command)
        log.debug("scripted.shell", command=command, code=code, output=output)
        self._emit(ToolEnded(tool_id, is_error=code != 0))

    async def _die(self) -> RunEnded:
        if self._shell is None:
            return RunEnded(EndKind.FAILED, ErrorKind.PROCESS, "The agent's process ended in the middle of its turn.")
        self._shell.die()
        # The session sees the end of the process and ends this turn.
        await asyncio.get_running_loop().create_future()
        raise AssertionError("unreachable")
