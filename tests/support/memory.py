"""The pure model of the store: the same rules on all rows in memory, to compare with what SQL made of them."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

from storage.events import Change, Claim, Entity, Event, Insert, Move, Refusal, Touch
from storage.models import Conversation, Rules, Snapshot
from storage.rows import REFERENCES
from storage.snapshots import Candidate
from storage.store import Done
from storage.transitions import decide


class Memory:
    """Every row there is, and no database."""

    def __init__(self, conversations: tuple[Conversation, ...], rules: Rules) -> None:
        self.rules = rules
        self.rows: dict[Entity, dict[int, Any]] = {entity: {} for entity in Entity}
        self.rows[Entity.CONVERSATION] = {conversation.id: conversation for conversation in conversations}

    def snapshot(self) -> Snapshot:
        """All of history: a loader may leave out only what makes no difference."""
        found = {f"{entity.value}s": tuple(rows.values()) for entity, rows in self.rows.items()}
        return Snapshot(**found)

    def decide(self, event: Event, now_ms: int, candidate: Candidate | None = None) -> tuple[Change, ...] | Refusal:
        snapshot = self.snapshot()
        if isinstance(event, Claim):
            assert candidate is not None
            chosen = tuple(c for c in snapshot.conversations if _within(c, candidate))
            snapshot = replace(snapshot, conversations=chosen)
        return decide(snapshot, event, now_ms, self.rules)

    def apply(self, changes: tuple[Change, ...], done: Done) -> None:
        """Apply what was decided here; from the store only the new ids are taken."""
        real = {
            (mine.entity, int(mine.row.id)): int(theirs.row.id)
            for mine, theirs in zip(changes, done.changes, strict=True)
            if isinstance(mine, Insert) and isinstance(theirs, Insert)
        }
        for change in changes:
            self._apply(change, real)

    def _apply(self, change: Change, real: dict[tuple[Entity, int], int]) -> None:
        rows = self.rows[change.entity]
        match change:
            case Insert():
                values = {f.name: getattr(change.row, f.name) for f in fields(change.row)}
                values = {**_resolved(values, real), "id": real[change.entity, int(change.row.id)]}
                rows[values["id"]] = type(change.row)(**values)
            case Move():
                assert rows[change.id].state is change.before
                rows[change.id] = replace(rows[change.id], **_resolved(dict(change.sets), real), state=change.after)
            case Touch():
                rows[change.id] = replace(rows[change.id], **_resolved(dict(change.sets), real))


def _within(conversation: Conversation, candidate: Candidate) -> bool:
    if candidate.workspace is None:
        return conversation.id == candidate.conversation_id
    return conversation.workspace == candidate.workspace


def _resolved(values: dict[str, Any], real: dict[tuple[Entity, int], int]) -> dict[str, Any]:
    resolved = dict(values)
    for name, entity in REFERENCES.items():
        if isinstance(value := resolved.get(name), int) and value < 0:
            resolved[name] = real[entity, value]
    return resolved
