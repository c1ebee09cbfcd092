"""Between tables and the frozen rows of `storage.models`: one generic mapper for all of them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Any, Generic, TypeVar, get_type_hints

from sqlalchemy import ColumnElement, RowMapping, Select, Table, select

from storage import schema
from storage.events import Entity, Row, Value
from storage.models import Continuation, Conversation, Part, Prompt, Run, Session

R = TypeVar("R", Conversation, Session, Prompt, Run, Continuation, Part)

#: Columns that hold another row's id, and whose it is: where a decision's negative ids can stand.
REFERENCES: Mapping[str, Entity] = {
    "conversation_id": Entity.CONVERSATION,
    "session_id": Entity.SESSION,
    "run_id": Entity.RUN,
    "origin_run_id": Entity.RUN,
    "continuation_id": Entity.CONTINUATION,
}
_UNSTORABLE = re.compile("[\\x00\\ud800-\\udfff]")
#: Large columns that decisions and lists do not look at.
_HEAVY = frozenset({"record"})


@dataclass(frozen=True, slots=True)
class Kind(Generic[R]):
    """One kind of row: its table, its class, and the columns that hold a vocabulary."""

    entity: Entity
    table: Table
    row: type[R]
    vocabularies: Mapping[str, type[StrEnum]]

    def light(self) -> Select[Any]:
        """Everything but heavy columns, which the row then shows as None."""
        return select(*(column for column in self.table.c if column.name not in _HEAVY))

    def full(self) -> Select[Any]:
        """Everything."""
        return select(self.table)

    def read(self, found: RowMapping) -> R:
        """The frozen row; a word that is no state of ours raises ValueError (the CHECK constraints exclude it)."""
        values = dict(found)
        for name, words in self.vocabularies.items():
            values[name] = words(values[name])
        return self.row(**values)

    def id(self) -> ColumnElement[int]:
        """The id column."""
        return self.table.c.id

    @property
    def fence(self) -> ColumnElement[int] | None:
        """The column that `Move.fence` is compared with: a run's fence, a part's attempt."""
        match self.entity:
            case Entity.RUN:
                return self.table.c.fence
            case Entity.PART:
                return self.table.c.attempt
            case _:
                return None


def _kind(entity: Entity, table: Table, row: type[R]) -> Kind[R]:
    hints = get_type_hints(row)
    words = {name: hint for name, hint in hints.items() if isinstance(hint, type) and issubclass(hint, StrEnum)}
    return Kind(entity, table, row, words)


CONVERSATIONS = _kind(Entity.CONVERSATION, schema.conversations, Conversation)
SESSIONS = _kind(Entity.SESSION, schema.sessions, Session)
PROMPTS = _kind(Entity.PROMPT, schema.prompts, Prompt)
RUNS = _kind(Entity.RUN, schema.runs, Run)
CONTINUATIONS = _kind(Entity.CONTINUATION, schema.continuations, Continuation)
PARTS = _kind(Entity.PART, schema.parts, Part)

KINDS: Mapping[Entity, Kind[Any]] = {kind.entity: kind for kind in (CONVERSATIONS, SESSIONS, PROMPTS, RUNS, CONTINUATIONS, PARTS)}


def values_of(row: Row) -> dict[str, Value]:
    """A row's values by column, as the databases take them."""
    return {field.name: clean(getattr(row, field.name)) for field in fields(row)}


def clean(value: Value) -> Value:
    """A value that both databases take: PostgreSQL's text has no NUL, and neither encodes half a surrogate pair.

    A message with such a character must be stored, not lost, so the character is replaced.
    """
    if not isinstance(value, str):
        return value
    return _UNSTORABLE.sub("\ufffd", value.value if isinstance(value, StrEnum) else value)
