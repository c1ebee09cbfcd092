"""What a channel's history says about a message that may have arrived."""

from __future__ import annotations

from typing import Any

from bot.runtime.ports import Posted
from bot.runtime.reconcile import Ambiguous, Found, Missing, look
from storage.models import ConversationId, Part, PartId, PartKind
from storage.states import PartState


def part(number: int, text: str = "hello", **more: Any) -> Part:
    state = PartState.DELIVERED if "message_id" in more else PartState.SENDING
    return Part(PartId(number), ConversationId(1), 100, number, PartKind.ANSWER, state, text, f"n{number}", 0, **more)


def posted(message_id: int, text: str = "hello", reply_to_id: int | None = None) -> Posted:
    return Posted(message_id, text, reply_to_id, 0)


def test_the_same_words_with_other_white_space_are_it() -> None:
    assert look(part(2, "hello \n\n world\n"), [posted(5, "hello\nworld")], []) == Found(5)


def test_other_words_are_not() -> None:
    assert look(part(2), [posted(5, "hello there")], []) == Missing()


def test_a_message_that_is_another_parts_is_accounted_for() -> None:
    assert look(part(2), [posted(5)], [part(1, message_id=5)]) == Missing()


def test_what_was_posted_before_an_earlier_part_cannot_be_it() -> None:
    assert look(part(3), [posted(5)], [part(2, "other", message_id=9)]) == Missing()


def test_two_that_could_be_it_cannot_be_told_apart() -> None:
    assert look(part(2), [posted(5), posted(6)], []) == Ambiguous()
    assert look(part(2), [posted(5), posted(6)], [part(1, message_id=5)]) == Found(6)


def test_a_reply_to_something_else_is_not_it_but_one_that_lost_its_target_may_be() -> None:
    assert look(part(2, reply_to_id=3), [posted(5, reply_to_id=4)], []) == Missing()
    assert look(part(2, reply_to_id=3), [posted(5, reply_to_id=3)], []) == Found(5)
    assert look(part(2, reply_to_id=3), [posted(5)], []) == Found(5)
