"""What becomes a prompt, and what the outbox does with one part."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from storage import events as e
from storage.events import Code, Entity
from storage.models import Part, PartKind, PromptKind, Rules, SessionId
from storage.states import ContinuationState as C
from storage.states import PartState as O
from storage.states import PromptState as P
from storage.states import RunState as R
from storage.states import SessionState as S
from storage.transitions import next_step
from tests.unit.rows import (
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
)

HELLO = e.Arrive("gateway", conversation().id, PromptKind.USER, NOW, 1, "A", "hello", "message:50", addressed=True, message_id=50)
RULES = Rules()
NOTICE = e.NewPart(PartKind.NOTICE, "too many wait", "nonce", reply_to_id=50)


def test_a_message_is_stored_once_and_a_replay_may_still_move_the_mark() -> None:
    stored = snapshot(conversation(), prompt(1, source_key="message:50"))
    assert refused(stored, HELLO) == Code.DUPLICATE
    replay = decided(stored, replace(HELLO, caught_up=True))
    assert not inserted(replay, Entity.PROMPT)
    assert touched(replay, Entity.CONVERSATION) == {"last_seen_id": 50}


@pytest.mark.parametrize(
    ("source", "caught_up", "moved"), [("live", False, False), ("live", True, True), ("catch_up", False, True), ("internal", True, False)]
)
def test_the_mark_moves_only_where_nothing_before_it_can_be_missing(source: str, caught_up: bool, moved: bool) -> None:
    event = replace(HELLO, source=source, caught_up=caught_up)  # type: ignore[arg-type]
    assert ("last_seen_id" in touched(decided(snapshot(conversation()), event), Entity.CONVERSATION)) is moved


def test_the_mark_never_moves_back() -> None:
    later = snapshot(conversation(last_seen_id=60))
    assert "last_seen_id" not in touched(decided(later, replace(HELLO, caught_up=True)), Entity.CONVERSATION)


@pytest.mark.parametrize(
    ("age_ms", "source", "stop_id", "state"),
    [
        (3_600_000, "catch_up", 0, P.WAITING),
        (3_600_001, "catch_up", 0, P.OFFERED),
        (3_600_001, "live", 0, P.WAITING),
        (0, "live", 51, P.WITHDRAWN),
        (0, "live", 49, P.WAITING),
        (3_600_001, "catch_up", 51, P.WITHDRAWN),
    ],
)
def test_old_messages_are_offered_and_those_before_a_stop_are_withdrawn(age_ms: int, source: str, stop_id: int, state: P) -> None:
    event = replace(HELLO, ordered_ms=NOW - age_ms, source=source)  # type: ignore[arg-type]
    (row,) = inserted(decided(snapshot(conversation(stop_id=stop_id)), event), Entity.PROMPT)
    assert row.state is state


def test_the_queue_holds_so_many_people_and_wakes_do_not_count() -> None:
    rules = Rules(queue_limit=2)
    full = snapshot(conversation(), prompt(1), prompt(2))
    told = replace(HELLO, caught_up=True, if_full=NOTICE)
    outcome = decided(full, told, rules=rules)
    assert [p.state for p in inserted(outcome, Entity.PROMPT)] == [P.WITHDRAWN], "a row of its own: it is neither lost nor read again"
    assert [p.reply_to_id for p in inserted(outcome, Entity.PART)] == [50]
    assert touched(outcome, Entity.CONVERSATION)["last_seen_id"] == 50
    assert "attended_at_ms" not in touched(outcome, Entity.CONVERSATION), "what is not taken is nobody's presence"
    event = prompt(2, kind=PromptKind.EVENT)
    assert decided(snapshot(conversation(), prompt(1), event), HELLO, rules=rules)
    old = replace(HELLO, source="catch_up", ordered_ms=0)
    assert decided(full, old, rules=rules), "what is offered takes no place"


def test_a_flood_is_told_once_until_the_notice_is_posted() -> None:
    event, rules = replace(HELLO, if_full=NOTICE), Rules(queue_limit=1)
    waits = part(1, kind=PartKind.NOTICE, reply_to_id=49)
    assert not inserted(decided(snapshot(conversation(), prompt(1), waits), event, rules=rules), Entity.PART)
    other = part(1, kind=PartKind.NOTICE), part(2, reply_to_id=49)
    assert inserted(decided(snapshot(conversation(), prompt(1), *other), event, rules=rules), Entity.PART)


def test_only_an_addressed_message_is_a_person_who_is_there() -> None:
    away = conversation(unattended_runs=5)
    assert touched(decided(snapshot(away), HELLO), Entity.CONVERSATION)["unattended_runs"] == 0
    assert not touched(decided(snapshot(away), replace(HELLO, addressed=False)), Entity.CONVERSATION)


def test_an_event_for_a_session_that_has_ended_is_refused() -> None:
    event = replace(HELLO, kind=PromptKind.EVENT, message_id=None, session_id=session().id)
    assert refused(snapshot(conversation(), session(state=S.ENDED)), event) == Code.STALE_SESSION
    assert decided(snapshot(conversation(), session()), event)


def test_offered_messages_are_run_or_discarded_together() -> None:
    offered = snapshot(conversation(), prompt(1, state=P.OFFERED), prompt(2, state=P.OFFERED), prompt(3))
    assert moves(decided(offered, e.Choose("user:1", conversation().id, run=True)), Entity.PROMPT) == {1: P.WAITING, 2: P.WAITING}
    assert moves(decided(offered, e.Choose("user:1", conversation().id, run=False)), Entity.PROMPT) == {1: P.WITHDRAWN, 2: P.WITHDRAWN}
    assert refused(snapshot(conversation(), prompt(3)), e.Choose("user:1", conversation().id, run=True)) == Code.ENDED


def test_what_runs_is_neither_edited_nor_removed() -> None:
    running = snapshot(conversation(), session(), run(), prompt(1, state=P.TAKEN, run_id=run().id))
    assert refused(running, e.Edit("gateway", prompt(1).id, "new")) == Code.TOO_LATE
    assert refused(running, e.Remove("user:1", prompt(1).id, "gone")) == Code.TOO_LATE
    assert refused(snapshot(conversation(), prompt(1, author_id=2)), e.Remove("user:1", prompt(1).id, "gone", only_own=1)) == Code.NOT_YOURS


def test_resume_pressed_twice_is_one_prompt_and_only_where_something_was_cut_off() -> None:
    press = e.Resume("user:1", run().id, 1, "A", "go on")
    cut = run(state=R.INTERRUPTED)
    assert inserted(decided(snapshot(conversation(), cut), press), Entity.PROMPT)[0].source_key == "resume:1"
    assert refused(snapshot(conversation(), cut, prompt(1, source_key="resume:1", state=P.SETTLED)), press) == Code.DUPLICATE
    assert refused(snapshot(conversation(), run(state=R.SUCCEEDED)), press) == Code.ENDED


def test_what_wanted_to_wait_for_more_goes_on_when_a_person_says_so_and_not_before_it_has_ended() -> None:
    press = e.Resume("user:1", run().id, 1, "A", "go on")
    woken = run(state=R.SUCCEEDED, kind=PromptKind.WAKE)
    assert inserted(decided(snapshot(conversation(unattended_runs=24), woken), press), Entity.PROMPT)[0].source_key == "resume:1"
    assert refused(snapshot(conversation(), replace(woken, state=R.DISPATCHED)), press) == Code.ENDED
    assert refused(snapshot(conversation(), replace(woken, state=R.CANCELLED)), press) == Code.ENDED


# --- one part ---


def after(row: Part, changes: tuple[e.Change, ...]) -> Part:
    """The part with what a decision sets on it."""
    (move,) = changes
    assert isinstance(move, e.Move)
    values: dict[str, Any] = dict(move.sets)
    return replace(row, **values)


SENDING = part(1, O.SENDING, attempt=1, holder="w0", first_attempt_ms=NOW, deadline_ms=NOW + 30_000)


@pytest.mark.parametrize(("after_ms", "step"), [(0, "post"), (60_000, "post"), (60_001, "history"), (-1, "wait"), (-3_600_000, "wait")])
def test_the_same_nonce_within_the_window_then_history(after_ms: int, step: str) -> None:
    assert next_step(SENDING, NOW + after_ms, RULES) == step


def test_history_waits_until_no_request_can_be_in_flight() -> None:
    late = replace(SENDING, deadline_ms=NOW + 85_000)
    assert next_step(late, NOW + 60_001, RULES) == "wait"
    assert next_step(late, NOW + 85_000, RULES) == "wait"
    assert next_step(late, NOW + 85_001, RULES) == "history"
    stopped = replace(SENDING, withdraw=True)
    assert next_step(stopped, NOW, RULES) == "wait"


def test_after_a_clock_that_went_backwards_history_waits_as_long_as_a_request_may_fly_and_no_longer() -> None:
    earlier = NOW - 3_600_000
    taken = decided(snapshot(SENDING), e.TakePart("w1", SENDING.id, earlier + 30_000, holder_gone=True), earlier)
    again = after(SENDING, taken)
    assert next_step(again, earlier, RULES) == "wait"
    assert next_step(again, earlier + 30_001, RULES) == "history"
    back = after(SENDING, decided(snapshot(SENDING), e.Retry("w0", SENDING.id, 1), earlier))
    assert next_step(back, earlier + 30_001, RULES) == "history"


def test_a_part_waits_for_the_earlier_ones_of_its_channel() -> None:
    second = part(2)
    send = e.Send("w0", second.id, NOW + 30_000)
    assert refused(snapshot(SENDING, second), send) == Code.NOT_FIRST
    assert decided(snapshot(replace(SENDING, state=O.UNKNOWN), second), send)
    assert decided(snapshot(replace(SENDING, channel_id=999), second), send)


@pytest.mark.parametrize(("kind", "attempt", "state"), [("answer", 0, O.EXPIRED), ("notice", 0, O.SENDING), ("answer", 1, O.SENDING)])
def test_only_the_agents_own_words_that_were_never_tried_expire(kind: str, attempt: int, state: O) -> None:
    old = part(1, kind=PartKind(kind), attempt=attempt, queued_ms=NOW - 6 * 3_600_000 - 1, first_attempt_ms=NOW if attempt else None)
    assert moves(decided(snapshot(old), e.Send("w0", old.id, NOW + 30_000)), Entity.PART) == {1: state}


def test_a_refusal_is_failed_only_if_nothing_before_it_can_have_arrived() -> None:
    assert moves(decided(snapshot(SENDING), e.Fail("w0", SENDING.id, 1, "no")), Entity.PART) == {1: O.FAILED}
    second = replace(SENDING, attempt=2)
    assert moves(decided(snapshot(second), e.Fail("w0", SENDING.id, 2, "no")), Entity.PART) == {1: O.UNKNOWN}


@pytest.mark.parametrize("state", [O.READY, O.SENDING, O.UNKNOWN])
def test_a_late_echo_proves_the_delivery(state: O) -> None:
    echo = e.Receipt("gateway", SENDING.id, 77)
    assert moves(decided(snapshot(replace(SENDING, state=state)), echo), Entity.PART) == {1: O.DELIVERED}


@pytest.mark.parametrize("event", [e.Receipt("w0", SENDING.id, 7, 1), e.Retry("w0", SENDING.id, 1), e.Fail("w0", SENDING.id, 1, "no")])
def test_an_old_attempt_changes_nothing(event: e.Receipt | e.Retry | e.Fail) -> None:
    assert refused(snapshot(replace(SENDING, attempt=2)), event) == Code.STALE_FENCE
    assert refused(snapshot(replace(SENDING, holder="w1")), event) == Code.STALE_FENCE


def test_start_fresh_ends_the_session_that_is_no_use_with_its_waits_and_leaves_the_queue() -> None:
    press = e.Resume("user:1", run().id, 1, "A", "go on", fresh=True)
    failed, queued, armed = run(state=R.FAILED), prompt(5), continuation(1)
    changes = decided(snapshot(conversation(), session(), failed, queued, armed), press)
    assert moves(changes, Entity.SESSION) == {1: S.ENDED}
    assert moves(changes, Entity.CONTINUATION) == {1: C.FENCED}
    assert moves(changes, Entity.PROMPT) == {}
    (resumed,) = inserted(changes, Entity.PROMPT)
    assert (resumed.kind, resumed.source_key) == (PromptKind.RESUME, "resume:1")
    # Somebody works in it.
    assert refused(snapshot(conversation(), session(), failed, run(2)), press) == Code.TOO_EARLY
    # It is another one already.
    assert moves(decided(snapshot(conversation(), session(2), replace(failed, session_id=SessionId(1))), press), Entity.SESSION) == {}
    assert moves(decided(snapshot(conversation(), session(), failed, armed), replace(press, fresh=False)), Entity.SESSION) == {}
