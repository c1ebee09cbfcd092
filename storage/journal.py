"""Reads the append-only journal: what moved, from where, to where, why, when, and by whom."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqlalchemy import Select, select

from storage.events import Entity, RowId
from storage.models import ConversationId
from storage.reader import Reader
from storage.schema import journal


@dataclass(frozen=True, slots=True)
class Entry:
    """One transition. `before` is None where the row was made."""

    id: int
    at_ms: int
    entity: Entity
    entity_id: int
    conversation_id: ConversationId
    before: str | None
    after: str
    why: str
    by: str


class Journal:
    """Read-only; only the store writes it, in the transaction of the change, and nothing ever changes it."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader

    async def of(self, entity: Entity, entity_id: RowId) -> tuple[Entry, ...]:
        """The whole life of one row, oldest first."""
        query = select(journal).where(journal.c.entity == entity.value, journal.c.entity_id == entity_id)
        return await self._entries(query.order_by(journal.c.id))

    async def of_conversation(self, conversation_id: ConversationId, limit: int) -> tuple[Entry, ...]:
        """The newest entries of a conversation, oldest first."""
        query = select(journal).where(journal.c.conversation_id == conversation_id)
        return (await self._entries(query.order_by(journal.c.id.desc()).limit(limit)))[::-1]

    async def after(self, entry_id: int, limit: int) -> tuple[Entry, ...]:
        """Entries behind a known one, oldest first; 0 begins at the beginning."""
        query = select(journal).where(journal.c.id > entry_id)
        return await self._entries(query.order_by(journal.c.id).limit(limit))

    async def _entries(self, query: Select[Any]) -> tuple[Entry, ...]:
        found = [dict(record._mapping) for record in await self._reader.records(query)]  # noqa: SLF001 - public, named so to avoid clashes
        return tuple(Entry(**{**values, "entity": Entity(values["entity"])}) for values in found)
