"""A used-up account: which conversations it holds, what goes on by itself, and who may have it tried."""

from __future__ import annotations

from dataclasses import replace

from storage import events as e
from storage.events import Code, Entity, Touch
from storage.models import PromptKind
from storage.states import PromptState as P
from storage.states import RunState as R
from tests.unit.rows import NOW, conversation, decided, inserted, prompt, refused, run, session, snapshot, wake

UNTIL = NOW + 3_600_000
OWN = prompt(3, state=P.TAKEN, run_id=run().id, ordered_ms=700)
LIMITED = e.Settle(
    *("w0", run().id, 1, R.FAILED, e.Proof.SWEPT, e.Evidence.STREAM, "the account's usage limit"),
    park_until_ms=UNTIL,
    again=e.Again("go on", "again:1:1"),
)
ELSEWHERE = replace(conversation(4), agent="another")


def held(changes: tuple[e.Change, ...]) -> dict[int, object]:
    return {
        int(c.id): c.sets["not_before_ms"]
        for c in changes
        if isinstance(c, Touch) and c.entity is Entity.CONVERSATION and "not_before_ms" in c.sets
    }


def test_a_limit_holds_every_conversation_of_the_agent_and_none_for_shorter_than_before() -> None:
    longer = conversation(3, not_before_ms=UNTIL + 1)
    changes = decided(snapshot(conversation(), conversation(2), longer, ELSEWHERE, session(), run(), OWN), LIMITED)
    assert held(changes) == {1: UNTIL, 2: UNTIL}


def test_what_a_person_began_goes_on_at_its_old_place() -> None:
    later = prompt(9, ordered_ms=800)
    changes = decided(snapshot(conversation(), session(), run(addressed=False, began_by=7), OWN, later), LIMITED)
    (again,) = inserted(changes, Entity.PROMPT)
    assert (again.kind, again.state, again.text, again.source_key) == (PromptKind.RESUME, P.WAITING, "go on", "again:1:1")
    assert (again.ordered_ms, again.created_ms, again.author_id, again.addressed) == (700, NOW, 7, False)
    assert (again.conversation_id, again.session_id, again.message_id, again.continuation_id) == (1, None, None, None)


def test_what_a_wake_began_goes_on_in_its_session_only() -> None:
    woken = wake(1, state=P.TAKEN, run_id=run().id)
    changes = decided(snapshot(conversation(), session(), run(kind=PromptKind.WAKE, addressed=False), woken), LIMITED)
    (again,) = inserted(changes, Entity.PROMPT)
    assert (again.kind, again.session_id) == (PromptKind.EVENT, session().id)


def test_what_somebody_stopped_does_not_go_on_but_the_limit_holds() -> None:
    changes = decided(snapshot(conversation(), session(), run(stop_requested=True), OWN), LIMITED)
    assert inserted(changes, Entity.PROMPT) == []
    assert held(changes) == {1: UNTIL}


def test_a_turn_that_ended_otherwise_holds_nothing() -> None:
    changes = decided(snapshot(conversation(), session(), run(), OWN), replace(LIMITED, park_until_ms=None, again=None))
    assert held(changes) == {}
    assert inserted(changes, Entity.PROMPT) == []


def test_a_pause_after_an_agent_that_cannot_be_opened_does_not_shorten_the_limit() -> None:
    claimed = run(state=R.CLAIMED)
    event = e.Release("w0", claimed.id, 1, "cannot open")
    assert held(decided(snapshot(conversation(not_before_ms=UNTIL), session(), claimed, OWN), event)) == {1: UNTIL}


def test_an_admin_has_all_of_the_agent_tried_once() -> None:
    event = e.Unpark("user:1", conversation().id)
    parked = (conversation(not_before_ms=UNTIL), conversation(2, not_before_ms=UNTIL), conversation(3), replace(ELSEWHERE, not_before_ms=5))
    assert held(decided(snapshot(*parked), event)) == {1: 0, 2: 0}
    assert refused(snapshot(conversation(), conversation(2)), event) == Code.ENDED
    assert refused(snapshot(conversation(2, not_before_ms=UNTIL)), event) == Code.NOT_FOUND
