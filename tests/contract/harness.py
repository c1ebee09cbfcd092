"""What every adapter is tested with: one rig for each, that opens sessions, plays turns and cleans up."""

from __future__ import annotations

import asyncio
import os
import sys
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeVar

from bot.agents import procs
from bot.agents.base import (
    AgentEvent,
    AgentProvider,
    AgentSession,
    Lost,
    MessageDone,
    PermissionMode,
    PermissionPolicy,
    RunEnded,
    SessionSpec,
    TextPart,
    ToolHandler,
    ToolResult,
)
from bot.agents.claude import ClaudeConfig, ClaudeProvider
from bot.agents.scripted import ScriptedProvider
from bot.agents.tools import TOOLS
from bot.clock import ManualClock, SystemClock
from bot.loopback.model import ModelApi

KEY = "loopback-key-of-this-test"

#: Everything that can be judged at all is allowed: the rules have tests of their own.
ALLOW_ALL = PermissionPolicy(PermissionMode.ACCEPT_EDITS, ("*",))

E = TypeVar("E")


@dataclass
class Calls:
    """A tool handler that remembers, and answers at once unless it is told to block."""

    seen: list[tuple[str, Mapping[str, object]]] = field(default_factory=list)
    arrived: asyncio.Event = field(default_factory=asyncio.Event)
    block: bool = False
    cancelled: bool = False

    async def __call__(self, name: str, arguments: Mapping[str, object]) -> ToolResult:
        self.seen.append((name, arguments))
        self.arrived.set()
        if self.block:
            try:
                await asyncio.get_running_loop().create_future()
            except asyncio.CancelledError:
                self.cancelled = True
                raise
        return ToolResult(f"[ok] {name}")


@dataclass
class Rig:
    """One adapter on a folder of its own. Its clock stands still: nothing in a test waits for time to pass."""

    name: str
    provider: AgentProvider
    root: Path
    clock: ManualClock
    api: ModelApi | None
    opened: list[AgentSession] = field(default_factory=list)

    @property
    def folder(self) -> Path:
        return self.root / "project"

    @property
    def model(self) -> ModelApi:
        assert self.api is not None
        return self.api

    def spec(self, **changes: object) -> SessionSpec:
        spec = SessionSpec(
            session_id=1,
            conversation_id=1,
            folder=self.folder,
            native_id=str(uuid.uuid4()),
            resume=False,
            turns=0,
            standing_instructions="STANDING INSTRUCTIONS: be brief.",
            permissions=ALLOW_ALL,
            tools=TOOLS,
        )
        return replace(spec, **changes)  # type: ignore[arg-type]

    async def open(self, spec: SessionSpec | None = None) -> AgentSession:
        opened = await self.provider.open(spec or self.spec())
        assert not isinstance(opened, Lost), opened
        self.opened.append(opened)
        return opened

    async def close(self) -> None:
        for session in self.opened:
            await session.close()
        await self.provider.close()


def make_rig(name: str, root: Path, api: ModelApi | None, **changes: object) -> Rig:
    """A rig of the adapter `name`; `changes` go to the Claude adapter's config."""
    (root / "project").mkdir(exist_ok=True)
    state = root / "state"
    state.mkdir(mode=0o700, exist_ok=True)
    clock = ManualClock()
    environ = {**os.environ, "DISCORD_TOKEN": "secret-of-nightporter"}
    provider: AgentProvider
    if name == "scripted":
        provider = ScriptedProvider(state, clock, environ=environ)
    else:
        assert api is not None
        config = ClaudeConfig(state_dir=state, environ=environ, base_url=api.url, api_key=KEY, retries=1)
        provider = ClaudeProvider(replace(config, **changes), clock)  # type: ignore[arg-type]
    return Rig(name, provider, root, clock, api)


def make_api() -> ModelApi:
    # Real time, for the statement `sleep` and for reset times only.
    return ModelApi(SystemClock(), keys=[KEY])


async def turn(
    session: AgentSession, prompt: str, handler: ToolHandler | None = None, *, prompt_uuid: str | None = None
) -> list[AgentEvent]:
    """Play one turn to its end and check what holds for every one: exactly one `RunEnded`, and it is the last event."""
    parts = [TextPart(prompt)]
    events = [event async for event in session.run(prompt_uuid or str(uuid.uuid4()), parts, handler or Calls())]
    assert [type(event) for event in events].count(RunEnded) == 1, events
    assert isinstance(events[-1], RunEnded), events
    return events


@dataclass
class Playing:
    """A turn under way, whose events can be waited for."""

    session: AgentSession
    handler: ToolHandler
    prompt_uuid: str = field(default_factory=lambda: str(uuid.uuid4()))
    events: list[AgentEvent] = field(default_factory=list)
    task: asyncio.Task[None] | None = None
    _news: asyncio.Event = field(default_factory=asyncio.Event)

    async def _play(self, prompt: str) -> None:
        async for event in self.session.run(self.prompt_uuid, [TextPart(prompt)], self.handler):
            self.events.append(event)
            self._news.set()

    async def until(self, wanted: Callable[[AgentEvent], bool]) -> AgentEvent:
        while True:
            for event in self.events:
                if wanted(event):
                    return event
            self._news.clear()
            assert self.task is not None
            news = asyncio.ensure_future(self._news.wait())
            await asyncio.wait({news, self.task}, return_when=asyncio.FIRST_COMPLETED)
            news.cancel()
            assert not self.task.done() or any(wanted(event) for event in self.events), self.events

    async def end(self) -> RunEnded:
        assert self.task is not None
        await self.task
        ended = self.events[-1]
        assert isinstance(ended, RunEnded), self.events
        return ended


def start(session: AgentSession, prompt: str, handler: ToolHandler | None = None) -> Playing:
    """Begin a turn and return while it runs."""
    playing = Playing(session, handler or Calls())
    playing.task = asyncio.create_task(playing._play(prompt))  # noqa: SLF001  # its other half
    return playing


def texts(events: Sequence[AgentEvent]) -> list[str]:
    """The agent's own complete text blocks, in order."""
    return [event.text for event in events if isinstance(event, MessageDone)]


def of(events: Sequence[AgentEvent], kind: type[E]) -> list[E]:
    """The events of one kind."""
    return [event for event in events if isinstance(event, kind)]


def ended(events: Sequence[AgentEvent]) -> RunEnded:
    """How the turn ended."""
    last = events[-1]
    assert isinstance(last, RunEnded)
    return last


def sleepers(folder: Path) -> str:
    """Write a script that starts two sleepers, one under setsid, records their pids, and returns at once; its command line."""
    sleep = f'{sys.executable} -I -S -c "import time; time.sleep(600)" >/dev/null 2>&1'
    (folder / "sleepers.sh").write_text(
        f"{sleep} &\n"
        "echo $! > one.pid\n"
        f"setsid sh -c 'echo $$ > two.new; mv two.new two.pid; exec {sleep}' &\n"
        "while [ ! -e two.pid ]; do sleep 0.01; done\n",
        encoding="utf-8",
    )
    return "sh sleepers.sh"


def sleeping(folder: Path) -> list[procs.Proc]:
    """The sleepers that run."""
    found = [procs.read(int((folder / name).read_text())) for name in ("one.pid", "two.pid")]
    return [proc for proc in found if proc is not None and proc.runs]
