"""Who runs next, how many messages go together, and what a claim that comes to nothing costs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from storage import events as e
from storage.events import Code, Entity
from storage.models import Prompt, PromptKind, Rules, Snapshot
from storage.states import ContinuationState as C
from storage.states import PromptState as P
from storage.states import RunState as R
from storage.states import SessionState as S
from tests.unit.rows import (
    NOTICE,
    NOW,
    continuation,
    conversation,
    decided,
    inserted,
    moves,
    prompt,
    refused,
    run,
    session,
    snapshot,
    touched,
    wake,
)

CLAIM = e.Claim("w0", "host", NOW + 30_000, "native", "standing")


def taken(snap: Snapshot, now_ms: int = NOW, rules: Rules | None = None) -> list[int]:
    return sorted(moves(decided(snap, CLAIM, now_ms, rules), Entity.PROMPT))


def test_messages_of_one_author_in_a_row_are_one_run() -> None:
    snap = snapshot(conversation(), prompt(1), prompt(2), prompt(3, author_id=2), prompt(4))
    assert taken(snap) == [1, 2]


def test_messages_go_in_the_order_they_were_written_not_stored() -> None:
    snap = snapshot(conversation(), prompt(1, ordered_ms=9, author_id=2), prompt(2, ordered_ms=3))
    assert taken(snap) == [2]


def test_at_most_ten_messages_go_together() -> None:
    snap = snapshot(conversation(), *(prompt(number) for number in range(1, 13)))
    assert taken(snap) == list(range(1, 11))


def test_at_most_sixteen_thousand_characters_go_together() -> None:
    snap = snapshot(conversation(), prompt(1, text="x" * 9_000), prompt(2, text="x" * 7_000), prompt(3, text="x"))
    assert taken(snap) == [1, 2]


def test_one_message_that_is_too_long_goes_alone() -> None:
    snap = snapshot(conversation(), prompt(1, text="x" * 17_000), prompt(2))
    assert taken(snap) == [1]


def test_a_resume_goes_alone() -> None:
    resume = prompt(1, kind=PromptKind.RESUME, source_key="resume:1")
    assert taken(snapshot(conversation(), resume, prompt(2))) == [1]
    assert taken(snapshot(conversation(), prompt(1), replace(resume, id=prompt(2).id, ordered_ms=2))) == [1]


def test_a_wake_goes_alone_and_after_people() -> None:
    waiting = [wake(1), wake(2, kind=PromptKind.EVENT), prompt(3)]
    assert taken(snapshot(conversation(), session(), *waiting)) == [3]
    assert taken(snapshot(conversation(), session(), *waiting[:2])) == [1]


def test_people_go_first_between_conversations_of_a_folder() -> None:
    snap = snapshot(conversation(1), conversation(2), session(1, 1), wake(1, 1), prompt(2, 2))
    assert taken(snap) == [2]


def test_first_come_first_served_between_conversations_of_a_folder() -> None:
    snap = snapshot(conversation(1), conversation(2), prompt(1, 2, ordered_ms=5), prompt(2, 1, ordered_ms=4))
    assert taken(snap) == [2]


@pytest.mark.parametrize("state", [R.CLAIMED, R.DISPATCHED])
def test_nothing_is_claimed_while_the_folder_is_busy(state: R) -> None:
    other = run(1, 2, state)
    assert refused(snapshot(conversation(1), conversation(2), prompt(1, 1), other), CLAIM) == Code.NOTHING


def test_in_a_shared_folder_only_the_conversation_counts() -> None:
    busy = run(1, 1, workspace=None)
    mine, other = conversation(1, shared=True), conversation(2, shared=True)
    assert refused(snapshot(mine, prompt(1, 1), busy), CLAIM) == Code.NOTHING
    assert taken(snapshot(other, prompt(1, 2), busy)) == [1]


def test_a_claim_begins_a_session_only_where_none_is_open() -> None:
    fresh = decided(snapshot(conversation(), prompt(1)), CLAIM)
    assert [row.native_id for row in inserted(fresh, Entity.SESSION)] == ["native"]
    assert not inserted(decided(snapshot(conversation(), session(), prompt(1)), CLAIM), Entity.SESSION)


# --- a long piece ---

PIECE = "x" * 1_900


def test_a_long_piece_waits_for_its_continuation_and_no_longer() -> None:
    snap = snapshot(conversation(), prompt(1, text=PIECE, created_ms=NOW))
    assert refused(snap, CLAIM, NOW + 699) == Code.NOTHING
    assert taken(snap, NOW + 700) == [1]


def test_a_long_piece_and_what_follows_it_are_one_run_at_once() -> None:
    snap = snapshot(conversation(), prompt(1, text=PIECE, created_ms=NOW), prompt(2, created_ms=NOW))
    assert taken(snap) == [1, 2]


def test_a_piece_that_somebody_else_follows_does_not_wait() -> None:
    snap = snapshot(conversation(), prompt(1, text=PIECE, created_ms=NOW), prompt(2, author_id=2, created_ms=NOW))
    assert taken(snap) == [1]


def test_a_waiting_piece_keeps_its_place_before_wakes_and_later_people_of_the_folder() -> None:
    piece = prompt(1, 1, text=PIECE, created_ms=NOW)
    assert refused(snapshot(conversation(1), conversation(2), session(2, 2), piece, wake(2, 2)), CLAIM) == Code.NOTHING
    assert refused(snapshot(conversation(1), conversation(2), piece, prompt(2, 2)), CLAIM) == Code.NOTHING
    earlier = prompt(2, 2, ordered_ms=0)
    assert taken(snapshot(conversation(1), conversation(2), piece, earlier)) == [2]


def test_a_clock_that_went_backwards_does_not_prolong_the_wait_for_a_piece() -> None:
    assert taken(snapshot(conversation(), prompt(1, text=PIECE, created_ms=NOW)), NOW - 3_600_000) == [1]


def test_a_piece_that_was_given_back_does_not_wait_again() -> None:
    assert taken(snapshot(conversation(), prompt(1, text=PIECE, created_ms=NOW, tries=1))) == [1]


# --- the unattended bound ---

RULES = Rules(unattended_runs=2, unattended_ms=1_000)


@pytest.mark.parametrize("spent", [{"unattended_runs": 2}, {"attended_at_ms": NOW - 1_000}])
def test_at_the_unattended_bound_wakes_are_held_and_people_are_not(spent: dict[str, int]) -> None:
    held = conversation(**spent)
    assert refused(snapshot(held, session(), wake(1)), CLAIM, rules=RULES) == Code.HELD
    assert taken(snapshot(held, session(), wake(1), prompt(2)), rules=RULES) == [2]


def test_below_the_bound_wakes_run_and_are_counted_at_dispatch() -> None:
    c = conversation(unattended_runs=1)
    assert taken(snapshot(c, session(), wake(1)), rules=RULES) == [1]
    claimed = run(1, 1, R.CLAIMED, kind=PromptKind.WAKE)
    snap = snapshot(c, session(), claimed, wake(1, state=P.TAKEN, run_id=claimed.id), continuation(1, C.CLAIMED))
    changes = decided(snap, e.Dispatch("w0", claimed.id, 1, "uuid", "{}"))
    assert touched(changes, Entity.CONVERSATION) == {"unattended_runs": 2}
    assert moves(changes, Entity.CONTINUATION) == {1: C.DISPATCHED}


def test_people_are_asked_to_continue_once() -> None:
    ask = e.AskToContinue("w0", conversation().id, NOTICE)
    held = conversation(unattended_runs=2)
    changes = decided(snapshot(held, session(), wake(1)), ask, rules=RULES)
    assert touched(changes, Entity.CONVERSATION)["unattended_asked"] is True
    assert refused(snapshot(replace(held, unattended_asked=True), session(), wake(1)), ask, rules=RULES) == Code.NOTHING
    assert refused(snapshot(held, session(), prompt(1)), ask, rules=RULES) == Code.NOTHING


# --- before the call ---


def claimed_with(*prompts: Prompt, **more: object) -> Snapshot:
    return snapshot(conversation(), session(), run(1, 1, R.CLAIMED, **more), *prompts)


def own(number: int, tries: int = 0) -> Prompt:
    return prompt(number, state=P.TAKEN, run_id=run().id, tries=tries)


@pytest.mark.parametrize(("tries", "wait_ms"), [(0, 2_000), (1, 4_000)])
def test_each_try_that_fails_waits_twice_as_long(tries: int, wait_ms: int) -> None:
    changes = decided(claimed_with(own(1, tries)), e.Release("w0", run().id, 1, "cannot be opened"))
    assert moves(changes, Entity.PROMPT) == {1: P.WAITING}
    assert touched(changes, Entity.CONVERSATION) == {"not_before_ms": NOW + wait_ms}
    waits = snapshot(conversation(not_before_ms=NOW + wait_ms), prompt(1))
    assert refused(waits, CLAIM) == Code.NOTHING
    assert taken(waits, NOW + wait_ms) == [1]


def test_the_third_try_that_fails_fails_the_run_and_tells_people() -> None:
    changes = decided(claimed_with(own(1, 2), own(2)), e.Release("w0", run().id, 1, "cannot be opened", notice=NOTICE))
    assert moves(changes, Entity.RUN) == {1: R.FAILED}
    assert moves(changes, Entity.PROMPT) == {1: P.SETTLED, 2: P.SETTLED}
    assert [part.text for part in inserted(changes, Entity.PART)] == ["notice"]


def test_a_release_at_shutdown_costs_nothing() -> None:
    changes = decided(claimed_with(own(1, 2)), e.Release("w0", run().id, 1, "shutdown", counts=False))
    assert moves(changes, Entity.RUN) == {1: R.RELEASED}
    assert not touched(changes, Entity.CONVERSATION)


def test_an_owner_whose_lease_ended_costs_a_try() -> None:
    gone = claimed_with(own(1, 2), lease_until_ms=NOW)
    assert moves(decided(gone, e.LeaseEnded("w1", run().id, notice=NOTICE)), Entity.RUN) == {1: R.FAILED}


def test_a_lease_that_has_not_ended_is_respected_unless_its_holder_is_proven_gone() -> None:
    held = claimed_with(own(1), lease_until_ms=NOW + 1)
    assert refused(held, e.LeaseEnded("w1", run().id)) == Code.LEASE_HELD
    assert moves(decided(held, e.LeaseEnded("w1", run().id, holder_gone=True)), Entity.RUN) == {1: R.RELEASED}


def test_a_lost_session_is_replaced_once_for_a_claim() -> None:
    lost = e.SessionLost("w0", run().id, 1, "new", "standing", NOTICE)
    changes = decided(claimed_with(own(1)), lost)
    assert moves(changes, Entity.SESSION) == {1: S.ENDED}
    assert len(inserted(changes, Entity.SESSION)) == 1
    assert refused(claimed_with(own(1), session_replaced=True), lost) == Code.ALREADY_REPLACED


def test_a_lost_session_takes_its_wait_and_its_events_along() -> None:
    event = prompt(2, kind=PromptKind.EVENT, session_id=session().id)
    pending = continuation(5, C.PENDING)
    snap = snapshot(conversation(), session(), run(1, 1, R.CLAIMED), own(1), event, pending)
    changes = decided(snap, e.SessionLost("w0", run().id, 1, "new", "standing", NOTICE))
    assert moves(changes, Entity.CONTINUATION) == {5: C.FENCED}
    assert moves(changes, Entity.PROMPT) == {2: P.WITHDRAWN}
