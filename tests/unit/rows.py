"""Rows for unit tests of the rules, with what the test does not care about filled in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, Field, fields
from enum import StrEnum
from typing import Any

from storage.events import Change, Entity, Event, Insert, Move, NewPart, Refusal, Touch
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
    Rules,
    Run,
    RunId,
    Session,
    SessionId,
    Snapshot,
)
from storage.states import ContinuationState, PartState, PromptState, RunState, SessionState
from storage.transitions import decide

NOW = 10_000_000
NOTICE = NewPart(PartKind.NOTICE, "notice", "notice-nonce")

#: What was decided in the test that runs; `conftest.whole_decisions` compares it with what is kept.
decisions: list[str] = []


def conversation(row_id: int = 1, **more: Any) -> Conversation:
    values = {"attended_at_ms": NOW, **more}
    shared = bool(values.pop("shared", False))
    last_seen_id = int(values.pop("last_seen_id", 0))
    return Conversation(ConversationId(row_id), 100 + row_id, 1, "p", "a", "/p", shared, last_seen_id, **values)


def session(row_id: int = 1, conversation_id: int = 1, state: SessionState = SessionState.OPEN) -> Session:
    return Session(SessionId(row_id), ConversationId(conversation_id), state, "a", "/p", "native")


def prompt(row_id: int = 1, conversation_id: int = 1, **more: Any) -> Prompt:
    values: dict[str, Any] = {
        "kind": PromptKind.USER,
        "state": PromptState.WAITING,
        "ordered_ms": row_id,
        "created_ms": NOW - 5_000,
        "author_id": 1,
        "author_name": "",
        "text": "text",
        "source_key": f"message:{row_id}",
        "addressed": True,
        **more,
    }
    return Prompt(PromptId(row_id), ConversationId(conversation_id), **values)


def wake(row_id: int, conversation_id: int = 1, **more: Any) -> Prompt:
    values = {"kind": PromptKind.WAKE, "session_id": SessionId(conversation_id), "continuation_id": ContinuationId(row_id), **more}
    return prompt(row_id, conversation_id, source_key=f"continuation:{row_id}", addressed=False, **values)


def run(row_id: int = 1, conversation_id: int = 1, state: RunState = RunState.DISPATCHED, **more: Any) -> Run:
    values: dict[str, Any] = {
        "session_id": SessionId(conversation_id),
        "workspace": "/p",
        "fence": 1,
        "holder": "w0",
        "host": "host",
        "lease_until_ms": NOW + 30_000,
        "kind": PromptKind.USER,
        "began_by": 1,
        "addressed": True,
        "claimed_ms": NOW - 1_000,
        "prompt_uuid": f"uuid{row_id}",
        "process": "{}",
        **more,
    }
    return Run(RunId(row_id), ConversationId(conversation_id), state=state, **values)


def continuation(row_id: int = 1, state: ContinuationState = ContinuationState.PENDING, **more: Any) -> Continuation:
    values: dict[str, Any] = {
        "session_id": SessionId(1),
        "origin_run_id": RunId(1),
        "reason": "later",
        "asked_ms": NOW - 60_000,
        "due_at_ms": NOW,
        "expires_at_ms": NOW + 3_600_000,
        "began_by": 1,
        **more,
    }
    return Continuation(ContinuationId(row_id), ConversationId(1), state=state, **values)


def part(row_id: int = 1, state: PartState = PartState.READY, kind: PartKind = PartKind.ANSWER, **more: Any) -> Part:
    values = {"queued_ms": NOW - 1_000, "run_id": RunId(1), **more}
    channel_id = int(values.pop("channel_id", 101))
    conversation_id = ConversationId(int(values.pop("conversation_id", 1)))
    return Part(PartId(row_id), conversation_id, channel_id, row_id, kind, state, "words", f"nonce{row_id}", **values)


def snapshot(*rows: Any) -> Snapshot:
    """Any rows, sorted by kind."""
    return Snapshot(
        conversations=tuple(row for row in rows if isinstance(row, Conversation)),
        sessions=tuple(row for row in rows if isinstance(row, Session)),
        prompts=tuple(row for row in rows if isinstance(row, Prompt)),
        runs=tuple(row for row in rows if isinstance(row, Run)),
        continuations=tuple(row for row in rows if isinstance(row, Continuation)),
        parts=tuple(row for row in rows if isinstance(row, Part)),
    )


def decided(snap: Snapshot, event: Event, now_ms: int = NOW, rules: Rules | None = None) -> tuple[Change, ...]:
    """The changes; a refusal fails the test."""
    outcome = _decide(snap, event, now_ms, rules)
    assert not isinstance(outcome, Refusal), outcome
    return outcome


def refused(snap: Snapshot, event: Event, now_ms: int = NOW, rules: Rules | None = None) -> str:
    """The code of the refusal."""
    outcome = _decide(snap, event, now_ms, rules)
    assert isinstance(outcome, Refusal), outcome
    return outcome.code


def _decide(snap: Snapshot, event: Event, now_ms: int, rules: Rules | None) -> tuple[Change, ...] | Refusal:
    outcome = decide(snap, event, now_ms, rules or Rules())
    changes = [f"refused: {outcome.code}"] if isinstance(outcome, Refusal) else [_shown(change) for change in outcome]
    decisions.extend((f"{type(event).__name__}:", *(f"    {change}" for change in changes or ["nothing"])))
    return outcome


def _shown(change: Change) -> str:
    """A change in one line, without the columns that a new row has anyway."""
    match change:
        case Insert(entity, row, why):
            return f"new {entity} {row.id}, {why!r}{_columns({f.name: getattr(row, f.name) for f in fields(row) if _is_set(row, f)})}"
        case Move(entity, row_id, before, after, why, fence, sets):
            return f"{entity} {row_id}: {before} -> {after}, {why!r}{_fence(fence)}{_columns(sets)}"
        case Touch(entity, row_id, sets, state, fence):
            return f"{entity} {row_id}{'' if state is None else f' if {state}'}{_fence(fence)}{_columns(sets)}"


def _is_set(row: object, column: Field[Any]) -> bool:
    return column.name != "id" and (column.default is MISSING or getattr(row, column.name) != column.default)


def _fence(fence: int | None) -> str:
    return "" if fence is None else f" if fence {fence}"


def _columns(values: Mapping[str, object]) -> str:
    shown = (f"{name}={value if isinstance(value, StrEnum) else repr(value):.100}" for name, value in values.items())
    return f": {' '.join(shown)}" if values else ""


def moves(changes: tuple[Change, ...], entity: Entity) -> dict[int, Any]:
    """Where the rows of one kind went."""
    return {int(c.id): c.after for c in changes if isinstance(c, Move) and c.entity is entity}


def inserted(changes: tuple[Change, ...], entity: Entity) -> list[Any]:
    """The new rows of one kind."""
    return [c.row for c in changes if isinstance(c, Insert) and c.entity is entity]


def touched(changes: tuple[Change, ...], entity: Entity) -> dict[str, Any]:
    """All columns that were set on rows of one kind, beside their states."""
    return {name: value for c in changes if isinstance(c, Touch) and c.entity is entity for name, value in c.sets.items()}
