"""What the agent is told about its words: the sentences of the design, each from the states that it claims."""

from __future__ import annotations

from typing import Any

from bot.runtime.receipts import Channel, in_flight, of_run
from storage.models import ConversationId, Part, PartId, PartKind, PromptKind, Run, RunId, SessionId
from storage.states import PartState, RunState

#: 2023-11-14 14:12:09 UTC
AT_MS = 1_699_971_129_000
UP = Channel("#backend", None)
DOWN = Channel("#backend", AT_MS)


def run(**changes: Any) -> Run:
    values: dict[str, Any] = {
        "id": RunId(1),
        "conversation_id": ConversationId(1),
        "session_id": SessionId(1),
        "workspace": None,
        "state": RunState.SUCCEEDED,
        "fence": 1,
        "holder": "h",
        "host": "h",
        "lease_until_ms": 0,
        "kind": PromptKind.USER,
        "began_by": 7,
        "addressed": True,
        "claimed_ms": 0,
        "ended_ms": AT_MS,
    }
    return Run(**{**values, **changes})


def part(number: int, state: PartState, kind: PartKind = PartKind.ANSWER, **changes: Any) -> Part:
    values: dict[str, Any] = {"delivered_ms": AT_MS if state is PartState.DELIVERED else None, **changes}
    return Part(PartId(230 + number), ConversationId(1), 100, number, kind, state, "text", f"n{number}", 0, **values)


def parts(*states: PartState) -> list[Part]:
    return [part(number, state) for number, state in enumerate(states, 1)]


def test_delivered() -> None:
    told = of_run(run(), parts(PartState.DELIVERED, PartState.DELIVERED, PartState.DELIVERED), UP)
    assert told == ["[delivered] your reply → #backend (3 messages, 14:12:09Z)"]


def test_kept_private() -> None:
    told = of_run(run(skipped_why="not addressed to me"), [], UP)
    assert told == ["[delivered] nothing: kept private (skip_reply: not addressed to me)"]


def test_on_its_way() -> None:
    told = of_run(run(), parts(PartState.DELIVERED, PartState.SENDING, PartState.READY), UP)
    assert told == ["[sending] your reply: 1 of 3 messages posted so far; the rest follows, do not repeat it"]


def test_waiting_for_the_chat() -> None:
    told = of_run(run(), parts(PartState.READY), DOWN)
    assert told == ["[delayed] your reply waits: Discord unreachable since 14:12Z; it will be sent, do not repeat it"]


def test_one_that_nobody_can_tell() -> None:
    told = of_run(run(), parts(PartState.DELIVERED, PartState.UNKNOWN, PartState.DELIVERED), UP)
    assert told == [
        "[delivered] 2 of 3 messages of your reply → #backend",
        "[unknown] part 2 of 3 got no answer and may be in the channel; check before you repeat it",
    ]


def test_refused_with_its_reason_and_where_the_text_is() -> None:
    told = of_run(run(), [part(1, PartState.FAILED, failure="missing permission in #backend")], UP)
    assert told == ["[not delivered] missing permission in #backend; the full text is kept as o231"]


def test_nothing_said() -> None:
    assert of_run(run(), [], UP) == ["[delivered] nothing: your last turn ended without an answer"]


def test_a_message_of_the_turn_is_told_again_only_if_its_fate_came_after_the_turn() -> None:
    in_turn = part(1, PartState.DELIVERED, PartKind.SENT)
    later = part(2, PartState.DELIVERED, PartKind.SENT, delivered_ms=AT_MS + 1)
    assert of_run(run(), [in_turn], UP) == []
    assert of_run(run(), [in_turn, later], UP) == ["[delivered] your message (send_message) → #backend (1 message, 14:12:09Z)"]


def test_notices_and_narration_are_nobodys_reply() -> None:
    other = [part(1, PartState.DELIVERED, PartKind.NOTICE), part(2, PartState.SENDING, PartKind.NARRATION)]
    assert of_run(run(), other, UP) == ["[delivered] nothing: your last turn ended without an answer"]
    assert not in_flight(other)


def test_a_turn_that_was_stopped_says_so_and_claims_nothing() -> None:
    (told,) = of_run(run(state=RunState.CANCELLED), [], UP)
    assert told.startswith("[stopped] ")
