"""Turns the end of a turn into one `Settle`: the outcome, the words that are left, what people are told, and the footer."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from bot.agents.base import EndKind, ErrorKind, RunEnded, Usage
from bot.runtime import notices
from bot.runtime.limits import after_limit
from bot.runtime.prose import Final
from bot.runtime.services import Services
from storage.events import Again, Entity, Evidence, Move, NewPart, Proof, Refusal, Settle
from storage.models import Continuation, PartKind, Prompt, Run
from storage.states import ContinuationState, RunState
from storage.store import Done

Outcome = Literal[RunState.SUCCEEDED, RunState.FAILED, RunState.INTERRUPTED]

#: Why Nightporter ended a turn itself; also what people read.
SHUTDOWN = "Nightporter was shut down"
LEASE_LOST = "Nightporter could not reach its database for too long"
UNKNOWN_END = "Nightporter was restarted while the agent worked, and it is not known how far it got"
STOPPED = "stopped"


@dataclass(frozen=True, slots=True)
class Ending:
    """How a turn ended, as far as its run is concerned."""

    outcome: Outcome
    why: str
    notices: tuple[NewPart, ...] = ()
    #: See `Settle`.
    park_until_ms: int | None = None
    again: Again | None = None


@dataclass(slots=True)
class Record:
    """Everything the agent said, and tokens and cost: kept with the run."""

    said: list[tuple[str, str]] = field(default_factory=list)
    usage: list[Usage] = field(default_factory=list)

    def as_json(self) -> str:
        """As it is stored."""
        usage = [
            {"scope": u.scope, "input_tokens": u.input_tokens, "output_tokens": u.output_tokens, "cost_usd": u.cost_usd} for u in self.usage
        ]
        return json.dumps({"said": [{"block": b, "text": t} for b, t in self.said], "usage": usage}, ensure_ascii=False)


def ending_of(run: Run, prompts: Sequence[Prompt], end: RunEnded, cut_by: str | None, now_ms: int, *, resumable: bool) -> Ending:
    """The outcome of a turn about `prompts` that this process saw end.

    `cut_by`: why Nightporter itself interrupted it, if it did. `resumable`: it was not resumed too often.
    """
    if end.end is EndKind.COMPLETED:
        return Ending(RunState.SUCCEEDED, "the turn ended")
    if run.stop_requested or cut_by == STOPPED:
        return Ending(RunState.INTERRUPTED, STOPPED)
    if cut_by is not None:
        return Ending(RunState.INTERRUPTED, cut_by, (notices.interrupted(run.id, cut_by, resumable=resumable),))
    detail = end.detail or "no reason was given"
    match end.end:
        case EndKind.INTERRUPTED:
            return Ending(RunState.INTERRUPTED, detail, (notices.interrupted(run.id, detail.rstrip("."), resumable=resumable),))
        case EndKind.REFUSED:
            return Ending(RunState.FAILED, "the model declined to answer", (notices.refused(),))
        case EndKind.LIMIT:
            limited = after_limit(run, prompts, end, now_ms)
            return Ending(RunState.FAILED, "the account's usage limit", (limited.notice,), limited.until_ms, limited.again)
        case EndKind.FAILED:
            kind = end.error or ErrorKind.UNKNOWN
            return Ending(RunState.FAILED, f"{kind.value}: {detail}", (notices.failed(run.id, kind, resumable=resumable),))


@dataclass(frozen=True, slots=True)
class Facts:
    """What is known beside the outcome when a run is settled."""

    fence: int
    proof: Proof
    evidence: Evidence
    final: Final
    record: Record
    #: Words that `send_message` already put into the channel.
    sent: bool = False
    #: The reason of a wait that the unattended bound refused.
    refused_wait: str | None = None
    #: The message to answer.
    reply_to_id: int | None = None
    #: The agent's new session id, if it changed.
    native_id: str | None = None


def build(services: Services, run: Run, ending: Ending, facts: Facts, live: Sequence[Continuation]) -> Settle:
    """The event. The footer says what will be pending once it is stored."""
    pending = _pending_after(run, ending, live)
    next_up = notices.next_up(pending)
    parts: tuple[NewPart, ...] = ()
    if services.config.narration == "silent":
        parts += narration(services, facts.final.narration)
    told = ending.notices
    if facts.refused_wait is not None and ending.outcome is RunState.SUCCEEDED and not run.stop_requested:
        told += (notices.wait_refused(run.id, facts.refused_wait),)
    answer = services.chat.split(facts.final.answer)
    if answer:
        texts = notices.with_footer(answer, next_up)
        parts += notices.words(PartKind.ANSWER, texts, reply_to_id=facts.reply_to_id)
    elif ending.outcome is RunState.SUCCEEDED and run.skipped_why is None and not run.stop_requested:
        if not facts.sent:
            told += (notices.no_answer(next_up),)
        elif pending is not None:
            told += (notices.small(next_up),)
    return Settle(
        services.instance,
        run.id,
        facts.fence,
        ending.outcome,
        facts.proof,
        facts.evidence,
        ending.why,
        parts,
        told,
        facts.native_id,
        facts.record.as_json(),
        ending.park_until_ms,
        ending.again,
    )


def narration(services: Services, texts: Sequence[str]) -> tuple[NewPart, ...]:
    """Text between tool calls as small messages."""
    return tuple(part for text in texts for part in notices.words(PartKind.NARRATION, services.chat.split(text)))


def _pending_after(run: Run, ending: Ending, live: Sequence[Continuation]) -> Continuation | None:
    """The continuation that will be armed after the settlement: the run's own wish, else the one armed before."""
    if ending.outcome is RunState.SUCCEEDED:
        wish = next((c for c in live if c.state is ContinuationState.REQUESTED and c.origin_run_id == run.id), None)
        if wish is not None:
            return wish
    return next((c for c in live if c.state is ContinuationState.PENDING), None)


def became(outcome: Done | Refusal) -> str:
    """The run's state after the settlement, or why it was refused; for the log."""
    if isinstance(outcome, Refusal):
        return f"refused: {outcome.code.value}"
    return next((c.after.value for c in outcome.changes if isinstance(c, Move) and c.entity is Entity.RUN), "unchanged")
