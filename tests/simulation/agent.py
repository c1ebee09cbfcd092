"""The scripted agent with an ear and with faults: what it was told and what it said is kept outside the database."""

from __future__ import annotations

import asyncio
import random
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

from bot.agents import script
from bot.agents.base import (
    AgentEvent,
    AgentProcess,
    AgentSession,
    AgentUnavailable,
    Death,
    Ended,
    Lost,
    MessageDone,
    PromptPart,
    RunEnded,
    SessionSpec,
    ToolHandler,
    ToolResult,
    Unknown,
)
from bot.agents.scripted import ScriptedProvider
from bot.agents.watchdog import Silence
from bot.clock import Clock
from bot.loopback.discord.timing import LoopbackClock
from bot.loopback.model import Entry, ModelRequest

#: A resume in a new session repeats the request; the agent must not do it twice.
_REPEATED = "\n\nThis is a new session. The request was:\n"
#: Every text that a script says carries one of these, and no two the same.
TOKEN = re.compile(r"«[a-z]?\d+(?:\.\d+)*»")


@dataclass
class Turn:
    """One prompt that reached the agent."""

    session: str
    uuid: str
    prompt: str
    at_ms: int
    #: Finished text blocks, in order.
    said: list[str] = field(default_factory=list)
    #: Calls of our tools with their answers, and the true time of the answer.
    calls: list[tuple[str, Mapping[str, object], ToolResult, int]] = field(default_factory=list)
    end: RunEnded | None = None


@dataclass
class AgentLog:
    """Everything that agents saw, over all lives."""

    clock: LoopbackClock
    turns: list[Turn] = field(default_factory=list)
    entries: list[Entry] = field(default_factory=list)
    _histories: dict[str, list[str]] = field(default_factory=dict)

    def begin(self, session: str, uuid: str, prompt: str) -> Turn:
        turn = Turn(session, uuid, prompt, self.clock.now_ms())
        self.turns.append(turn)
        self._histories.setdefault(session, []).append(prompt.partition(_REPEATED)[0])
        self._enter(session, ())
        return turn

    def answered(self, turn: Turn, name: str, arguments: Mapping[str, object], result: ToolResult) -> None:
        turn.calls.append((name, arguments, result, self.clock.now_ms()))
        self._enter(turn.session, (result,))

    def _enter(self, session: str, results: tuple[ToolResult, ...]) -> None:
        """As the loopback model would have seen it, for the history checker."""
        messages: list[dict[str, object]] = [{"role": "user", "content": prompt} for prompt in self._histories[session]]
        messages += [{"role": "user", "content": [{"type": "tool_result", "content": result.text}]} for result in results]
        request = ModelRequest(session=session, subagent=None, key=None, stream=True, body={"messages": messages})
        seq = len(self.entries)
        self.entries.append(Entry(seq, self.clock.now_ms(), "request", seq, request))


@dataclass
class Moods:
    """What goes wrong with agents, in percent for each occasion."""

    unavailable: int = 4
    still_alive: int = 20
    #: A turn's process dies at some event.
    dies: int = 2


class Agents:
    """`AgentProvider` of one life: the real scripted agent behind an ear and a few faults."""

    name = "scripted"

    def __init__(self, folder: Path, clock: Clock, log: AgentLog, rng: random.Random, moods: Moods) -> None:
        silence = Silence(turn_s=60.0, tool_s=240.0)
        self._inner = ScriptedProvider(folder, clock, processes=False, brain=_brain, silence=silence)
        self.capabilities = self._inner.capabilities
        self._log = log
        self._random = rng
        self._moods = moods
        self.sessions: list[_Ear] = []

    async def check(self) -> str | None:
        return None

    async def open(self, spec: SessionSpec) -> AgentSession | Lost:
        await asyncio.sleep(self._random.uniform(0.0, 2.0))
        if self._random.random() * 100 < self._moods.unavailable:
            raise AgentUnavailable("The agent's handshake failed.")
        opened = await self._inner.open(spec)
        if isinstance(opened, Lost):
            return opened
        ear = _Ear(opened, self._log, self._random, self._moods)
        self.sessions.append(ear)
        return cast("AgentSession", ear)

    async def outcome(self, spec: SessionSpec, prompt_uuid: str) -> Ended | Unknown:
        return await self._inner.outcome(spec, prompt_uuid)

    async def prove_dead(self, process: AgentProcess) -> Death:
        await asyncio.sleep(0.1)
        if self._random.random() * 100 < self._moods.still_alive:
            return Death.ALIVE
        for ear in self.sessions:
            if ear.process.mark == process.mark:
                await ear.close()
        # What earlier lives started died with them: agents live in the same process here.
        return Death.DEAD

    async def close(self) -> None:
        await self._inner.close()

    def kill_one(self) -> None:
        """Some agent's process dies, in a turn or between two."""
        alive = [ear for ear in self.sessions if ear.alive]
        if alive:
            self._random.choice(alive).die()


def _brain(_spec: SessionSpec, prompt: str) -> Sequence[script.Line]:
    return script.parse(prompt.partition(_REPEATED)[0])


class _Ear:
    def __init__(self, inner: AgentSession, log: AgentLog, rng: random.Random, moods: Moods) -> None:
        self._inner = inner
        self._log = log
        self._random = rng
        self._moods = moods
        self._dying: asyncio.Task[None] | None = None

    @property
    def native_id(self) -> str:
        return self._inner.native_id

    @property
    def process(self) -> AgentProcess:
        return self._inner.process

    @property
    def alive(self) -> bool:
        return self._inner.alive

    async def run(self, prompt_uuid: str, parts: Sequence[PromptPart], tools: ToolHandler) -> AsyncIterator[AgentEvent]:
        turn = self._log.begin(self.native_id, prompt_uuid, "\n".join(part.text for part in parts))

        async def heard(name: str, arguments: Mapping[str, object]) -> ToolResult:
            result = await tools(name, arguments)
            self._log.answered(turn, name, arguments, result)
            return result

        async for event in self._inner.run(prompt_uuid, parts, heard):
            match event:
                case MessageDone(text=text):
                    turn.said.append(text)
                case RunEnded():
                    turn.end = event
                case _:
                    pass
            if self._random.random() * 100 < self._moods.dies:
                self.die()
            # The stream comes in pieces.
            await asyncio.sleep(self._random.choice((0.0, 0.0, 0.02, 0.3)))
            yield event

    def die(self) -> None:
        if self._dying is None:
            self._dying = asyncio.ensure_future(self._inner.close())

    async def swept(self) -> bool:
        return await self._inner.swept()

    async def interrupt(self) -> None:
        await self._inner.interrupt()

    async def close(self) -> None:
        await self._inner.close()
