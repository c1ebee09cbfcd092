"""How runs and waits end: settlement, /stop, cancel, and who may do it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from storage import events as e
from storage.events import Code, Entity, NewPart
from storage.models import PartKind, PromptKind, Rules
from storage.states import ContinuationState as C
from storage.states import PartState as O
from storage.states import PromptState as P
from storage.states import RunState as R
from tests.unit.rows import (
    NOTICE,
    NOW,
    continuation,
    conversation,
    decided,
    inserted,
    moves,
    part,
    prompt,
    refused,
    run,
    session,
    snapshot,
    touched,
    wake,
)

ANSWER = NewPart(PartKind.ANSWER, "answer", "answer-nonce")
OWN = prompt(1, state=P.TAKEN, run_id=run().id)
STOP = e.Stop("user:1", conversation().id, 1_000)


def ended(outcome: R = R.SUCCEEDED, proof: e.Proof = e.Proof.SWEPT, evidence: e.Evidence = e.Evidence.STREAM, **more: object) -> e.Settle:
    return e.Settle("w0", run().id, 1, outcome, proof, evidence, "ended", parts=(ANSWER,), **more)  # type: ignore[arg-type]


# --- settlement ---


@pytest.mark.parametrize(
    ("proof", "evidence"),
    [
        (e.Proof.NONE, e.Evidence.STREAM),
        (e.Proof.SWEPT, e.Evidence.TRANSCRIPT),
        (e.Proof.NONE, e.Evidence.NONE),
        (e.Proof.SWEPT, e.Evidence.NONE),
    ],
)
def test_nothing_is_settled_while_something_of_the_turn_may_live(proof: e.Proof, evidence: e.Evidence) -> None:
    assert refused(snapshot(conversation(), session(), run(), OWN), ended(proof=proof, evidence=evidence)) == Code.NOT_PROVEN


def test_after_a_takeover_only_death_is_proof() -> None:
    taken_over = snapshot(conversation(), session(), run(fence=2), OWN)
    assert refused(taken_over, replace(ended(), fence=2)) == Code.NOT_PROVEN
    dead = replace(ended(proof=e.Proof.DEAD), fence=2)
    assert moves(decided(taken_over, dead), Entity.RUN) == {1: R.INTERRUPTED}
    read = replace(dead, evidence=e.Evidence.TRANSCRIPT)
    assert moves(decided(taken_over, read), Entity.RUN) == {1: R.SUCCEEDED}


def test_a_stopped_run_ends_cancelled_and_its_answer_stays_unsent_but_notices_are_told() -> None:
    stopped = snapshot(conversation(), session(), run(stop_requested=True), OWN, continuation(3, C.REQUESTED))
    changes = decided(stopped, ended(notices=(NOTICE,)))
    assert moves(changes, Entity.RUN) == {1: R.CANCELLED}
    assert moves(changes, Entity.CONTINUATION) == {3: C.DROPPED}
    assert [row.text for row in inserted(changes, Entity.PART)] == ["notice"]


def test_skip_reply_keeps_the_answer_private() -> None:
    changes = decided(snapshot(conversation(), session(), run(skipped_why="not for me"), OWN), ended())
    assert not inserted(changes, Entity.PART)


@pytest.mark.parametrize(("outcome", "after"), [(R.SUCCEEDED, C.PENDING), (R.FAILED, C.DROPPED), (R.INTERRUPTED, C.DROPPED)])
def test_a_wait_is_armed_only_by_success(outcome: R, after: C) -> None:
    snap = snapshot(conversation(), session(), run(), OWN, continuation(3, C.REQUESTED))
    assert moves(decided(snap, ended(outcome)), Entity.CONTINUATION) == {3: after}


def test_the_successor_replaces_a_due_predecessor_with_its_prompt() -> None:
    old, new = continuation(2, C.CLAIMED), continuation(3, C.REQUESTED)
    changes = decided(snapshot(conversation(), session(), run(), OWN, old, new, wake(2)), ended())
    assert moves(changes, Entity.CONTINUATION) == {2: C.REPLACED, 3: C.PENDING}
    assert moves(changes, Entity.PROMPT) == {1: P.SETTLED, 2: P.WITHDRAWN}


def test_an_answered_message_counts_as_attended_and_a_wake_does_not() -> None:
    user = decided(snapshot(conversation(unattended_runs=3), session(), run(), OWN), ended())
    assert touched(user, Entity.CONVERSATION)["unattended_runs"] == 0
    woken = decided(snapshot(conversation(unattended_runs=3), session(), run(kind=PromptKind.WAKE), OWN), ended())
    assert "unattended_runs" not in touched(woken, Entity.CONVERSATION)


# --- stop ---


def test_stop_keeps_what_was_written_after_it() -> None:
    snap = snapshot(conversation(), prompt(1, message_id=999), prompt(2, message_id=1_001), prompt(3, state=P.OFFERED, message_id=5))
    assert moves(decided(snap, STOP), Entity.PROMPT) == {1: P.WITHDRAWN, 3: P.WITHDRAWN}


def test_stop_remembers_the_newest_stop() -> None:
    assert touched(decided(snapshot(conversation(stop_id=5_000)), STOP), Entity.CONVERSATION)["stop_id"] == 5_000


def test_stop_leaves_notices_and_other_channels_alone_and_lets_history_decide_about_what_may_be_out() -> None:
    parts = [
        part(1),
        part(2, kind=PartKind.NOTICE),
        part(3, O.SENDING, attempt=1, holder="w0", deadline_ms=NOW, first_attempt_ms=NOW),
        part(4, O.READY, attempt=1, first_attempt_ms=NOW),
        part(5, conversation_id=2, channel_id=102),
    ]
    changes = decided(snapshot(conversation(), *parts), STOP)
    assert moves(changes, Entity.PART) == {1: O.WITHDRAWN}
    withdrawn = [int(c.id) for c in changes if isinstance(c, e.Touch) and c.entity is Entity.PART]
    assert withdrawn == [3, 4]


@pytest.mark.parametrize(
    "theirs",
    [
        [prompt(1, author_id=2)],
        [prompt(1, state=P.OFFERED, author_id=2)],
        [run(), prompt(1, state=P.TAKEN, run_id=run().id, author_id=2)],
        [continuation(1, began_by=2)],
        [run(state=R.SUCCEEDED, began_by=2), part(1)],
    ],
    ids=["waiting", "offered", "running", "continuation", "unsent words"],
)
def test_a_member_stops_only_what_he_began(theirs: list[object]) -> None:
    mine = replace(STOP, only_own=1)
    assert refused(snapshot(conversation(), session(), *theirs), mine) == Code.NOT_YOURS
    assert decided(snapshot(conversation(), session(), *theirs), STOP)
    assert decided(snapshot(conversation(), session(), prompt(5), continuation(7)), mine)


def test_reset_ends_the_session_and_stop_does_not() -> None:
    assert not moves(decided(snapshot(conversation(), session()), STOP), Entity.SESSION)
    assert len(moves(decided(snapshot(conversation(), session()), replace(STOP, reset=True)), Entity.SESSION)) == 1


def test_a_binding_is_not_changed_under_a_run() -> None:
    rebind = e.Rebind("config", conversation().id, "p", "a", "/q", shared=False)
    assert refused(snapshot(conversation(), session(), run(), OWN), rebind) == Code.TOO_EARLY
    changes = decided(snapshot(conversation(), session(), continuation()), rebind)
    assert moves(changes, Entity.CONTINUATION) == {1: C.FENCED}


# --- waits ---


def test_cancel_of_a_due_wait_takes_its_claimed_run_along() -> None:
    woken = run(1, 1, R.CLAIMED, kind=PromptKind.WAKE)
    due = continuation(2, C.CLAIMED)
    snap = snapshot(conversation(), session(), woken, due, wake(2, state=P.TAKEN, run_id=woken.id))
    changes = decided(snap, e.Cancel("user:1", due.id, "no"))
    assert moves(changes, Entity.RUN) == {1: R.CANCELLED}
    assert moves(changes, Entity.PROMPT) == {2: P.WITHDRAWN}


@pytest.mark.parametrize(("state", "code"), [(C.DISPATCHED, Code.TOO_LATE), (C.EXPIRED, Code.ENDED), (C.CANCELLED, Code.ENDED)])
def test_what_was_handed_over_or_has_ended_is_not_cancelled(state: C, code: Code) -> None:
    assert refused(snapshot(conversation(), continuation(2, state)), e.Cancel("user:1", continuation(2).id, "no")) == code


def test_a_member_cancels_and_wakes_only_his_own() -> None:
    theirs = snapshot(conversation(), session(), continuation(2, began_by=2))
    assert refused(theirs, e.Cancel("user:1", continuation(2).id, "no", only_own=1)) == Code.NOT_YOURS
    assert refused(theirs, e.WakeNow("user:1", continuation(2).id, only_own=1)) == Code.NOT_YOURS


def test_wake_now_is_due_at_once_and_somebody_is_there() -> None:
    pending = continuation(2, due_at_ms=NOW + 60_000)
    changes = decided(snapshot(conversation(unattended_runs=3), session(), pending), e.WakeNow("user:1", pending.id))
    (move,) = (c for c in changes if isinstance(c, e.Move))
    assert (move.after, dict(move.sets)) == (C.PENDING, {"due_at_ms": NOW})
    assert touched(changes, Entity.CONVERSATION)["unattended_runs"] == 0


def test_a_wait_fires_from_its_due_time_until_its_expiry() -> None:
    pending = continuation(2, due_at_ms=NOW, expires_at_ms=NOW + 10)
    snap, due = snapshot(conversation(), session(), pending), e.Due("w0", pending.id, NOTICE)
    assert refused(snap, due, NOW - 1) == Code.TOO_EARLY
    assert moves(decided(snap, due, NOW), Entity.CONTINUATION) == {2: C.CLAIMED}
    assert moves(decided(snap, due, NOW + 9), Entity.CONTINUATION) == {2: C.CLAIMED}
    expired = decided(snap, due, NOW + 10)
    assert moves(expired, Entity.CONTINUATION) == {2: C.EXPIRED}
    assert not inserted(expired, Entity.PROMPT)
    assert [row.text for row in inserted(expired, Entity.PART)] == ["notice"]


def test_the_wake_goes_back_to_the_person_who_began() -> None:
    changes = decided(snapshot(conversation(), session(), continuation(2, began_by=7)), e.Due("w0", continuation(2).id))
    (row,) = inserted(changes, Entity.PROMPT)
    assert (row.author_id, row.source_key, row.session_id) == (7, "continuation:2", 1)


def test_at_the_unattended_bound_a_wake_may_not_ask_for_another_wait() -> None:
    rules = Rules(unattended_runs=1)
    wait = e.Wait("w0", run().id, 1, "later", NOW + 1, NOW + 2)
    woken = snapshot(conversation(unattended_runs=1), session(), run(kind=PromptKind.WAKE), OWN)
    assert refused(woken, wait, rules=rules) == Code.UNATTENDED
    assert refused(snapshot(conversation(), session(), run(stop_requested=True), OWN), wait) == Code.STOPPED


def test_narration_that_comes_after_skip_reply_stays_in_and_a_message_of_the_agents_own_does_not() -> None:
    words = tuple(NewPart(kind, kind.value, f"{kind.value}-nonce") for kind in (PartKind.NARRATION, PartKind.SENT))
    private = snapshot(conversation(), session(), run(skipped_why="not for me"), OWN)
    queued = inserted(decided(private, e.Say("w0", run().id, 1, words)), Entity.PART)
    assert [row.kind for row in queued] == [PartKind.SENT]


def test_the_agent_of_a_former_owner_cancels_no_wait() -> None:
    pending = continuation(5, C.PENDING)
    ask = e.Cancel("agent", pending.id, "not needed", by_agent=True, run_id=run().id, fence=1)
    assert moves(decided(snapshot(conversation(), session(), run(), OWN, pending), ask), Entity.CONTINUATION) == {5: C.CANCELLED}
    for other in (run(fence=2), run(state=R.INTERRUPTED)):
        assert refused(snapshot(conversation(), session(), other, pending), ask) == Code.STALE_FENCE


def test_what_an_admin_gives_up_is_offered_to_be_resumed_unless_it_was_stopped() -> None:
    event = e.GiveUp("user:1", run().id, "the host is gone", NOTICE)
    changes = decided(snapshot(conversation(), session(), run(), OWN), event)
    assert (moves(changes, Entity.RUN), [p.text for p in inserted(changes, Entity.PART)]) == ({1: R.INTERRUPTED}, [NOTICE.text])
    stopped = decided(snapshot(conversation(), session(), run(stop_requested=True), OWN), event)
    assert (moves(stopped, Entity.RUN), inserted(stopped, Entity.PART)) == ({1: R.CANCELLED}, [])
    assert inserted(decided(snapshot(conversation(), session(), run(), OWN), replace(event, notice=None)), Entity.PART) == []
