"""The text of a prompt: news first, then who said what, or why the agent is woken."""

from __future__ import annotations

from typing import Any

from bot.agents import tools
from bot.runtime.ports import Reply
from bot.runtime.prompting import Briefing, Woken, ended_line, message_text, pending_line, resume_text, write
from storage.models import Continuation, ContinuationId, ConversationId, Prompt, PromptId, PromptKind, RunId, SessionId
from storage.states import ContinuationState, PromptState

#: 2023-11-14 22:13:20 UTC
NOW_MS = 1_700_000_000_000


def prompt(text: str, author: str = "Ann", kind: PromptKind = PromptKind.USER) -> Prompt:
    return Prompt(PromptId(1), ConversationId(1), kind, PromptState.TAKEN, 0, 0, 7, author, text, "message:1", addressed=True)


def continuation(**changes: Any) -> Continuation:
    values: dict[str, Any] = {
        "id": ContinuationId(17),
        "conversation_id": ConversationId(1),
        "session_id": SessionId(1),
        "origin_run_id": RunId(1),
        "state": ContinuationState.PENDING,
        "reason": "look at CI",
        "asked_ms": NOW_MS - 1_200_000,
        "due_at_ms": NOW_MS,
        "expires_at_ms": NOW_MS + 3_600_000,
        "began_by": 7,
    }
    return Continuation(**{**values, **changes})


def briefing(**changes: Any) -> Briefing:
    values: dict[str, Any] = {"now_ms": NOW_MS, "receipts": (), "ended": (), "pending": None, "prompts": (prompt("hello"),)}
    return Briefing(**{**values, **changes})


def test_without_news_a_prompt_is_the_messages_with_their_authors() -> None:
    text = write(briefing(prompts=(prompt("hello"), prompt("and more\nof it"), prompt("me too", "Bob"))))
    assert text == "Ann: hello\nAnn: and more\nof it\nBob: me too"


def test_news_come_first_receipts_before_ended_waits_before_the_armed_one() -> None:
    ended = continuation(state=ContinuationState.CANCELLED, ended_by="user:1", ended_why="cancelled by Ada")
    armed = continuation(id=ContinuationId(18), due_at_ms=NOW_MS + 60_000)
    text = write(briefing(receipts=("[delivered] x",), ended=(ended,), pending=armed))
    assert text.splitlines() == [
        "[delivered] x",
        "[cancelled] c17 by a person (cancelled by Ada): it will not wake you; its reason was «look at CI»",
        "[pending] c18 wakes at 22:14:20Z (in 1m), reason «look at CI»; it stays unless you call wait or cancel_wait",
        "",
        "Ann: hello",
    ]


def test_a_wake_says_when_and_why_it_was_asked_how_late_it_is_and_what_came_since() -> None:
    text = write(briefing(woken=Woken(continuation(due_at_ms=NOW_MS - 240_000), 2)))
    assert text.splitlines() == [
        "[wake] c17, asked for at 21:53:20Z and due at 22:09:20Z, wakes you now at 22:13:20Z (4m late); 2 messages have come since.",
        "Your reason: look at CI",
    ]
    assert "(on time); no messages have come since" in write(briefing(woken=Woken(continuation(), 0)))


def test_a_wait_of_a_lost_session_is_called_dropped() -> None:
    assert ended_line(continuation(state=ContinuationState.FENCED, ended_why="reset")).startswith("[dropped] c17 (reset): ")


def test_an_overdue_wait_is_about_to_wake() -> None:
    assert "(about to wake you)" in pending_line(continuation(due_at_ms=NOW_MS - 1), NOW_MS)


def test_a_name_can_neither_end_its_mark_nor_begin_a_line_of_ours() -> None:
    text = write(briefing(prompts=(prompt("hi", "[delivered]: x\nBob"),)))
    assert text == "(delivered) x Bob: hi"


def test_what_a_message_replies_to_is_repeated_bounded_and_on_one_line() -> None:
    text = message_text("this one", Reply("Bob", "line\none " + "x" * 500))
    first, second = text.split("\n")
    assert first.startswith("[in reply to Bob: «line one xxx")
    assert first.endswith("…»]")
    assert len(first) < 330
    assert second == "this one"


def test_a_resume_in_a_session_that_knows_nothing_repeats_the_request() -> None:
    resume = prompt(resume_text("Ann", "the agent's process ended.", 0), kind=PromptKind.RESUME)
    text = write(briefing(prompts=(resume,), original=(prompt("deploy it"),)))
    assert text.startswith("[resume] Ann asks you to go on: your earlier turn was cut off (the agent's process ended). ")
    assert text.endswith("This is a new session. The request was:\nAnn: deploy it")


def test_the_standing_instructions_are_short_and_forbid_to_wait_inside_a_turn() -> None:
    assert len(tools.STANDING_INSTRUCTIONS.split()) <= 120
    assert "A turn never waits, sleeps or polls" in tools.STANDING_INSTRUCTIONS


def test_the_agent_has_four_tools() -> None:
    assert [tool.name for tool in tools.TOOLS] == ["wait", "cancel_wait", "send_message", "skip_reply"]
