"""The database as a value: applies what `decide` returns as the store will, and says what the store would refuse.

A row's references to rows of the same decision (negative ids) are replaced, every move is a compare-and-set that the table of
states has to know, and the unique indexes of design section 4 are checked after every statement, as databases do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

from storage.events import Change, Entity, Event, Insert, Move, Refusal, Touch
from storage.models import Rules, Snapshot
from storage.states import ACTIVE_RUN, ContinuationState, SessionState, State, allowed

Decide = Callable[[Snapshot, Event, int, Rules], tuple[Change, ...] | Refusal]

FIELDS: dict[Entity, str] = {
    Entity.CONVERSATION: "conversations",
    Entity.SESSION: "sessions",
    Entity.PROMPT: "prompts",
    Entity.RUN: "runs",
    Entity.CONTINUATION: "continuations",
    Entity.PART: "parts",
}
#: Columns that refer to a row, and of which kind.
REFERENCES: dict[str, Entity] = {
    "session_id": Entity.SESSION,
    "run_id": Entity.RUN,
    "origin_run_id": Entity.RUN,
    "continuation_id": Entity.CONTINUATION,
    "conversation_id": Entity.CONVERSATION,
}
_HAS: dict[Entity, tuple[str, ...]] = {
    Entity.CONVERSATION: (),
    Entity.SESSION: (),
    Entity.PROMPT: ("session_id", "continuation_id", "run_id"),
    Entity.RUN: ("session_id",),
    Entity.CONTINUATION: ("session_id", "origin_run_id"),
    Entity.PART: ("run_id",),
}
_ARMED = frozenset({ContinuationState.PENDING, ContinuationState.CLAIMED})


class Void(Exception):
    """The store would roll the decision back: a compare-and-set met another row, or a unique index refused."""


class NotInTable(Exception):
    """A move that the table of states does not have."""


@dataclass(frozen=True, slots=True)
class Indexes:
    """Which unique indexes the database has; a mutation takes one away."""

    workspace: bool = True
    conversation: bool = True
    source_key: bool = True


ALL_INDEXES = Indexes()
Extra = frozenset[tuple[State | None, State]]
#: A move with its kind: words of different kinds are equal strings.
Fired = tuple[type[State], State | None, State]


@dataclass(frozen=True, slots=True)
class Applied:
    """The rows after a decision, and the moves (kind, before, after) that it made."""

    snapshot: Snapshot
    moves: tuple[Fired, ...]
    ids: tuple[tuple[Entity, int, int], ...]

    def id_of(self, entity: Entity) -> int | None:
        """The real id of the first new row of this kind."""
        return next((real for kind, _, real in self.ids if kind is entity), None)


def apply(
    snapshot: Snapshot,
    changes: Iterable[Change],
    indexes: Indexes = ALL_INDEXES,
    extra: Extra = frozenset(),
) -> Applied:
    """All changes or none: raises `Void` where the store would roll back, `NotInTable` where a rule left the table."""
    tables: dict[Entity, dict[int, Any]] = {}
    ids: dict[tuple[Entity, int], int] = {}
    moves: list[Fired] = []

    def table(entity: Entity) -> dict[int, Any]:
        rows = tables.get(entity)
        if rows is None:
            rows = tables[entity] = {row.id: row for row in getattr(snapshot, FIELDS[entity])}
        return rows

    def real(name: str, value: Any) -> Any:
        entity = REFERENCES.get(name)
        if entity is not None and isinstance(value, int) and value < 0:
            return ids[entity, value]
        return value

    for change in changes:
        rows = table(change.entity)
        match change:
            case Insert():
                row: Any = change.row
                new_id = max(rows, default=0) + 1
                ids[change.entity, row.id] = new_id
                sets = {name: real(name, getattr(row, name)) for name in _HAS[change.entity]}
                rows[new_id] = replace(row, id=new_id, **sets)
                if change.entity is not Entity.CONVERSATION:
                    _known(None, row.state, extra)
                    moves.append((type(row.state), None, row.state))
            case Move():
                current = _current(rows, change.entity, change.id, change.before, change.fence)
                _known(change.before, change.after, extra)
                sets = {name: real(name, value) for name, value in change.sets.items()}
                rows[change.id] = replace(current, state=change.after, **sets)
                moves.append((type(change.after), change.before, change.after))
            case Touch():
                current = _current(rows, change.entity, change.id, change.state, change.fence)
                sets = {name: real(name, value) for name, value in change.sets.items()}
                rows[change.id] = replace(current, **sets)
        _unique(change.entity, rows.values(), indexes)
    after = {FIELDS[entity]: tuple(rows[row_id] for row_id in sorted(rows)) for entity, rows in tables.items()}
    made = tuple((entity, placeholder, new) for (entity, placeholder), new in ids.items())
    return Applied(replace(snapshot, **after), tuple(moves), made)


def _known(before: State | None, after: State, extra: Extra) -> None:
    if not allowed(before, after) and (before, after) not in extra:
        raise NotInTable(f"{before} -> {after}")


def _current(rows: dict[int, Any], entity: Entity, row_id: int, state: State | None, fence: int | None) -> Any:
    row = rows.get(row_id)
    if row is None:
        raise Void(f"no {entity} {row_id}")
    if state is not None and row.state is not state:
        raise Void(f"{entity} {row_id} is {row.state}, not {state}")
    if fence is not None and fence != (row.fence if entity is Entity.RUN else row.attempt):
        raise Void(f"{entity} {row_id}: another fence than {fence}")
    return row


def _unique(entity: Entity, rows: Iterable[Any], indexes: Indexes) -> None:
    match entity:
        case Entity.RUN:
            active = [r for r in rows if r.state in ACTIVE_RUN]
            if indexes.conversation:
                _once("active run of a conversation", (r.conversation_id for r in active))
            if indexes.workspace:
                _once("active run of a workspace", (r.workspace for r in active if r.workspace is not None))
        case Entity.CONTINUATION:
            rows = list(rows)
            _once("armed continuation of a conversation", (c.conversation_id for c in rows if c.state in _ARMED))
            _once("requested continuation of a run", (c.origin_run_id for c in rows if c.state is ContinuationState.REQUESTED))
        case Entity.SESSION:
            _once("open session of a conversation", (s.conversation_id for s in rows if s.state is SessionState.OPEN))
        case Entity.PROMPT:
            if indexes.source_key:
                _once("source key", (p.source_key for p in rows))
        case Entity.PART:
            rows = list(rows)
            _once("nonce", (p.nonce for p in rows))
            _once("number in the channel", ((p.channel_id, p.seq) for p in rows))
        case Entity.CONVERSATION:
            pass


def _once(what: str, values: Iterable[Any]) -> None:
    seen = list(values)
    if len(seen) != len(set(seen)):
        raise Void(f"unique index: {what}")
