"""Ends what processes now gone had begun: gives claimed runs back, and settles dispatched ones from the agent's transcript.

A takeover raises the fence first, so that the former owner changes nothing any more, and proves its agent dead after that. Only
then is the transcript read: what it shows as ended is delivered, anything else is interrupted and people decide.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection
from functools import partial

import structlog

from bot.agents.base import AgentUnavailable, Death, Ended, Unknown
from bot.runtime import notices, settle
from bot.runtime.identity import from_json
from bot.runtime.lease import Lease, lease_until_ms
from bot.runtime.prose import Final, Prose
from bot.runtime.resumes import chain_of
from bot.runtime.services import Services, spec_of
from storage.events import Code, Evidence, LeaseEnded, Notify, Proof, Refusal, TakeOver
from storage.models import Conversation, Part, PartKind, PromptKind, Run, RunId, Session
from storage.states import RunState

log = structlog.get_logger(__name__)

#: Pauses between two tries to prove an agent dead.
_PROOF_PAUSES_S = (0.2, 1.0, 2.0, 5.0, 10.0)


class Recovery:
    """Looks at the start, and once in a while: with PostgreSQL another process may go at any time.

    `working_on`: the runs that a turn of this process brings to their end. Every other active run is looked after here, one of
    this very process too: a lease that was lost, or a takeover whose COMMIT was in doubt, leaves one that nobody works on.
    """

    def __init__(self, services: Services, working_on: Callable[[], Collection[RunId]]) -> None:
        self._services = services
        self._working_on = working_on
        #: Taken over, and being brought to their end.
        self._recovering: set[RunId] = set()
        #: Cannot be brought to their end by this process; said once for each.
        self._stuck: set[RunId] = set()

    async def step(self) -> None:
        """One look at the active runs that nobody works on, then a pause."""
        services = self._services
        active = await services.store.runs.active_all()
        self._stuck.intersection_update({run.id for run in active})
        for run in active:
            if run.id in self._recovering or run.id in self._stuck or run.id in self._working_on():
                continue
            if run.state is RunState.CLAIMED:
                await self._give_back(run)
            else:
                await self._take_over(run)
        await services.clock.sleep(services.config.sweep_s)

    async def _give_back(self, run: Run) -> None:
        """The agent was not called: its prompts wait again."""
        services = self._services
        why = "Nightporter ended several times while it started the agent"
        # One of our own may have been claimed a moment ago, with its turn about to begin: only its lease tells.
        gone = services.gone(run.holder)
        outcome = await services.ledger.do(LeaseEnded(services.instance, run.id, holder_gone=gone, notice=notices.not_started(why)))
        if not isinstance(outcome, Refusal):
            log.info("run.given_back", run=run.id, holder=run.holder)

    async def _take_over(self, run: Run) -> None:
        services = self._services
        since_s = services.clock.monotonic_s()
        until_ms = lease_until_ms(services.clock, services.config)
        gone = services.gone(run.holder) or run.holder == services.instance
        outcome = await services.ledger.do(TakeOver(services.instance, run.id, services.config.host, until_ms, holder_gone=gone))
        if isinstance(outcome, Refusal):
            if outcome.code is Code.OTHER_HOST and run.lease_until_ms <= services.clock.now_ms():
                await self._cannot(run, "it ran on another host, which does not answer")
            return
        log.info("run.taken_over", run=run.id, holder=run.holder, fence=run.fence + 1)
        lease = Lease(services.ledger, services.clock, services.config, services.supervisor, since_s)
        self._recovering.add(run.id)
        services.supervisor.spawn(f"recovery.{run.id}", self._recover(run, lease))

    async def _recover(self, before: Run, lease: Lease) -> None:
        """From the takeover to the settlement. A crash in between: the next process takes over again."""
        services = self._services
        why = "Nightporter made a mistake; the reason is in its log"
        try:
            work = self._bring_to_end(before.id, lease)
            await services.supervisor.contained(f"recovery.{before.id}", work, partial(self._cannot, before, why))
        finally:
            self._recovering.discard(before.id)

    async def _bring_to_end(self, run_id: RunId, lease: Lease) -> None:
        services = self._services
        run = await services.ledger.keep_reading(lambda: services.store.runs.by_id(run_id))
        if run is None:
            return
        keeping = services.supervisor.spawn("lease", lease.keep(run.id, run.fence))
        try:
            conversation = await services.ledger.keep_reading(lambda: services.store.conversations.by_id(run.conversation_id))
            session = await services.ledger.keep_reading(lambda: services.store.sessions.by_id(run.session_id))
            if conversation is None or session is None or not await self._proven_dead(run, session, lease):
                return
            harvest = self._harvest(run, conversation, session)
            # A transcript that cannot be read shows nothing: people are asked, as for any other.
            nothing = partial(self._settle, run, conversation, Unknown())
            await services.supervisor.contained(f"recovery.{run.id}.transcript", harvest, nothing)
        finally:
            keeping.cancel()

    async def _cannot(self, run: Run, why: str) -> None:
        """Nothing can be done about it here, and until something is, its conversation stands still: somebody must know."""
        self._stuck.add(run.id)
        log.error("run.cannot_be_recovered", run=run.id, host=run.host, holder=run.holder, why=why)
        event = Notify(self._services.instance, run.conversation_id, (notices.stuck(run.id, why),))
        await self._services.ledger.keep_trying(event)

    async def _proven_dead(self, run: Run, session: Session, lease: Lease) -> bool:
        """Wait for the proof; False if it cannot come here."""
        services = self._services
        process = from_json(run.process)
        try:
            provider = services.pool.provider(session.agent)
        except KeyError:
            await self._cannot(run, f"the configuration has no agent {session.agent!r}")
            return False
        if process is None:
            await self._cannot(run, "the identity of the agent's process cannot be read")
            return False
        tries = 0
        while not lease.lost.is_set():
            match await provider.prove_dead(process):
                case Death.DEAD:
                    return True
                case Death.OTHER_HOST:
                    await self._cannot(run, "the agent's process belongs to another host")
                    return False
                case Death.ALIVE:
                    log.warning("run.agent_still_alive", run=run.id, pid=process.agent_pid)
            await services.clock.sleep(_PROOF_PAUSES_S[min(tries, len(_PROOF_PAUSES_S) - 1)])
            tries += 1
        return False

    async def _harvest(self, run: Run, conversation: Conversation, session: Session) -> None:
        await self._settle(run, conversation, await self._outcome(run, conversation, session))

    async def _settle(self, run: Run, conversation: Conversation, outcome: Ended | Unknown) -> None:
        services = self._services
        fresh = await services.ledger.keep_reading(lambda: services.store.runs.by_id(run.id)) or run
        live = await services.ledger.keep_reading(lambda: services.store.continuations.live(conversation.id))
        prompts = await services.ledger.keep_reading(lambda: services.store.prompts.of_run(run.id))
        parts = await services.ledger.keep_reading(lambda: services.store.outbox.of_run(run.id))
        record = settle.Record()
        final = Final((), "")
        if isinstance(outcome, Ended):
            prose = Prose()
            final = self._unsaid(prose, outcome, parts)
            record.said = prose.said
            ending = settle.Ending(RunState.SUCCEEDED, "the turn had ended; read from the agent's transcript")
        else:
            chain = await services.ledger.keep_reading(lambda: chain_of(services.store, prompts))
            notice = notices.interrupted(run.id, settle.UNKNOWN_END, resumable=chain.resumable)
            told = () if fresh.stop_requested else (notice,)
            ending = settle.Ending(RunState.INTERRUPTED, settle.UNKNOWN_END, told)
        newest = next((p.message_id for p in reversed(prompts) if p.message_id is not None), None)
        facts = settle.Facts(
            fence=run.fence,
            proof=Proof.DEAD,
            evidence=Evidence.TRANSCRIPT if isinstance(outcome, Ended) else Evidence.NONE,
            final=final,
            record=record,
            sent=any(p.kind is PartKind.SENT for p in parts),
            reply_to_id=newest if run.kind is PromptKind.USER else None,
        )
        settled = await services.ledger.keep_trying(settle.build(services, fresh, ending, facts, live))
        log.info("run.recovered", run=run.id, became=settle.became(settled), why=ending.why)

    async def _outcome(self, run: Run, conversation: Conversation, session: Session) -> Ended | Unknown:
        try:
            spec = spec_of(self._services, conversation, session)
        except AgentUnavailable as error:
            log.warning("run.transcript_not_read", run=run.id, error=str(error))
            return Unknown()
        return await self._services.pool.provider(session.agent).outcome(spec, run.prompt_uuid or "")

    def _unsaid(self, prose: Prose, outcome: Ended, parts: tuple[Part, ...]) -> Final:
        """The words of the transcript that are not queued yet, the same way as the turn itself would have told them apart."""
        split = self._services.chat.split
        sent = {p.text for p in parts if p.kind is PartKind.SENT}
        for event in outcome.events:
            prose.feed(event)
        prose.mark_sent(lambda text: bool(sent) and all(piece in sent for piece in split(text)))
        final = prose.finish()
        queued = Counter(p.text for p in parts if p.kind is PartKind.NARRATION)
        unsaid: list[str] = []
        for text in final.narration:
            pieces = Counter(split(text))
            if pieces <= queued:
                queued -= pieces
            else:
                unsaid.append(text)
        return Final(tuple(unsaid), final.answer)
