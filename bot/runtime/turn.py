"""One run from claim to settlement: open the agent, commit the intent, hand over the prompt, listen, settle.

The order is the promise: nothing is handed to the agent before C3 is on disk, and a run is settled only when the turn has
ended and nothing of it is left. Whatever happens in between, the run is either settled here or found by recovery.
"""

from __future__ import annotations

import asyncio
import contextlib
import uuid

import structlog

from bot.agents.base import (
    AgentEvent,
    AgentSession,
    Death,
    EndKind,
    ErrorKind,
    MessageDone,
    Notice,
    RunEnded,
    SessionStarted,
    TextPart,
    ToolStarted,
    Usage,
)
from bot.runtime import notices, settle
from bot.runtime.briefing import Brief, brief
from bot.runtime.identity import to_json
from bot.runtime.lease import Lease
from bot.runtime.opening import Opened, Opening
from bot.runtime.prose import Final, Prose
from bot.runtime.resumes import chain_of
from bot.runtime.services import Services
from bot.runtime.timing import any_set
from bot.runtime.turn_tools import TurnTools
from storage.errors import StorageError
from storage.events import Code, Dispatch, Evidence, NativeIdChanged, Proof, Refusal, Say
from storage.models import Conversation, PromptKind, Run
from storage.states import RunState

log = structlog.get_logger(__name__)

#: Pause between two tries to prove that nothing of a turn is left.
_PROOF_PAUSE_S = 2.0


class Turn:
    """One claimed run of this process. `play` may be called once."""

    def __init__(self, services: Services, run: Run, lease: Lease) -> None:
        self._services = services
        self._run = run
        self._lease = lease
        self._stop = services.ledger.stop_of(run.id)
        self._opening = Opening(services, run, lease)
        #: Shutdown: the time to finish is over.
        self._cut = asyncio.Event()
        self._cut_by: str | None = None
        self._opened: Opened | None = None
        self._settled = False
        self._prose = Prose()
        self._record = settle.Record()
        self._tools: TurnTools | None = None
        self._end: RunEnded | None = None

    @property
    def run(self) -> Run:
        """The run as it was last seen."""
        return self._run

    def give_back(self) -> None:
        """A shutdown began: do not call the agent any more."""
        self._opening.give_back.set()

    def cut(self) -> None:
        """A shutdown's patience is over: interrupt the agent."""
        self._cut.set()

    async def play(self) -> None:
        """From claim to settlement; whatever the database does meanwhile is waited for."""
        services, run = self._services, self._run
        keeping = services.supervisor.spawn("lease", self._lease.keep(run.id, run.fence))
        try:
            conversation = await services.ledger.keep_reading(lambda: services.store.conversations.by_id(run.conversation_id))
            if conversation is None:
                return
            opened = await self._opening.open(conversation)
            if opened is None:
                return
            self._opened, self._run = opened, opened.run
            told = await services.ledger.keep_reading(lambda: brief(services, conversation, opened.session, opened.run))
            if await self._dispatch(opened, told):
                await self._call(conversation, opened.agent, told)
                await self._finish(conversation, opened, told)
        finally:
            keeping.cancel()
            services.ledger.forget(run.id)
            self._leave()

    async def crashed(self) -> None:
        """A fault of the program ended `play`: end the agent, then give back or settle what is still ours."""
        ledger, store, run = self._services.ledger, self._services.store, self._run
        if self._opened is not None:
            await self._opened.agent.close()
        fresh = await ledger.keep_reading(lambda: store.runs.by_id(run.id)) or run
        if fresh.state is RunState.CLAIMED:
            await self._opening.release("a fault of Nightporter")
        elif fresh.state is RunState.DISPATCHED and self._opened is not None:
            self._record.said = self._prose.said
            ending = settle.Ending(RunState.INTERRUPTED, "a fault of Nightporter", (notices.crashed(run.id),))
            facts = settle.Facts(run.fence, await self._prove(self._opened), Evidence.STREAM, Final((), ""), record=self._record)
            await ledger.keep_trying(settle.build(self._services, fresh, ending, facts, ()))

    # --- the intent ------------------------------------------------------------------------------------------------------

    async def _dispatch(self, opened: Opened, told: Brief) -> bool:
        """C3. False: the run is not ours any more, or was given back; the agent must not be called."""
        run, ledger = self._run, self._services.ledger
        if self._opening.give_back.is_set() or self._lease.lost.is_set():
            shutdown = self._opening.give_back.is_set()
            await self._opening.release(settle.SHUTDOWN if shutdown else settle.LEASE_LOST, counts=not shutdown)
            return False
        prompt_uuid, process = str(uuid.uuid4()), to_json(opened.agent.process)
        event = Dispatch(self._services.instance, run.id, run.fence, prompt_uuid, process, told.told_runs, told.told_continuations)
        outcome = await ledger.keep_trying(event)
        fresh = await ledger.keep_reading(lambda: self._services.store.runs.by_id(run.id))
        # A COMMIT in doubt was repeated and refused; the uuid tells whether it was ours.
        if fresh is None or fresh.prompt_uuid != prompt_uuid:
            code = outcome.code if isinstance(outcome, Refusal) else None
            log.info("run.not_dispatched", run=run.id, why=code)
            if code is Code.STALE_SESSION:
                await self._opening.release("its session has ended")
            return False
        self._run = fresh
        log.info("run.dispatched", run=run.id, fence=run.fence, session=run.session_id, kind=run.kind.value)
        return True

    # --- the turn --------------------------------------------------------------------------------------------------------

    async def _call(self, conversation: Conversation, agent: AgentSession, told: Brief) -> None:
        """Hand the prompt over and listen until the turn has ended. Never waits for the chat side."""
        services, run = self._services, self._run
        tools = self._tools = TurnTools(services, conversation, run, self._prose)
        if not self._lease.held:
            # C3 is stored, but the right to act on it may have ended meanwhile.
            self._cut_by, self._end = settle.LEASE_LOST, RunEnded(EndKind.INTERRUPTED, detail=settle.LEASE_LOST)
            return
        watching = services.supervisor.spawn("turn.watch", self._watch(agent))
        typing = services.supervisor.spawn("turn.typing", self._typing(conversation.channel_id)) if run.addressed else None
        try:
            async for event in agent.run(run.prompt_uuid or "", (TextPart(told.text),), tools):
                await self._take(event)
        finally:
            if typing is not None:
                typing.cancel()
            if self._cut_by is None:
                watching.cancel()
            # An interrupt or a kill that has begun is not cut short: the adapter bounds both.
            await asyncio.wait({watching})

    async def _take(self, event: AgentEvent) -> None:
        match event:
            case SessionStarted(native_id=native_id, how="changed"):
                await self._native_id(native_id)
            case MessageDone() | ToolStarted():
                self._prose.feed(event)
                await self._narrate()
            case Usage():
                self._record.usage.append(event)
            case Notice(kind=kind, text=text):
                log.info("agent.notice", run=self._run.id, kind=kind, text=text)
            case RunEnded():
                self._end = event
            case _:
                pass

    async def _native_id(self, native_id: str) -> None:
        event = NativeIdChanged(self._services.instance, self._run.id, self._run.fence, native_id)
        try:
            await self._services.ledger.do(event)
        except StorageError as error:
            # The settlement stores it again; a crash before that resumes the older one.
            log.warning("session.native_id_not_stored", run=self._run.id, error=str(error))

    async def _narrate(self) -> None:
        """C4: what is surely narration goes out at once, where somebody addressed the agent."""
        skipped = self._tools is not None and self._tools.skipped
        if not self._run.addressed or skipped or self._services.config.narration == "off":
            return
        texts = self._prose.fetch()
        parts = settle.narration(self._services, texts)
        if not parts:
            return
        try:
            await self._services.ledger.do(Say(self._services.instance, self._run.id, self._run.fence, parts))
        except StorageError as error:
            log.warning("run.narration_kept_back", run=self._run.id, error=str(error))
            if not await self._services.ledger.stored(part.nonce for part in parts):
                self._prose.unfetch(texts)

    async def _watch(self, agent: AgentSession) -> None:
        """End the turn early when it is stopped, when a shutdown's patience is over, or when the lease is lost."""
        looking = self._services.supervisor.spawn("turn.look", self._look_for_stop())
        try:
            await any_set(self._stop, self._cut, self._lease.lost)
        finally:
            looking.cancel()
        if self._lease.lost.is_set():
            self._cut_by = settle.LEASE_LOST
            log.warning("run.agent_killed", run=self._run.id, why=self._cut_by)
            await agent.close()
            return
        self._cut_by = settle.STOPPED if self._stop.is_set() else settle.SHUTDOWN
        log.info("run.interrupting", run=self._run.id, why=self._cut_by)
        await agent.interrupt()

    async def _look_for_stop(self) -> None:
        """Another process may store the stop; only the row tells."""
        while True:
            await self._services.clock.sleep(self._services.config.sweep_s)
            with contextlib.suppress(StorageError):
                run = await self._services.store.runs.by_id(self._run.id)
                if run is not None and run.stop_requested:
                    self._stop.set()

    async def _typing(self, channel_id: int) -> None:
        while True:
            await self._services.chat.typing(channel_id)
            await self._services.clock.sleep(self._services.config.typing_s)

    # --- its end ---------------------------------------------------------------------------------------------------------

    async def _prove(self, opened: Opened) -> Proof:
        """Wait until nothing of the turn is left, and say how that is known."""
        while True:
            if await opened.agent.swept():
                return Proof.SWEPT
            log.error("run.not_swept", run=self._run.id)
            await opened.agent.close()
            if await self._services.pool.provider(opened.session.agent).prove_dead(opened.agent.process) is Death.DEAD:
                return Proof.DEAD
            await self._services.clock.sleep(_PROOF_PAUSE_S)

    async def _finish(self, conversation: Conversation, opened: Opened, told: Brief) -> None:
        """C5, once it is proven that the turn has ended; repeated until the database takes or refuses it."""
        services, run = self._services, self._run
        end = self._end or RunEnded(EndKind.FAILED, ErrorKind.PROCESS, "The agent's stream ended without an end.")
        proof = await self._prove(opened)
        fresh = await services.ledger.keep_reading(lambda: services.store.runs.by_id(run.id)) or run
        live = await services.ledger.keep_reading(lambda: services.store.continuations.live(conversation.id))
        chain = await services.ledger.keep_reading(lambda: chain_of(services.store, told.prompts))
        ending = settle.ending_of(fresh, told.prompts, end, self._cut_by, services.clock.now_ms(), resumable=chain.resumable)
        self._record.said = self._prose.said
        native_id = opened.agent.native_id
        facts = settle.Facts(
            fence=run.fence,
            proof=proof,
            evidence=Evidence.STREAM,
            final=self._prose.finish(),
            sent=self._tools is not None and self._tools.sent,
            refused_wait=None if self._tools is None else self._tools.refused_wait,
            reply_to_id=_answers(told) if run.kind is PromptKind.USER else None,
            record=self._record,
            native_id=native_id if native_id != opened.session.native_id else None,
        )
        outcome = await services.ledger.keep_trying(settle.build(services, fresh, ending, facts, live))
        self._settled = True
        log.info("run.settled", run=run.id, became=settle.became(outcome), why=ending.why)

    def _leave(self) -> None:
        """Give the agent back: kept warm only after a settled turn. Without a pause after the settlement: the next run may begin.

        The pool does not keep one whose session has ended.
        """
        if self._opened is not None:
            keep = self._settled and not self._lease.lost.is_set()
            self._services.pool.release(self._opened.session.id, keep=keep)


def _answers(told: Brief) -> int | None:
    """The newest message of the prompts: the one that an answer replies to."""
    return next((p.message_id for p in reversed(told.prompts) if p.message_id is not None), None)
