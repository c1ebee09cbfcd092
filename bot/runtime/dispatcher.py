"""Decides when a run may begin: claims for free slots, people first, and owns the turns of this process."""

from __future__ import annotations

import uuid

import structlog

from bot.agents.tools import STANDING_INSTRUCTIONS
from bot.runtime import notices
from bot.runtime.lease import Lease, lease_until_ms
from bot.runtime.services import Services
from bot.runtime.timing import Pulse, beat_within, set_within
from bot.runtime.turn import Turn
from storage.events import AskToContinue, Claim, Code, Entity, Refusal, Release
from storage.models import Run, RunId
from storage.snapshots import Candidate
from storage.states import RunState

log = structlog.get_logger(__name__)

#: After the patience of a shutdown: the adapter's own limit of an interrupt, the kill, the proof and the settlement.
_AFTER_CUT_S = 15.0


class Dispatcher:
    """Woken by hints, and once in a sweep by itself."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._turns: dict[RunId, Turn] = {}
        self._turn_ended = Pulse()
        self._draining = self._cutting = False
        #: A claim may be on its way to the database.
        self._claiming = False
        self._pause_s = services.config.sweep_s

    @property
    def running(self) -> tuple[RunId, ...]:
        """The runs that this process works on."""
        return tuple(self._turns)

    async def step(self) -> None:
        """One look at the queue, after a hint or a pause."""
        ledger = self._services.ledger
        await set_within(ledger.work, self._services.clock, self._pause_s)
        ledger.work.clear()
        if self._draining:
            return
        self._claiming = True
        try:
            await self._fill_slots()
        finally:
            self._claiming = False
            self._turn_ended.beat()

    async def _fill_slots(self) -> None:
        if self._services.ledger.in_doubt:
            await self._give_back_unknown()
        self._pause_s = self._services.config.sweep_s
        while len(self._turns) < self._services.config.max_concurrent_runs and not self._draining:
            if not await self._claim_next():
                return

    async def drain(self, patience_s: float) -> None:
        """Claim nothing any more, let running turns end, then interrupt them; what hangs even then is left to recovery."""
        self._draining = True
        for turn in tuple(self._turns.values()):
            turn.give_back()
        await self._until_idle(patience_s)
        self._cutting = True
        for turn in tuple(self._turns.values()):
            turn.cut()
        await self._until_idle(_AFTER_CUT_S)
        if self._turns:
            log.error("shutdown.turns_left", runs=list(self._turns))

    async def _until_idle(self, bound_s: float) -> None:
        until_s = self._services.clock.monotonic_s() + bound_s
        # A claim that was under way when the shutdown began becomes a turn, which gives itself back.
        while self._turns or self._claiming:
            beat = self._turn_ended.next()
            left_s = until_s - self._services.clock.monotonic_s()
            if left_s <= 0:
                beat.cancel()
                return
            await beat_within(beat, self._services.clock, left_s)

    async def _claim_next(self) -> bool:
        """C2 for the first place where something can be claimed; False if there is none."""
        services = self._services
        for candidate in await services.store.dispatch.claimable(services.clock.now_ms()):
            since_s = services.clock.monotonic_s()
            until_ms = lease_until_ms(services.clock, services.config)
            event = Claim(services.instance, services.config.host, until_ms, str(uuid.uuid4()), STANDING_INSTRUCTIONS)
            outcome = await services.ledger.claim(event, candidate)
            if isinstance(outcome, Refusal):
                await self._refused(outcome, candidate)
                if self._draining:
                    return False
                continue
            for run in outcome.inserted(Entity.RUN):
                if isinstance(run, Run):
                    self._begin(run, since_s)
            return True
        return False

    def _begin(self, run: Run, since_s: float) -> None:
        log.info("run.claimed", run=run.id, conversation=run.conversation_id, kind=run.kind.value)
        services = self._services
        turn = Turn(services, run, Lease(services.ledger, services.clock, services.config, services.supervisor, since_s))
        self._turns[run.id] = turn
        if self._draining:
            turn.give_back()
        if self._cutting:
            turn.cut()
        services.supervisor.spawn(f"turn.{run.id}", self._play(run.id, turn))

    async def _play(self, run_id: RunId, turn: Turn) -> None:
        try:
            await self._services.supervisor.contained(f"turn.{run_id}", turn.play(), turn.crashed)
        finally:
            del self._turns[run_id]
            self._turn_ended.beat()
            self._services.ledger.work.set()

    async def _refused(self, refusal: Refusal, candidate: Candidate) -> None:
        match refusal.code:
            case Code.HELD:
                await self._ask(candidate)
            case Code.NOTHING:
                # Perhaps a long piece waits for its continuation: look again when that wait is over.
                self._pause_s = min(self._pause_s, self._services.store.rules.piece_wait_ms / 1_000)
            case _:
                log.info("run.not_claimed", why=refusal.code.value, workspace=candidate.workspace)

    async def _ask(self, candidate: Candidate) -> None:
        """The unattended bound holds what waits there: people are asked once in each conversation concerned."""
        for conversation in await self._services.store.conversations.all_bound():
            here = conversation.id == candidate.conversation_id or (
                candidate.workspace is not None and conversation.workspace == candidate.workspace
            )
            if here and not conversation.unattended_asked:
                notice = notices.keep_going(conversation.id, conversation.unattended_runs)
                await self._services.ledger.do(AskToContinue(self._services.instance, conversation.id, notice))

    async def _give_back_unknown(self) -> None:
        """A claim whose COMMIT was in doubt may be stored without anybody here knowing of it."""
        for run in await self._services.store.runs.active_all():
            ours = run.holder == self._services.instance and run.state is RunState.CLAIMED
            if ours and run.id not in self._turns:
                event = Release(self._services.instance, run.id, run.fence, "its claim was in doubt", counts=False)
                await self._services.ledger.do(event)
        self._services.ledger.in_doubt = False
