"""Runs queries on the read engine, each in a short transaction of its own: an open reader lets the write-ahead log grow."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Select
from sqlalchemy.engine import Row as Record
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncEngine

from storage.diagnosis import sentence
from storage.errors import NotRead
from storage.rows import Kind, R
from storage.shield import Shield


class Reader:
    """Every method raises NotRead when the database cannot answer."""

    def __init__(self, engine: AsyncEngine, shield: Shield) -> None:
        self._engine = engine
        self._shield = shield

    async def records(self, query: Select[Any]) -> Sequence[Record[Any]]:
        """All rows as they come."""
        # Shielded like writes: a driver that is interrupted in the middle of a query loses its connection.
        return await self._shield.run(self._records(query))

    async def _records(self, query: Select[Any]) -> Sequence[Record[Any]]:
        try:
            async with self._engine.connect() as conn:
                found: Sequence[Record[Any]] = (await conn.execute(query)).all()
                return found
        except (SQLAlchemyError, OSError) as error:
            raise NotRead(f"The database could not be read: {sentence(error)}.") from error

    async def all(self, kind: Kind[R], query: Select[Any]) -> tuple[R, ...]:
        """All rows of one kind."""
        return tuple(kind.read(record._mapping) for record in await self.records(query))  # noqa: SLF001 - public, named so to avoid clashes

    async def one(self, kind: Kind[R], query: Select[Any]) -> R | None:
        """The only row, or None."""
        found = await self.all(kind, query.limit(1))
        return found[0] if found else None
