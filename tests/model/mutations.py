"""Rules broken on purpose, one clause each: the search has to find every one of them, or it proves nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from storage import events as e
from storage.events import Change, Entity, Event, Insert, Move, Refusal, Touch
from storage.models import Continuation, Rules, Snapshot
from storage.rules import view
from storage.states import ContinuationState as C
from storage.states import PartState as O
from storage.states import PromptState as P
from storage.states import RunState as R
from storage.states import SessionState as S
from storage.transitions import decide, next_step
from tests.model import intake
from tests.model.outbox import OutboxModel
from tests.model.outbox_state import Outside
from tests.model.runs import Runs
from tests.model.runs_state import Budget, Scenario
from tests.model.search import Found, Model, explore
from tests.model.world import Indexes

Decided = tuple[Change, ...] | Refusal

OWNERS = (e.Dispatch, e.Renew, e.Release, e.SessionLost, e.Settle, e.Say, e.Skip, e.Wait, e.NativeIdChanged)


@dataclass(frozen=True, slots=True)
class Mutation:
    """A broken rule, the smallest world that shows it, and the beginning of what must be found."""

    name: str
    broken_rule: str
    model: Callable[[], Model]
    expect: str
    #: What breaks is that everything comes to rest.
    rest: bool = False

    def search(self) -> Found:
        """The shortest way to the violation."""
        return explore(self.model(), limit=200_000, rest=self.rest)


def _runs(change: Callable[..., Decided] | None, budget: Budget, **scenario: Any) -> Callable[[], Model]:
    scenario.setdefault("reduce", False)
    scenario.setdefault("conversations", 1)
    scenario.setdefault("authors", 1)
    return lambda: Runs(Scenario(budget, **scenario), change or decide)


# --- owners and fences ---


def no_fence(snap: Snapshot, event: Event, now_ms: int, rules: Rules) -> Decided:
    """Whoever writes about a run is taken for its owner."""
    if isinstance(event, OWNERS):
        run = view.find(snap.runs, event.run_id)
        if run is not None:
            event = replace(event, fence=run.fence, by=run.holder)
    return decide(snap, event, now_ms, rules)


def takeover_keeps_fence(snap: Snapshot, event: Event, now_ms: int, rules: Rules) -> Decided:
    """The new owner gets the old fence."""
    changes = decide(snap, event, now_ms, rules)
    if not isinstance(event, e.TakeOver) or isinstance(changes, Refusal):
        return changes
    return tuple(replace(c, sets={k: v for k, v in c.sets.items() if k != "fence"}) if isinstance(c, Move) else c for c in changes)


def requeue_dispatched(snap: Snapshot, event: Event, now_ms: int, rules: Rules) -> Decided:
    """A dispatched run whose owner is gone is given back like a claimed one."""
    if not isinstance(event, e.LeaseEnded):
        return decide(snap, event, now_ms, rules)
    runs = tuple(replace(r, state=R.CLAIMED) if r.id == event.run_id and r.state is R.DISPATCHED else r for r in snap.runs)
    changes = decide(replace(snap, runs=runs), event, now_ms, rules)
    if isinstance(changes, Refusal) or runs == snap.runs:
        return changes
    return tuple(replace(c, before=R.DISPATCHED) if isinstance(c, Move) and c.entity is Entity.RUN else c for c in changes)


def no_proof(snap: Snapshot, event: Event, now_ms: int, rules: Rules) -> Decided:
    """Every settlement counts as proven."""
    if isinstance(event, e.Settle):
        event = replace(event, proof=e.Proof.DEAD)
    return decide(snap, event, now_ms, rules)


def claim_trusts_what_it_read(snap: Snapshot, event: Event, now_ms: int, rules: Rules) -> Decided:
    """A claim does not look again whether its session is still open when it is committed."""
    changes = decide(snap, event, now_ms, rules)
    if not isinstance(event, e.Claim) or isinstance(changes, Refusal):
        return changes
    return tuple(c for c in changes if not (isinstance(c, Touch) and c.entity is Entity.SESSION))


# --- waits ---


def arm_at_the_call(snap: Snapshot, event: Event, now_ms: int, rules: Rules) -> Decided:
    """`wait` arms at once."""
    changes = decide(snap, event, now_ms, rules)
    if not isinstance(event, e.Wait) or isinstance(changes, Refusal):
        return changes
    return tuple(
        replace(c, row=replace(c.row, state=C.PENDING)) if isinstance(c, Insert) and isinstance(c.row, Continuation) else c for c in changes
    )


def replace_at_the_call(snap: Snapshot, event: Event, now_ms: int, rules: Rules) -> Decided:
    """`wait` ends the pending continuation at once."""
    changes = decide(snap, event, now_ms, rules)
    if not isinstance(event, e.Wait) or isinstance(changes, Refusal):
        return changes
    pending = [c for c in snap.continuations if c.state is C.PENDING]
    return (*(view.move_continuation(c, C.REPLACED, "too early", by="agent") for c in pending), *changes)


def settle_ignores_session(snap: Snapshot, event: Event, now_ms: int, rules: Rules) -> Decided:
    """The settlement arms whatever became of the session."""
    if isinstance(event, e.Settle):
        snap = replace(snap, sessions=tuple(replace(s, state=S.OPEN) for s in snap.sessions))
    return decide(snap, event, now_ms, rules)


def wake_ignores_session(snap: Snapshot, event: Event, now_ms: int, rules: Rules) -> Decided:
    """What was asked for in a session outlives it."""
    changes = decide(snap, event, now_ms, rules)
    if not isinstance(event, e.SessionLost) or isinstance(changes, Refusal):
        return changes
    return tuple(c for c in changes if c.entity not in {Entity.CONTINUATION, Entity.PROMPT})


def fire_early(snap: Snapshot, event: Event, now_ms: int, rules: Rules) -> Decided:
    """Due whenever somebody says so."""
    if isinstance(event, e.Due):
        due = view.find(snap.continuations, event.continuation_id)
        now_ms = now_ms if due is None else max(now_ms, due.due_at_ms)
    return decide(snap, event, now_ms, rules)


# --- coming to rest ---


def nobody_gives_back(snap: Snapshot, event: Event, now_ms: int, rules: Rules) -> Decided:
    """A claimed run waits for its owner for ever."""
    return Refusal(e.Code.LEASE_HELD) if isinstance(event, e.LeaseEnded) else decide(snap, event, now_ms, rules)


# --- the queue ---


def people_last(snap: Snapshot, event: Event, now_ms: int, rules: Rules) -> Decided:
    """Wakes and events before people."""
    if isinstance(event, e.Claim) and any(p.state is P.WAITING and not p.kind.of_people for p in snap.prompts):
        snap = replace(snap, prompts=tuple(p for p in snap.prompts if not p.kind.of_people))
    return decide(snap, event, now_ms, rules)


def no_unattended_bound(snap: Snapshot, event: Event, now_ms: int, rules: Rules) -> Decided:
    """Nobody need be there."""
    return decide(snap, event, now_ms, replace(rules, unattended_runs=1_000_000))


# --- intake ---


def seen_early(snap: Snapshot, event: Event, now_ms: int, rules: Rules) -> Decided:
    """Every live message moves the last-seen mark."""
    if isinstance(event, (e.Arrive, e.Seen)):
        event = replace(event, caught_up=True)
    return decide(snap, event, now_ms, rules)


def no_source_key(snap: Snapshot, event: Event, now_ms: int, rules: Rules) -> Decided:
    """The key of a prompt is a fresh one, not its message's."""
    if isinstance(event, e.Arrive):
        event = replace(event, source_key=f"{event.source_key}:{len(snap.prompts)}")
    return decide(snap, event, now_ms, rules)


def stop_takes_newer(snap: Snapshot, event: Event, now_ms: int, rules: Rules) -> Decided:
    """/stop withdraws also what was written after it."""
    if isinstance(event, e.Stop):
        snap = replace(snap, prompts=tuple(replace(p, message_id=None) for p in snap.prompts))
    return decide(snap, event, now_ms, rules)


# --- outbox ---


def always_post(part: Any, now_ms: int, rules: Rules) -> Any:
    """The same nonce again, however late."""
    return "history" if part.withdraw else "post" if next_step(part, now_ms, rules) != "wait" else "wait"


def history_in_flight(part: Any, now_ms: int, rules: Rules) -> Any:
    """A clock that went backwards lets the history decide at once."""
    if part.first_attempt_ms is not None and now_ms < part.first_attempt_ms:
        return "history"
    return next_step(part, now_ms, rules)


def absent_at_any_time(snap: Snapshot, event: Event, now_ms: int, rules: Rules) -> Decided:
    """A negative history counts although a request may be in flight (the decision that goes with `history_in_flight`)."""
    if isinstance(event, e.Absent):
        quiet = tuple(replace(p, first_attempt_ms=0, deadline_ms=0) if p.id == event.part_id else p for p in snap.parts)
        snap = replace(snap, parts=quiet)
    return decide(snap, event, now_ms, rules)


def failed_after_silence(snap: Snapshot, event: Event, now_ms: int, rules: Rules) -> Decided:
    """A refusal is taken for the whole truth, whatever was tried before."""
    changes = decide(snap, event, now_ms, rules)
    if not isinstance(event, e.Fail) or isinstance(changes, Refusal):
        return changes
    return tuple(replace(c, after=O.FAILED) if isinstance(c, Move) else c for c in changes)


def _outbox(outside: Outside, **changed: Any) -> Callable[[], Model]:
    return lambda: OutboxModel(outside, **changed)


def _intake(outside: intake.Outside, change: Callable[..., Decided], **changed: Any) -> Callable[[], Model]:
    return lambda: intake.Intake(outside, change, **changed)


_NO_KEY = Indexes(source_key=False)
_ARMED = Budget(messages=1, waits=1)

MUTATIONS: tuple[Mutation, ...] = (
    Mutation(
        "no fence on an owner's write",
        "turns.owned, claims: holder and fence",
        _runs(no_fence, Budget(messages=1, hangs=1)),
        "P5: a former",
    ),
    Mutation(
        "takeover without raising the fence", "turns.take_over", _runs(takeover_keeps_fence, Budget(messages=1, hangs=2)), "P5: a former"
    ),
    Mutation(
        "calling the agent before C3",
        "the process calls, then commits the intent",
        _runs(None, Budget(messages=1, hangs=1), quirks=frozenset({"call_before_intent"})),
        "P3",
    ),
    Mutation(
        "queueing a dispatched run again",
        "claims.lease_ended: only claimed runs",
        _runs(requeue_dispatched, Budget(messages=1, crashes=1), extra=frozenset({(R.DISPATCHED, R.RELEASED)})),
        "P3",
    ),
    Mutation("settling without proof of death", "turns._proven", _runs(no_proof, Budget(messages=1, crashes=1)), "P3, P12"),
    Mutation("arming at the call", "waits.wait", _runs(arm_at_the_call, _ARMED, extra=frozenset({(None, C.PENDING)})), "P4"),
    Mutation("replacing at the call", "waits.wait", _runs(replace_at_the_call, Budget(messages=2, waits=2)), "P4"),
    Mutation(
        "no session comparison at the settlement",
        "turns._end_request",
        _runs(settle_ignores_session, Budget(messages=1, waits=1, hands=1)),
        "P4",
    ),
    Mutation(
        "no session comparison at the end of a session",
        "view.end_session",
        _runs(wake_ignores_session, Budget(messages=2, waits=1, sessions_lost=1)),
        "P4",
    ),
    Mutation("firing early", "waits.due", _runs(fire_early, _ARMED), "P4: c1 fired before"),
    Mutation("people last", "claims.claim: rank", _runs(people_last, Budget(messages=2, waits=1)), "P2"),
    Mutation(
        "no unattended bound",
        "claims._next_batch",
        _runs(no_unattended_bound, Budget(messages=1, waits=2), unattended_runs=1),
        "run 3 went past",
    ),
    Mutation(
        "no workspace index",
        "unique index on the workspace",
        _runs(None, Budget(messages=2, races=1, open_failures=1), conversations=2, indexes=Indexes(workspace=False)),
        "P2: 2 active runs in /p",
    ),
    Mutation(
        "no conversation index",
        "unique index on the conversation, where the folder is shared",
        _runs(None, Budget(messages=2, waits=1, races=1), shared=True, indexes=Indexes(conversation=False)),
        "P2: 2 active runs in conversation",
    ),
    Mutation("last-seen message moved early", "intake._advance", _intake(intake.Outside("pp", drops=0, processes=1), seen_early), "P1"),
    Mutation(
        "no source key", "intake.arrive, unique source key", _intake(intake.Outside("p", processes=1), no_source_key, indexes=_NO_KEY), "P1"
    ),
    Mutation("resend past the window without history", "delivery.next_step", _outbox(Outside(), next_step=always_post), "P6: part 1"),
    Mutation(
        "/stop in two transactions",
        "the process commits /stop in halves",
        _runs(None, Budget(messages=1, waits=1, admin=1), quirks=frozenset({"stop_in_two"}), admin=frozenset({"stop"})),
        "/stop was half done",
    ),
    Mutation(
        "a dead process's claim is never given back",
        "claims.lease_ended",
        _runs(nobody_gives_back, Budget(messages=1, crashes=1)),
        "the system is stuck",
        rest=True,
    ),
    Mutation(
        "a claim commits into a session that has ended since",
        "claims._take: the session is compared again",
        _runs(
            claim_trusts_what_it_read,
            Budget(messages=1, races=1, open_failures=1, admin=1),
            admin=frozenset({"rebind"}),
        ),
        "run 2 is claimed for a session",
    ),
    Mutation("/stop takes what is newer", "stops._ends", _intake(intake.Outside("pp", stops=1, processes=1), stop_takes_newer), "/stop"),
    Mutation(
        "history while a request is in flight",
        "delivery.next_step after a clock that went backwards",
        _outbox(Outside(clock=1), next_step=history_in_flight, decide=absent_at_any_time),
        "P6: part 1",
    ),
    Mutation(
        "failed after an attempt without an answer",
        "delivery.fail",
        _outbox(Outside(refusals=1), decide=failed_after_silence),
        "P6: part 1",
    ),
)
