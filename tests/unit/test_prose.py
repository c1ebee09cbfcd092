"""Answer and narration (design section 7), as a table: what the agent does, what goes out meanwhile, what is left at the end."""

from __future__ import annotations

import pytest

from bot.agents.base import MessageDone, ToolStarted
from bot.runtime.prose import Final, Prose


def play(script: str) -> tuple[list[str], Final]:
    """Letters are text blocks, `T` a foreign tool, `O` one of ours, `S` a sub-agent's; `!x` says that x was sent by send_message."""
    prose = Prose()
    out: list[str] = []
    for number, word in enumerate(script.split()):
        match word:
            case "T" | "O" | "S":
                prose.feed(ToolStarted(f"t{number}", "x", "", ours=word == "O", subagent=word == "S"))
            case _ if word.startswith("!"):
                prose.sent(word[1:])
            case _:
                prose.feed(MessageDone(f"b{number}", word))
        out += prose.fetch()
    return out, prose.finish()


@pytest.mark.parametrize(
    ("script", "narrated", "answer"),
    [
        ("a", [], "a"),
        ("a T b O c", ["a"], "b\n\nc"),  # the first example of the design
        ("a T O", [], "a"),  # the second
        ("a O b", [], "a\n\nb"),
        ("a S b", [], "a\n\nb"),
        ("a T T T b", ["a"], "b"),
        ("a T b T", ["a"], "b"),
        ("a b T", [], "a\n\nb"),
        ("T T", [], ""),
        ("a !a", [], ""),
        ("!a a T b", [], "b"),
        ("a T b !b", ["a"], ""),
    ],
)
def test_what_goes_out_meanwhile_and_what_is_the_answer(script: str, narrated: list[str], answer: str) -> None:
    assert play(script) == (narrated, Final((), answer))


def test_narration_that_nobody_fetched_is_left_for_the_settlement_in_order() -> None:
    prose = Prose()
    for number, word in enumerate(["a", "T", "b", "T", "c"]):
        prose.feed(ToolStarted(f"t{number}", "x", "", ours=False, subagent=False) if word == "T" else MessageDone(f"b{number}", word))
    assert prose.finish() == Final(("a", "b"), "c")


def test_narration_that_could_not_be_stored_is_handed_out_again_in_its_place() -> None:
    prose = Prose()
    prose.feed(MessageDone("1", "a"))
    prose.feed(ToolStarted("t", "x", "", ours=False, subagent=False))
    prose.feed(MessageDone("2", "b"))
    prose.unfetch(prose.fetch())
    assert prose.finish() == Final(("a",), "b")


def test_a_block_is_known_by_its_id_and_not_by_its_words() -> None:
    prose = Prose()
    prose.feed(MessageDone("1", "Done."))
    prose.feed(MessageDone("1", "Done."))
    prose.feed(MessageDone("2", "Done."))
    assert prose.finish().answer == "Done.\n\nDone."


def test_sent_words_are_compared_without_their_white_space() -> None:
    prose = Prose()
    prose.sent("all  is\ngreen ")
    prose.feed(MessageDone("1", "all is green"))
    assert prose.finish().answer == ""


def test_blank_text_is_recorded_but_never_said() -> None:
    prose = Prose()
    prose.feed(MessageDone("1", "  \n"))
    assert prose.finish() == Final((), "")
    assert prose.said == [("1", "  \n")]
