"""Writes a decision: each change repeats its precondition in the WHERE, and the row count decides.

Changes are applied in the order given: the unique indexes are looked at after each statement, so a decision ends the old before it
begins the new. Every new row and every move also writes a row of the journal.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, assert_never

from sqlalchemy import insert, update
from sqlalchemy.ext.asyncio import AsyncConnection

from storage.errors import Impossible, StaleFence
from storage.events import Change, Entity, Insert, Move, Row, RowId, Touch, Value
from storage.models import Conversation
from storage.rows import KINDS, REFERENCES, clean, values_of
from storage.schema import journal
from storage.states import State, allowed

#: The journal's word for the state of a conversation, which has none.
BOUND = "bound"


@dataclass(slots=True)
class Writer:
    """Applies one decision in one transaction."""

    conn: AsyncConnection
    by: str
    now_ms: int
    _real: dict[tuple[Entity, int], int] = field(default_factory=dict)
    _entries: list[dict[str, Value]] = field(default_factory=list)

    async def apply(self, changes: tuple[Change, ...]) -> tuple[Change, ...]:
        """The changes as they were written, with real ids.

        Raises StaleFence if a row was not as expected, Impossible if a move is not in the table of states; the caller rolls back.
        """
        written = tuple([await self._apply(change) for change in changes])
        if self._entries:
            await self.conn.execute(insert(journal), self._entries)
        return written

    async def _apply(self, change: Change) -> Change:
        match change:
            case Insert():
                return await self._insert(change)
            case Move():
                return await self._move(change)
            case Touch():
                return await self._touch(change)
            case _:
                assert_never(change)

    async def _insert(self, change: Insert) -> Insert:
        row = change.row
        state: State | None = None
        if not isinstance(row, Conversation):
            state = row.state
            if not allowed(None, state):
                raise Impossible(f"No {change.entity} begins as {state}.")
        values = self._resolved(values_of(row))
        table = KINDS[change.entity].table
        placeholder = values.pop("id")
        written = await self.conn.execute(insert(table).values(values).returning(table.c.id))
        row_id: int = written.scalar_one()
        if isinstance(placeholder, int):
            self._real[change.entity, placeholder] = row_id
        owner = row_id if isinstance(row, Conversation) else values["conversation_id"]
        self._note(change.entity, row_id, owner, None, state or BOUND, change.why)
        return replace(change, row=_with(row, {**values, "id": row_id}))

    async def _move(self, change: Move) -> Move:
        if not allowed(change.before, change.after):
            raise Impossible(f"A {change.entity} never goes from {change.before} to {change.after}.")
        sets = self._resolved(change.sets)
        row_id = self._real_id(change.entity, change.id)
        owner = await self._write(change.entity, row_id, {**sets, "state": change.after.value}, change.before, change.fence)
        self._note(change.entity, row_id, owner, change.before, change.after, change.why)
        return replace(change, id=row_id, sets=sets)

    async def _touch(self, change: Touch) -> Touch:
        sets = self._resolved(change.sets)
        row_id = self._real_id(change.entity, change.id)
        await self._write(change.entity, row_id, sets, change.state, change.fence)
        return replace(change, id=row_id, sets=sets)

    async def _write(self, entity: Entity, row_id: RowId, sets: Mapping[str, Value], state: State | None, fence: int | None) -> int:
        """Compare and set; returns the row's conversation."""
        kind = KINDS[entity]
        table = kind.table
        owner = table.c.id if entity is Entity.CONVERSATION else table.c.conversation_id
        query = update(table).where(table.c.id == row_id).values(dict(sets)).returning(owner)
        if state is not None:
            query = query.where(table.c.state == state.value)
        if fence is not None:
            if kind.fence is None:
                raise Impossible(f"A {entity} has no fence.")
            query = query.where(kind.fence == fence)
        found: int | None = (await self.conn.execute(query)).scalar_one_or_none()
        if found is None:
            raise StaleFence(f"{entity} {row_id} is no longer {state or 'there'}, or has another owner.")
        return found

    def _note(self, entity: Entity, row_id: int, owner: Value, before: State | None, after: State | str, why: str) -> None:
        self._entries.append(
            {
                "at_ms": self.now_ms,
                "entity": entity.value,
                "entity_id": row_id,
                "conversation_id": owner,
                "before": None if before is None else before.value,
                "after": str(after),
                "why": clean(why),
                "by": clean(self.by),
            }
        )

    def _resolved(self, values: Mapping[str, Value]) -> dict[str, Value]:
        """The values with real ids in place of the decision's own."""
        resolved = {name: clean(value) for name, value in values.items()}
        for name, entity in REFERENCES.items():
            value = resolved.get(name)
            if isinstance(value, int) and value < 0:
                resolved[name] = self._real_id(entity, value)
        return resolved

    def _real_id(self, entity: Entity, row_id: int) -> Any:  # noqa: ANN401 - whichever kind of id it is
        if row_id >= 0:
            return row_id
        real = self._real.get((entity, row_id))
        if real is None:
            raise Impossible(f"A decision refers to {entity} {row_id} before it inserts it.")
        return real


def _with(row: Row, values: Mapping[str, Any]) -> Row:
    """The row as it was written; the vocabulary columns keep their words as enums."""
    words = KINDS[_entity_of(row)].vocabularies
    return replace(row, **{name: value for name, value in values.items() if name not in words})


def _entity_of(row: Row) -> Entity:
    return Entity(type(row).__name__.lower())
