"""The table of states: closed, explained, and the page that is made of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from storage.diagram import page
from storage.states import (
    ACTIVE_RUN,
    EDGES,
    LIVE_CONTINUATION,
    OPEN_PART,
    ContinuationState,
    PartState,
    PromptState,
    RunState,
    SessionState,
    State,
    allowed,
    terminal,
)

KINDS: tuple[type[State], ...] = (PromptState, RunState, ContinuationState, PartState, SessionState)
ALL = [state for kind in KINDS for state in kind]


def test_no_move_is_listed_twice_and_each_says_why() -> None:
    moves = [(type(edge.after), edge.before, edge.after) for edge in EDGES]
    assert len(moves) == len(set(moves))
    assert all(edge.why for edge in EDGES)


def test_a_move_stays_within_its_kind() -> None:
    assert all(edge.before is None or type(edge.before) is type(edge.after) for edge in EDGES)


@pytest.mark.parametrize("state", ALL, ids=lambda s: f"{type(s).__name__}.{s}")
def test_every_state_is_reached_from_a_new_row(state: State) -> None:
    reached: set[State] = {edge.after for edge in EDGES if edge.before is None}
    while more := {edge.after for edge in EDGES if edge.before in reached} - reached:
        reached |= more
    assert state in reached


@pytest.mark.parametrize("state", ALL, ids=lambda s: f"{type(s).__name__}.{s}")
def test_every_state_can_end(state: State) -> None:
    reached = {state}
    while more := {edge.after for edge in EDGES if edge.before in reached} - reached:
        reached |= more
    assert any(terminal(s) for s in reached)


def test_what_is_active_live_or_open_is_not_terminal_and_the_rest_is() -> None:
    working: set[State] = {*ACTIVE_RUN, *LIVE_CONTINUATION, *OPEN_PART, SessionState.OPEN}
    working |= {PromptState.OFFERED, PromptState.WAITING, PromptState.TAKEN}
    assert {state for state in ALL if not terminal(state)} == working


def test_equal_words_of_different_kinds_are_not_the_same_move() -> None:
    assert allowed(ContinuationState.PENDING, ContinuationState.CANCELLED)
    assert not allowed(RunState.DISPATCHED, RunState.RELEASED)
    assert not allowed(RunState.SUCCEEDED, RunState.FAILED)
    assert not allowed(ContinuationState.DISPATCHED, ContinuationState.CANCELLED)


def test_the_page_of_states_is_current() -> None:
    written = Path(__file__).parents[2].joinpath("docs/states.md").read_text(encoding="utf-8")
    assert written == page(), "run: python -m storage.diagram docs/states.md"
