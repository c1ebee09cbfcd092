"""Cutting text into messages: nothing too long, nothing lost, code whole in every message."""

from __future__ import annotations

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from bot.gateway.render import MESSAGE_LIMIT, split

_LIMITS = st.sampled_from([100, 137, 2_000])
_PIECES = st.sampled_from(
    ["```", "```py\n", "\n", "\n\n", " ", "`", "``", "x=1\n", "word ", "лайка", "🙂", "    indented\n", "a" * 60, "````"]
)
_TEXTS = st.lists(_PIECES, max_size=120).map("".join) | st.text(st.characters(exclude_characters="`py"), max_size=400)


def _letters(text: str) -> str:
    """What must survive: everything but white space, backticks and the language, which is repeated where a block goes on."""
    return re.sub(r"[`py\s]", "", text)


@given(text=_TEXTS, limit=_LIMITS)
@example(text="```\n", limit=100)
def test_every_message_is_short_enough_not_blank_and_has_its_fences_in_pairs(text: str, limit: int) -> None:
    for chunk in split(text, limit):
        assert len(chunk) <= limit
        assert chunk.strip()
        assert chunk.count("```") % 2 == 0


@given(text=_TEXTS, limit=_LIMITS)
def test_nothing_but_white_space_is_lost(text: str, limit: int) -> None:
    joined = "\n".join(split(text, limit))
    assert _letters(joined) == _letters(text)


@pytest.mark.parametrize("tail", range(1_990, 2_001))
def test_a_closing_fence_with_a_long_tail_stays_within_the_limit(tail: int) -> None:
    chunks = split("```py\n" + "x=1\n" * 10 + "``` " + "a" * tail)
    assert all(len(chunk) <= MESSAGE_LIMIT for chunk in chunks)
    assert "".join(chunks).count("a") == tail
    assert "".join(chunks).count("x=1") == 10


@pytest.mark.parametrize("length", [1, 1_999, 2_000])
def test_what_fits_is_one_message_unchanged(length: int) -> None:
    assert split("é" * length) == ["é" * length]


def test_length_counts_code_points_as_discord_does() -> None:
    assert split("🙂" * 2_000) == ["🙂" * 2_000]


def test_one_more_than_fits_is_two_messages_that_are_the_text() -> None:
    chunks = split("a" * 2_001)
    assert len(chunks) == 2
    assert "".join(chunks) == "a" * 2_001


@pytest.mark.parametrize("text", ["", " ", "\n\n\t ", "\n" * 5_000])
def test_blank_text_is_no_message(text: str) -> None:
    assert split(text) == []


def test_a_long_block_is_opened_again_with_its_language_and_keeps_its_lines() -> None:
    lines = [f"    value_{n} = {n}" for n in range(300)]
    chunks = split("before\n```python\n" + "\n".join(lines) + "\n```\nafter")
    assert len(chunks) > 2
    assert all(chunk.startswith("```python\n") for chunk in chunks[1:])
    inside = [line for chunk in chunks for line in chunk.splitlines() if line.startswith("    ")]
    assert inside == lines
    assert chunks[-1].endswith("```\nafter")


def test_a_block_that_ends_at_the_boundary_leaves_no_message_of_fences() -> None:
    for length in range(1_960, 2_000):
        chunks = split("```\n" + "x" * length + "\n```")
        assert [chunk for chunk in chunks if not chunk.replace("`", "").strip()] == []


def test_a_paragraph_is_not_cut_when_its_end_is_near() -> None:
    text = "a" * 1_500 + "\n\n" + "b" * 1_500
    assert split(text) == ["a" * 1_500, "b" * 1_500]


def test_indentation_after_a_boundary_is_kept() -> None:
    chunks = split("a" * 1_990 + "\n    indented and long enough to be cut")
    assert chunks[1].startswith("    indented")
