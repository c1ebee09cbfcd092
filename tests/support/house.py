"""The whole runtime in one process: the real store on a file, the scripted agent, the real pool, and a strict chat.

    async with House(tmp_path) as house:
        await house.say("say good evening")
        await house.until(lambda: "good evening" in house.posted())

`until` looks again after every commit and every post, so it waits for things, not for time.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

from bot.agents import script
from bot.agents.base import (
    AgentEvent,
    AgentProcess,
    AgentProvider,
    AgentSession,
    Death,
    Ended,
    Lost,
    PermissionMode,
    PermissionPolicy,
    PromptPart,
    SessionSpec,
    ToolHandler,
    ToolResult,
    Unknown,
)
from bot.agents.host import host
from bot.agents.pool import AgentPool
from bot.agents.scripted import ScriptedProvider
from bot.clock import Clock, SystemClock
from bot.runtime.ports import AcceptResult, Incoming, Person, ProjectRules, RuntimeConfig, WaitBounds
from bot.runtime.runtime import Runtime
from storage.models import Continuation, Conversation, Part, PartKind, Prompt, Rules, Run, RunId
from storage.states import ContinuationState, RunState
from storage.store import Store
from tests.support.fake_chat import FakeChat

PATIENCE_S = 20.0
CHANNEL = 100
ADMIN = Person(1, "Ada", admin=True)
ANN = Person(7, "Ann", admin=False)


class Listening:
    """The scripted agent, with an ear at the answers of our tools."""

    def __init__(self, inner: AgentProvider, house: House) -> None:
        self._inner = inner
        self._house = house
        self.name = inner.name
        self.capabilities = inner.capabilities

    async def check(self) -> str | None:
        return await self._inner.check()

    async def open(self, spec: SessionSpec) -> AgentSession | Lost:
        opened = await self._inner.open(spec)
        if isinstance(opened, Lost):
            return opened
        self._house.sessions.append(opened)
        return ListeningSession(opened, self._house)

    async def outcome(self, spec: SessionSpec, prompt_uuid: str) -> Ended | Unknown:
        return await self._inner.outcome(spec, prompt_uuid)

    async def prove_dead(self, process: AgentProcess) -> Death:
        return await self._inner.prove_dead(process)

    async def close(self) -> None:
        await self._inner.close()


class ListeningSession:
    def __init__(self, inner: AgentSession, house: House) -> None:
        self._inner = inner
        self._house = house

    @property
    def native_id(self) -> str:
        return self._inner.native_id

    @property
    def process(self) -> AgentProcess:
        return self._inner.process

    @property
    def alive(self) -> bool:
        return self._inner.alive

    def run(self, prompt_uuid: str, parts: Sequence[PromptPart], tools: ToolHandler) -> AsyncIterator[AgentEvent]:
        async def heard(name: str, arguments: Mapping[str, object]) -> ToolResult:
            result = await tools(name, arguments)
            self._house.results.append(result)
            self._house.beat()
            return result

        return self._inner.run(prompt_uuid, parts, heard)

    async def swept(self) -> bool:
        return await self._inner.swept()

    async def interrupt(self) -> None:
        await self._inner.interrupt()

    async def close(self) -> None:
        await self._inner.close()
        self._house.beat()


Look = Callable[[], Any] | Callable[[], Awaitable[Any]]


class House:
    """One start of Nightporter's runtime on a state folder; make another one on the same folder for the next start."""

    def __init__(
        self,
        folder: Path,
        *,
        clock: Clock | None = None,
        rules: Rules | None = None,
        config: Mapping[str, Any] | None = None,
        chat: FakeChat | None = None,
        provider: Callable[[AgentProvider], AgentProvider] = lambda scripted: scripted,
        instance: str = "porter-1",
    ) -> None:
        self.folder = folder
        self.clock = clock or SystemClock()
        self.rules = rules or Rules(backoff_ms=1, piece_wait_ms=20)
        values: dict[str, Any] = {"wait": WaitBounds(min_ms=1), "sweep_s": 0.05, "send_pauses_s": (0.01,), **(config or {})}
        project = ProjectRules(PermissionPolicy(PermissionMode.ACCEPT_EDITS))
        self.config = RuntimeConfig(host=host(folder), projects={"backend": project}, **values)
        self.chat = chat or FakeChat(self.clock)
        self.chat.changed = self.beat
        #: What the agent was told, in order: (native session id, prompt).
        self.prompts: list[tuple[str, str]] = []
        #: What the agent's calls of our tools were answered, in order.
        self.results: list[ToolResult] = []
        #: The agent's open processes, newest last.
        self.sessions: list[AgentSession] = []
        #: What every turn plays, instead of its prompt.
        self.plays: str | None = None
        self._wrap = provider
        self._instance = instance
        self._waiters: set[asyncio.Future[None]] = set()
        self._numbers = itertools.count(int(self.clock.now_ms() % 1_000_000) * 1_000)
        #: Commit points passed, in order.
        self.points: list[str] = []
        self.fault: Callable[[str], Awaitable[None]] | None = None

    store: Store
    runtime: Runtime
    pool: AgentPool
    provider: AgentProvider
    room: Conversation

    async def __aenter__(self) -> Self:
        await self.open()
        await self.runtime.start()
        return self

    async def open(self) -> None:
        """Everything but `start`."""
        url = f"sqlite+aiosqlite:///{self.folder / 'nightporter.db'}"
        self.store = await Store.open(url, now=self.clock.now_ms, rules=self.rules, instance=self._instance, fault=self._passed)
        scripted = Listening(ScriptedProvider(self.folder, self.clock, processes=False, brain=self._brain), self)
        self.provider = self._wrap(scripted)
        self.pool = AgentPool([self.provider], cap=4, idle_timeout_s=600, clock=self.clock)
        self.runtime = Runtime(self.store, self.pool, self.chat, self.clock, self.config)
        self.room = await self.bind(CHANNEL)
        self._gone = False

    async def bind(self, channel_id: int, folder: str = "project", *, shared: bool = False) -> Conversation:
        path = self.folder / folder
        path.mkdir(exist_ok=True)
        return await self.runtime.bind(
            channel_id=channel_id, guild_id=1, project="backend", agent="scripted", folder=str(path), shared=shared, last_seen_id=0
        )

    async def __aexit__(self, *_: object) -> None:
        if not self._gone:
            await self.stop()

    async def stop(self, drain_s: float = 0) -> None:
        """A proper shutdown."""
        self._gone = True
        await self.runtime.stop(drain_s)
        await self.pool.aclose()
        await self.store.aclose()

    async def abandon(self) -> None:
        """The end of the process as the next one sees it: nothing is settled, nothing given back."""
        self._gone = True
        self.runtime._alarm.stop()  # noqa: SLF001
        await self.runtime._services.supervisor.stop(5)  # noqa: SLF001 - what a SIGKILL does to tasks
        await self.pool.aclose()
        await self.store.aclose()

    async def kill(self) -> None:
        """The same while a transaction hangs at a commit point: it is rolled back, and the file is let go."""
        self._gone = True
        self.runtime._alarm.stop()  # noqa: SLF001
        hanging = tuple(self.store._shield._running)  # noqa: SLF001 - what a SIGKILL ends, and nothing else can
        for task in hanging:
            task.cancel()
        await asyncio.gather(*hanging, return_exceptions=True)
        self.fault = None
        await self.abandon()

    # --- people ----------------------------------------------------------------------------------------------------------

    async def say(
        self, text: str, *, by: Person = ANN, addressed: bool = True, room: Conversation | None = None, **more: Any
    ) -> AcceptResult:
        """A message in the channel; script statements in it are what the agent does."""
        return await self.runtime.accept(self.message(text, by=by, addressed=addressed, room=room, **more))

    def message(self, text: str, *, by: Person = ANN, addressed: bool = True, room: Conversation | None = None, **more: Any) -> Incoming:
        room = room or self.room
        message = Incoming(
            room.id, room.channel_id, next(self._numbers), self.clock.now_ms(), by.id, by.name, text, addressed, "live", caught_up=True
        )
        return replace(message, **more)

    async def stop_room(self, *, by: Person = ADMIN, reset: bool = False) -> Any:
        return await self.runtime.stop_conversation(self.room.id, stop_id=next(self._numbers), by=by, reset=reset)

    # --- what there is -----------------------------------------------------------------------------------------------------

    def posted(self, channel_id: int = CHANNEL) -> list[str]:
        return self.chat.texts(channel_id)

    def words(self, channel_id: int = CHANNEL) -> list[str]:
        """What the agent said in the channel, without footers and notices."""
        kinds = {PartKind.ANSWER, PartKind.NARRATION, PartKind.SENT}
        said = [m.text for m in self.chat.messages if m.channel_id == channel_id and m.part.kind in kinds]
        return ["\n".join(line for line in text.split("\n") if not line.startswith("-# ")) for text in said]

    def told(self) -> list[str]:
        """The prompts without their sessions."""
        return [prompt for _, prompt in self.prompts]

    async def runs(self) -> list[Run]:
        """Oldest first."""
        return list(reversed(await self.store.runs.recent(self.room.id, 50)))

    async def run(self, number: int, *states: RunState) -> Run:
        """The n-th run (from 0), once it is in one of these states."""

        async def look() -> Run | None:
            runs = await self.runs()
            found = len(runs) > number and (not states or runs[number].state in states)
            return runs[number] if found else None

        run: Run = await self.until(look)
        return run

    async def continuation(self, *states: ContinuationState) -> Continuation:
        """The newest one, once it is in one of these states."""

        async def look() -> Continuation | None:
            newest: Continuation | None = None
            number = 1
            while (found := await self.store.continuations.by_id(number)) is not None:  # type: ignore[arg-type]
                newest, number = found, number + 1
            return newest if newest is not None and newest.state in states else None

        found: Continuation = await self.until(look)
        return found

    async def parts(self, run_id: RunId) -> tuple[Part, ...]:
        return await self.store.outbox.of_run(run_id)

    async def prompt_of(self, result: Any) -> Prompt:
        found = await self.store.prompts.by_id(result.prompt_id)
        assert found is not None
        return found

    async def until(self, look: Look, what: str = "") -> Any:
        """The first truthy answer of `look`, asked again after every commit and post."""
        async with asyncio.timeout(PATIENCE_S):
            while True:
                waiter = asyncio.get_running_loop().create_future()
                self._waiters.add(waiter)
                found = look()
                if asyncio.iscoroutine(found):
                    found = await found
                if found:
                    self._waiters.discard(waiter)
                    return found
                await waiter

    # --- inside ------------------------------------------------------------------------------------------------------------

    async def _passed(self, point: str) -> None:
        self.points.append(point)
        asyncio.get_running_loop().call_soon(self.beat)
        if self.fault is not None:
            await self.fault(point)
        # Whoever looks must see what is committed, so it is woken behind the COMMIT.
        asyncio.get_running_loop().call_soon(self.beat)

    def beat(self) -> None:
        waiters, self._waiters = self._waiters, set()
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    def _brain(self, spec: SessionSpec, prompt: str) -> list[script.Line]:
        self.prompts.append((spec.native_id, prompt))
        self.beat()
        return list(script.parse(prompt if self.plays is None else self.plays))
