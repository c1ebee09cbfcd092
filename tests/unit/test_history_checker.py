"""The history checker: it finds nothing in a good history, and each planted fault by its promise."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from bot.loopback.discord import Record
from bot.loopback.model import Entry as ModelEntry
from bot.loopback.model import ModelRequest
from storage.events import Entity
from storage.journal import Entry
from storage.models import (
    Continuation,
    ContinuationId,
    Conversation,
    ConversationId,
    Part,
    PartId,
    PartKind,
    Prompt,
    PromptId,
    PromptKind,
    Run,
    RunId,
    Session,
    SessionId,
    Snapshot,
)
from storage.outside import View
from storage.states import ContinuationState, PartState, PromptState, RunState, SessionState
from tests.support.history import History, assert_kept, violations

ONE = ConversationId(1)
OURS = SessionId(1)
NATIVE = "11111111-2222-4333-8444-555555555555"
PROCESS = json.dumps({"launcher_pid": 2**22 + 1, "launcher_start": 1, "agent_pid": 2**22 + 2, "agent_start": 1, "mark": "no-such-mark"})


def prompt(number: int, kind: PromptKind, text: str, **more: Any) -> Prompt:
    values: dict[str, Any] = {
        "conversation_id": ONE,
        "state": PromptState.SETTLED,
        "ordered_ms": number * 1_000,
        "created_ms": number * 1_000,
        "author_id": 7,
        "author_name": "alice",
        "source_key": f"key:{number}",
        "addressed": True,
        "run_id": RunId(number),
    }
    return Prompt(id=PromptId(number), kind=kind, text=text, **{**values, **more})


def run(number: int, kind: PromptKind, **more: Any) -> Run:
    values: dict[str, Any] = {
        "conversation_id": ONE,
        "session_id": OURS,
        "workspace": "/srv/backend",
        "state": RunState.SUCCEEDED,
        "fence": 1,
        "holder": "i",
        "host": "h",
        "lease_until_ms": 0,
        "began_by": 7,
        "addressed": True,
        "claimed_ms": number * 1_000,
        "dispatched_ms": number * 1_000,
        "process": PROCESS,
        "prompt_uuid": f"uuid-{number}",
    }
    return Run(id=RunId(number), kind=kind, **{**values, **more})


def part(number: int, text: str, **more: Any) -> Part:
    values: dict[str, Any] = {
        "conversation_id": ONE,
        "channel_id": 10,
        "seq": number,
        "kind": PartKind.ANSWER,
        "state": PartState.DELIVERED,
        "nonce": f"nonce{number}",
        "queued_ms": 0,
        "run_id": RunId(number),
        "message_id": 200 + number,
    }
    return Part(id=PartId(number), text=text, **{**values, **more})


WAIT = Continuation(
    id=ContinuationId(1),
    conversation_id=ONE,
    session_id=OURS,
    origin_run_id=RunId(1),
    state=ContinuationState.DISPATCHED,
    reason="look at CI",
    asked_ms=1_000,
    due_at_ms=2_000,
    expires_at_ms=3_000_000,
    began_by=7,
)
ROWS = Snapshot(
    conversations=(Conversation(ONE, 10, 5, "backend", "claude", "/srv/backend", shared=False, last_seen_id=103),),
    sessions=(Session(OURS, ONE, SessionState.OPEN, "claude", "/srv/backend", NATIVE),),
    prompts=(
        prompt(1, PromptKind.USER, "is it green", message_id=101),
        prompt(2, PromptKind.WAKE, "look at CI", continuation_id=WAIT.id, session_id=OURS),
        prompt(3, PromptKind.USER, "thank you", message_id=103),
    ),
    runs=(run(1, PromptKind.USER), run(2, PromptKind.WAKE), run(3, PromptKind.USER)),
    continuations=(WAIT,),
    parts=(part(1, "not yet"), part(2, "it is"), part(3, "welcome")),
)


def life(entity: Entity, row: int, at_ms: int, *states: str) -> list[tuple[Entity, int, int, str | None, str]]:
    return [(entity, row, at_ms, before, after) for before, after in zip((None, *states), states, strict=False)]


def entries(*moves: tuple[Entity, int, int, str | None, str]) -> tuple[Entry, ...]:
    return tuple(Entry(i, at, entity, row, ONE, before, after, "", "i") for i, (entity, row, at, before, after) in enumerate(moves, 1))


P, R, C = Entity.PROMPT, Entity.RUN, Entity.CONTINUATION
RUN_LIFE = ("claimed", "dispatched", "succeeded")
MOVES = (
    *life(P, 1, 1_000, "waiting", "taken"),
    *life(R, 1, 1_000, *RUN_LIFE),
    *life(C, 1, 1_000, "requested", "pending"),
    (C, 1, 2_000, "pending", "claimed"),
    *life(P, 2, 2_000, "waiting", "taken"),
    *life(R, 2, 2_000, *RUN_LIFE),
    *life(P, 3, 3_000, "waiting", "taken"),
    *life(R, 3, 3_000, *RUN_LIFE),
)


def said(message_id: int, text: str) -> Record:
    return Record(message_id, message_id, 0, "message.create", channel_id=10, message_id=message_id, author_id=7, bot=False, text=text)


def posted(number: int, text: str, nonce: str | None = None) -> Record:
    record = Record(
        200 + number, 0, 0, "message.create", channel_id=10, message_id=200 + number, author_id=1, bot=True, nonce=f"nonce{number}"
    )
    return replace(record, text=text, nonce=nonce or record.nonce)


DISCORD = (said(101, "is it green"), posted(1, "not yet"), posted(2, "it is"), said(103, "<@1> thank you"), posted(3, "welcome"))


def asked(*prompts: str, session: str = NATIVE) -> ModelEntry:
    request = ModelRequest(session, None, "key", stream=True, body={"messages": [{"role": "user", "content": text} for text in prompts]})
    return ModelEntry(0, 0, "request", 0, request)


FIRST, SECOND, THIRD = "alice: is it green", "[wake] c1, asked for\nYour reason: look at CI", "alice: thank you"
MODEL = (asked(FIRST), asked(FIRST, SECOND), asked(FIRST, SECOND), asked(FIRST, SECOND, THIRD))
GOOD = History(View(ROWS, entries(*MOVES)), DISCORD, MODEL, at_rest_ms=9_000_000, ended=True)


def rows(**changes: Any) -> History:
    return replace(GOOD, view=View(replace(ROWS, **changes), GOOD.view.entries))


def journal(*moves: tuple[Entity, int, int, str | None, str]) -> History:
    return replace(GOOD, view=View(ROWS, entries(*moves)))


def swap(which: str, at: int, **changes: Any) -> History:
    old = getattr(ROWS, which)
    return rows(**{which: (*old[:at], replace(old[at], **changes), *old[at + 1 :])})


def test_a_good_history_breaks_no_promise() -> None:
    assert_kept(GOOD)


FAULTS: dict[str, tuple[str, Callable[[], History]]] = {
    "a message is lost": ("P1: message 103", lambda: rows(prompts=ROWS.prompts[:2])),
    "a message becomes two prompts": ("P1: message 101 became 2", lambda: swap("prompts", 2, message_id=101)),
    "a prompt is forgotten": ("P1: prompt 3", lambda: swap("prompts", 2, state=PromptState.WAITING)),
    "seen but not stored": (
        "P7: message 999",
        lambda: replace(GOOD, discord=(*DISCORD, Record(9, 0, 0, "reaction.add", message_id=999, bot=True, text="👀"))),
    ),
    "the agent was told of a wait that is not there": (
        "P7: the agent was told of c8",
        lambda: replace(GOOD, model=(*MODEL, told_of(8))),
    ),
    "two runs at once": ("P2: runs 1 and 2 were active", lambda: journal(*MOVES[:4], *life(R, 2, 1_500, "claimed"), *MOVES[4:])),
    "a wake before a person": (
        "P2: wake prompt 2 was taken",
        lambda: journal(*life(P, 3, 1_000, "waiting"), *(move for move in MOVES if move[:2] != (P, 3)), (P, 3, 3_000, "waiting", "taken")),
    ),
    "the second person first": (
        "P2: prompt 3 was taken before prompt 1",
        lambda: journal((P, 1, 0, None, "waiting"), *life(P, 3, 0, "waiting", "taken"), (P, 1, 9, "waiting", "taken")),
    ),
    "a run dispatched twice": ("P3: run 1 was dispatched 2", lambda: journal(*MOVES, (R, 1, 9_000, "claimed", "dispatched"))),
    "a prompt handed over twice": ("P3: 'thank you'", lambda: replace(GOOD, model=(*MODEL, asked(FIRST, SECOND, THIRD, THIRD)))),
    "a run that never ends": ("P3: run 3 is still", lambda: swap("runs", 2, state=RunState.DISPATCHED)),
    "an end that does not stay": ("P5: run 1 moved", lambda: journal(*MOVES, (R, 1, 9_000, "cancelled", "succeeded"))),
    "a wait wakes twice": ("P4: c1 woke the agent 2", lambda: replace(GOOD, model=(*MODEL, asked(FIRST, SECOND, THIRD, SECOND)))),
    "a wait becomes two prompts": ("P4: c1 became 2", lambda: swap("prompts", 2, continuation_id=WAIT.id, session_id=OURS)),
    "a cancelled wait wakes": ("P4: c1 is cancelled but", lambda: swap("continuations", 0, state=ContinuationState.CANCELLED)),
    "a wake is early": ("P4: c1 fired 7000 ms early", lambda: swap("continuations", 0, due_at_ms=9_000)),
    "a wake is dispatched early": ("P4: run 2 of c1", lambda: swap("runs", 1, dispatched_ms=1_999)),
    "a wake of a failed run": ("P4: c1 woke although its origin", lambda: swap("runs", 0, state=RunState.FAILED)),
    "a wake in another session row": ("P4: c1 was asked for in session", lambda: swap("runs", 1, session_id=SessionId(2))),
    "a wake in another session of the agent": (
        "P4: c1 woke session other",
        lambda: replace(GOOD, model=(asked(FIRST), asked(SECOND, session="other"))),
    ),
    "a wait that nobody wakes": ("P4: c1 is still pending", lambda: swap("continuations", 0, state=ContinuationState.PENDING)),
    "a part twice under one nonce": (
        "P6: the part with nonce nonce3 is in the channel 2",
        lambda: replace(GOOD, discord=(*DISCORD, replace(posted(4, "welcome"), nonce="nonce3"))),
    ),
    "a part twice under two nonces": ("P6: the bot posted", lambda: replace(GOOD, discord=(*DISCORD, posted(4, "welcome", "older")))),
    "a receipt that is not true": ("P6: part 3 is called delivered", lambda: replace(GOOD, discord=DISCORD[:-1])),
    "posted, but called failed": (
        "P6: part 3 is called failed",
        lambda: swap("parts", 2, state=PartState.FAILED, message_id=None),
    ),
    "a part is never sent": ("P6: part 3", lambda: swap("parts", 2, state=PartState.READY, message_id=None)),
    "parts out of order": ("P6: the parts of channel 10", lambda: swap("parts", 0, seq=9)),
    "a private answer posted": ("P6: run 3 kept quiet", lambda: swap("runs", 2, skipped_why="not for me")),
    "a process is left": ("P12: the launcher of run 1", lambda: replace(GOOD, alive=lambda pid, _: pid == 2**22 + 1)),
}


def told_of(number: int) -> ModelEntry:
    result = {"type": "tool_result", "tool_use_id": "t", "content": [{"type": "text", "text": f"[scheduled] c{number}: wakes"}]}
    messages = [
        {"role": "user", "content": FIRST},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "wait", "input": {}}]},
        {"role": "user", "content": [result]},
    ]
    return ModelEntry(0, 0, "request", 0, ModelRequest(NATIVE, None, "key", stream=True, body={"messages": messages}))


@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_fault_is_found(name: str) -> None:
    expected, make = FAULTS[name]
    found = violations(make())
    assert any(sentence.startswith(expected) for sentence in found), found


def test_while_work_goes_on_nothing_is_called_lost() -> None:
    busy = replace(rows(prompts=ROWS.prompts[:2], continuations=(replace(WAIT, state=ContinuationState.PENDING),)), at_rest_ms=None)
    assert not [sentence for sentence in violations(busy) if "lost" in sentence or "still" in sentence]
