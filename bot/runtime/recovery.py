"""Ends what processes now gone had begun: gives claimed runs back, and settles dispatched ones from the agent's transcript.

A takeover raises the fence first, so that the former owner changes nothing any more, and proves its agent dead after that. Only
then is the transcript read: what it shows as ended is delivered, anything else is interrupted and people decide.
"""

from __future__ import annotations

from collections import Counter

import structlog

from bot.agents.base import AgentUnavailable, Death, Ended, Unknown
from bot.runtime import notices, settle
from bot.runtime.identity import from_json
from bot.runtime.lease import Lease, lease_until_ms
from bot.runtime.prose import Final, Prose
from bot.runtime.services import Services, spec_of
from storage.events import Code, Evidence, LeaseEnded, Proof, Refusal, TakeOver
from storage.models import Conversation, Part, PartKind, PromptKind, Run, RunId, Session
from storage.states import RunState

log = structlog.get_logger(__name__)

#: Pauses between two tries to prove an agent dead.
_PROOF_PAUSES_S = (0.2, 1.0, 2.0, 5.0, 10.0)


class Recovery:
    """Looks at the start, and once in a while: with PostgreSQL another process may go at any time."""

    def __init__(self, services: Services) -> None:
        self._services = services
        #: Said once for each run.
        self._elsewhere: set[RunId] = set()

    async def step(self) -> None:
        """One look at the active runs of others, then a pause."""
        services = self._services
        for run in await services.store.runs.held_by_others(services.instance):
            if run.state is RunState.CLAIMED:
                await self._give_back(run)
            else:
                await self._take_over(run)
        await services.clock.sleep(services.config.sweep_s)

    async def _give_back(self, run: Run) -> None:
        """The agent was not called: its prompts wait again."""
        services = self._services
        why = "Nightporter ended several times while it started the agent"
        event = LeaseEnded(services.instance, run.id, holder_gone=services.store.exclusive, notice=notices.not_started(why))
        outcome = await services.ledger.do(event)
        if not isinstance(outcome, Refusal):
            log.info("run.given_back", run=run.id, holder=run.holder)

    async def _take_over(self, run: Run) -> None:
        services = self._services
        since_s = services.clock.monotonic_s()
        until_ms = lease_until_ms(services.clock, services.config)
        event = TakeOver(services.instance, run.id, services.config.host, until_ms, holder_gone=services.store.exclusive)
        outcome = await services.ledger.do(event)
        if isinstance(outcome, Refusal):
            if outcome.code is Code.OTHER_HOST and run.id not in self._elsewhere:
                self._elsewhere.add(run.id)
                log.warning("run.on_another_host", run=run.id, host=run.host, holder=run.holder)
            return
        log.info("run.taken_over", run=run.id, holder=run.holder, fence=run.fence + 1)
        lease = Lease(services.ledger, services.clock, services.config, services.supervisor, since_s)
        services.supervisor.spawn(f"recovery.{run.id}", self._recover(run.id, lease))

    async def _recover(self, run_id: RunId, lease: Lease) -> None:
        """From the takeover to the settlement. A crash in between: the next process takes over again."""
        services = self._services
        run = await services.ledger.keep_reading(lambda: services.store.runs.by_id(run_id))
        if run is None:
            return
        keeping = services.supervisor.spawn("lease", lease.keep(run.id, run.fence))
        try:
            conversation = await services.ledger.keep_reading(lambda: services.store.conversations.by_id(run.conversation_id))
            session = await services.ledger.keep_reading(lambda: services.store.sessions.by_id(run.session_id))
            if conversation is not None and session is not None and await self._proven_dead(run, session, lease):
                await self._settle(run, conversation, session)
        finally:
            keeping.cancel()

    async def _proven_dead(self, run: Run, session: Session, lease: Lease) -> bool:
        """Wait for the proof; False if it cannot come here."""
        services = self._services
        process = from_json(run.process)
        try:
            provider = services.pool.provider(session.agent)
        except KeyError:
            log.error("run.cannot_be_recovered", run=run.id, why=f"the configuration has no agent {session.agent!r}")  # noqa: TRY400
            return False
        if process is None:
            log.error("run.cannot_be_recovered", run=run.id, why="the identity of its process cannot be read")
            return False
        tries = 0
        while not lease.lost.is_set():
            match await provider.prove_dead(process):
                case Death.DEAD:
                    return True
                case Death.OTHER_HOST:
                    log.error("run.on_another_host", run=run.id, host=process.host)
                    return False
                case Death.ALIVE:
                    log.warning("run.agent_still_alive", run=run.id, pid=process.agent_pid)
            await services.clock.sleep(_PROOF_PAUSES_S[min(tries, len(_PROOF_PAUSES_S) - 1)])
            tries += 1
        return False

    async def _settle(self, run: Run, conversation: Conversation, session: Session) -> None:
        services = self._services
        outcome = await self._outcome(run, conversation, session)
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
            told = () if fresh.stop_requested else (notices.interrupted(run.id, settle.UNKNOWN_END),)
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
