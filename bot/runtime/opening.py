"""Before the intent: open the agent for a claimed run, replace a session that it no longer knows, or give the run back."""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from dataclasses import dataclass

import structlog

from bot.agents.base import AgentSession, AgentUnavailable, Lost, SessionSpec
from bot.agents.tools import STANDING_INSTRUCTIONS
from bot.runtime import notices
from bot.runtime.lease import Lease
from bot.runtime.services import Services, spec_of
from bot.runtime.timing import any_set
from storage.events import Code, Refusal, Release, SessionLost
from storage.models import Conversation, Run, Session
from storage.states import RunState

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Opened:
    """An open agent, the row it is open for, and the run as it is now."""

    agent: AgentSession
    session: Session
    run: Run


class Opening:
    """Opens the agent for one claimed run. Nothing here calls the agent."""

    def __init__(self, services: Services, run: Run, lease: Lease) -> None:
        self._services = services
        self._run = run
        self._lease = lease
        self._stop = services.ledger.stop_of(run.id)
        #: A shutdown began: the run is given back, and no try is counted.
        self.give_back = asyncio.Event()

    async def open(self, conversation: Conversation) -> Opened | None:
        """The agent for the run; None if the run has ended, was given back, or belongs to somebody else."""
        while True:
            session = await self._services.ledger.keep_reading(lambda: self._services.store.sessions.by_id(self._run.session_id))
            if session is None or self._stop.is_set():
                return None
            try:
                agent = await self._unless_told(conversation, session)
            except AgentUnavailable as error:
                log.warning("agent.unavailable", run=self._run.id, error=str(error))
                await self.release(str(error))
                return None
            match agent:
                case None:
                    await self._told()
                    return None
                case Lost(detail=detail):
                    log.warning("session.lost", run=self._run.id, session=session.id, detail=detail)
                    if not await self._replace_session():
                        return None
                case _:
                    return Opened(agent, session, self._run)

    async def release(self, why: str, *, counts: bool = True) -> None:
        """Give the claimed run back; the third time that counts it fails, and people are told. Refused if it is not ours."""
        run = self._run
        event = Release(self._services.instance, run.id, run.fence, why, counts=counts, notice=notices.not_started(why))
        outcome = await self._services.ledger.keep_trying(event)
        log.info("run.released", run=run.id, why=why, refused=outcome.code.value if isinstance(outcome, Refusal) else None)

    async def _unless_told(self, conversation: Conversation, session: Session) -> AgentSession | Lost | None:
        """Open the agent, unless a stop, a shutdown or a lost lease comes first."""
        services = self._services
        spec = spec_of(services, conversation, session)
        try:
            services.pool.provider(session.agent)
        except KeyError:
            raise AgentUnavailable(f"The configuration has no agent {session.agent!r}.") from None
        opening = asyncio.ensure_future(self._when_free(session.agent, spec))
        told = asyncio.ensure_future(any_set(self._stop, self.give_back, self._lease.lost))
        try:
            await asyncio.wait({opening, told}, return_when=asyncio.FIRST_COMPLETED)
            if opening.done():
                return opening.result()
            opening.cancel()
            with contextlib.suppress(asyncio.CancelledError, AgentUnavailable):
                # It may have been open by then.
                if not isinstance(await opening, Lost):
                    services.pool.release(session.id, keep=False)
            return None
        finally:
            told.cancel()
            opening.cancel()

    async def _when_free(self, agent_name: str, spec: SessionSpec) -> AgentSession | Lost:
        await self._services.pool.free(spec.session_id)
        return await self._services.pool.open(agent_name, spec)

    async def _told(self) -> None:
        """What came before the agent was open: a stop has ended the run already, the others give it back."""
        if self.give_back.is_set():
            await self.release("Nightporter was shut down", counts=False)
        elif self._lease.lost.is_set():
            await self.release("its lease could not be renewed")

    async def _replace_session(self) -> bool:
        """End the row that the agent does not know; whether the run goes on in a new one."""
        run = self._run
        event = SessionLost(
            self._services.instance, run.id, run.fence, str(uuid.uuid4()), STANDING_INSTRUCTIONS, notices.session_replaced()
        )
        outcome = await self._services.ledger.keep_trying(event)
        # A COMMIT in doubt was repeated and refused: then the replacement is the one that was asked for here.
        if isinstance(outcome, Refusal) and outcome.code is Code.ALREADY_REPLACED and run.session_replaced:
            await self.release("the agent does not know a session that was just begun")
            return False
        fresh = await self._services.ledger.keep_reading(lambda: self._services.store.runs.by_id(run.id))
        if fresh is None or fresh.state is not RunState.CLAIMED or fresh.fence != run.fence:
            return False
        replaced = fresh.session_id != run.session_id
        self._run = fresh
        return replaced
