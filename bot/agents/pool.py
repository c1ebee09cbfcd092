"""Keeps idle agent processes warm: capped, least recently used out, closed after an idle time; one owner for each.

The pool hands a session out until it is released, and never hands out one that missed a turn: whoever resumed the provider's
session elsewhere made every older process of it a stale one, whose answers would lack that turn.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass, replace

import structlog

from bot.agents.base import AgentEvent, AgentProcess, AgentProvider, AgentSession, Lost, PromptPart, SessionSpec, ToolHandler
from bot.clock import Clock

log = structlog.get_logger()


class PooledSession:
    """An open session with the count of turns that it saw."""

    def __init__(self, inner: AgentSession, spec: SessionSpec) -> None:
        self._inner = inner
        self._spec = spec
        self._saw = spec.turns

    def fits(self, spec: SessionSpec) -> bool:
        """Whether it can serve this: it lives, saw every turn so far, and was opened with the same terms."""
        opened = replace(self._spec, turns=spec.turns, resume=spec.resume, native_id=self.native_id)
        return self.alive and self._saw == spec.turns and opened == spec

    @property
    def native_id(self) -> str:
        """See `AgentSession.native_id`."""
        return self._inner.native_id

    @property
    def process(self) -> AgentProcess:
        """See `AgentSession.process`."""
        return self._inner.process

    @property
    def alive(self) -> bool:
        """See `AgentSession.alive`."""
        return self._inner.alive

    def run(self, prompt_uuid: str, parts: Sequence[PromptPart], tools: ToolHandler) -> AsyncIterator[AgentEvent]:
        """See `AgentSession.run`."""
        self._saw += 1
        return self._inner.run(prompt_uuid, parts, tools)

    async def swept(self) -> bool:
        """See `AgentSession.swept`."""
        return await self._inner.swept()

    async def interrupt(self) -> None:
        """See `AgentSession.interrupt`."""
        await self._inner.interrupt()

    async def close(self) -> None:
        """See `AgentSession.close`."""
        await self._inner.close()


@dataclass(slots=True)
class _Idle:
    session: PooledSession
    timer: asyncio.Task[None]


class AgentPool:
    """All open sessions of this process. One loop only; no method may be called for one session from two tasks at once."""

    def __init__(self, providers: Iterable[AgentProvider], *, cap: int, idle_timeout_s: float, clock: Clock) -> None:
        self._providers = {provider.name: provider for provider in providers}
        self._cap = cap
        self._idle_timeout_s = idle_timeout_s
        self._clock = clock
        #: Handed out, by session row.
        self._busy: dict[int, PooledSession] = {}
        #: Warm, least recently used first.
        self._idle: dict[int, _Idle] = {}
        self._closing: dict[int, asyncio.Task[None]] = {}
        #: Ended while handed out: not kept warm when they come back.
        self._ended: set[int] = set()
        #: Somebody waits for these to come back.
        self._awaited: dict[int, asyncio.Event] = {}
        self._closed = False

    def provider(self, agent_name: str) -> AgentProvider:
        """The provider of that name; KeyError if the config let an unknown one through."""
        return self._providers[agent_name]

    @property
    def warm(self) -> tuple[int, ...]:
        """The session rows with an idle process, least recently used first."""
        return tuple(self._idle)

    async def open(self, agent_name: str, spec: SessionSpec) -> AgentSession | Lost:
        """A warm session that saw the last turn, or a new process; the caller must `release` it.

        Raises:
            AgentUnavailable: see `AgentProvider.open`.
        """
        if self._closed or spec.session_id in self._busy:
            raise RuntimeError(f"session {spec.session_id} is in use or the pool is closed")
        idle = self._idle.pop(spec.session_id, None)
        if idle is not None:
            idle.timer.cancel()
            if idle.session.fits(spec):
                self._busy[spec.session_id] = idle.session
                return idle.session
            self._close(spec.session_id, idle.session)
        # Two processes in one provider session lose turns, so the old one must be gone first.
        if (closing := self._closing.get(spec.session_id)) is not None:
            await asyncio.shield(closing)
        opened = await self._providers[agent_name].open(spec)
        if isinstance(opened, Lost):
            return opened
        session = PooledSession(opened, spec)
        self._busy[spec.session_id] = session
        return session

    async def free(self, session_id: int) -> None:
        """Wait until the session is not handed out: a run that was stopped may not have given it back yet."""
        while session_id in self._busy:
            await self._awaited.setdefault(session_id, asyncio.Event()).wait()

    def release(self, session_id: int, *, keep: bool) -> None:
        """Give a session back; without `keep`, or if it cannot be used again, it is closed in the background.

        Releasing what is not handed out does nothing, so that it can stand in a `finally`.
        """
        session = self._busy.pop(session_id, None)
        if session is None:
            return
        if (awaited := self._awaited.pop(session_id, None)) is not None:
            awaited.set()
        ended = session_id in self._ended
        self._ended.discard(session_id)
        if not keep or ended or not session.alive or self._cap == 0 or self._closed:
            self._close(session_id, session)
            return
        self._idle[session_id] = _Idle(session, asyncio.create_task(self._expire(session_id)))
        while len(self._idle) > self._cap:
            self._evict(next(iter(self._idle)), "cap")

    async def drop(self, session_id: int) -> None:
        """Close the warm process of a session row that has ended, and wait for it; one that is handed out is closed on its return."""
        if session_id in self._busy:
            self._ended.add(session_id)
        if session_id in self._idle:
            self._evict(session_id, "ended")
        if (closing := self._closing.get(session_id)) is not None:
            await asyncio.shield(closing)

    async def aclose(self) -> None:
        """Close every session, also those handed out, and wait until all are closed."""
        self._closed = True
        for session_id in tuple(self._idle):
            self._evict(session_id, "shutdown")
        for session_id in tuple(self._busy):
            self.release(session_id, keep=False)
        while self._closing:
            await asyncio.wait(set(self._closing.values()))

    async def _expire(self, session_id: int) -> None:
        await self._clock.sleep(self._idle_timeout_s)
        self._evict(session_id, "idle")

    def _evict(self, session_id: int, why: str) -> None:
        idle = self._idle.pop(session_id)
        if idle.timer is not asyncio.current_task():
            idle.timer.cancel()
        log.info("pool.evicted", session=session_id, why=why)
        self._close(session_id, idle.session)

    def _close(self, session_id: int, session: PooledSession) -> None:
        before = self._closing.get(session_id)

        async def close() -> None:
            if before is not None:
                await asyncio.wait({before})
            await session.close()

        task = asyncio.create_task(close())
        self._closing[session_id] = task

        def done(task: asyncio.Task[None]) -> None:
            if self._closing.get(session_id) is task:
                del self._closing[session_id]
            if not task.cancelled() and (error := task.exception()) is not None:
                log.error("pool.close_failed", session=session_id, exc_info=error)

        task.add_done_callback(done)
