"""Reads runs: what is active, whose it is, what is to be told."""

from __future__ import annotations

from storage.models import ConversationId, Run, RunId
from storage.reader import Reader
from storage.rows import RUNS
from storage.schema import ACTIVE_RUNS, UNTOLD_RUNS, runs


class Runs:
    """Read-only. Only `by_id` loads the record of what the agent said."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader

    async def by_id(self, run_id: RunId) -> Run | None:
        """One run, with its record."""
        return await self._reader.one(RUNS, RUNS.full().where(runs.c.id == run_id))

    async def active(self, conversation_id: ConversationId) -> Run | None:
        """The run that holds the conversation."""
        return await self._reader.one(RUNS, RUNS.light().where(runs.c.conversation_id == conversation_id, ACTIVE_RUNS))

    async def active_all(self) -> tuple[Run, ...]:
        """Every active run, by conversation."""
        # In the order of the index of active runs: asked for in order of the ids, SQLite would read all of history instead.
        return await self._reader.all(RUNS, RUNS.light().where(ACTIVE_RUNS).order_by(runs.c.conversation_id))

    async def recent(self, conversation_id: ConversationId, limit: int) -> tuple[Run, ...]:
        """The newest runs, newest first."""
        query = RUNS.light().where(runs.c.conversation_id == conversation_id)
        return await self._reader.all(RUNS, query.order_by(runs.c.id.desc()).limit(limit))

    async def receipts_due(self, conversation_id: ConversationId, limit: int = 20) -> tuple[Run, ...]:
        """Ended runs whose delivery the agent has not been told, oldest first; at most `limit`, the newest."""
        query = RUNS.light().where(runs.c.conversation_id == conversation_id, UNTOLD_RUNS)
        newest = await self._reader.all(RUNS, query.order_by(runs.c.id.desc()).limit(limit))
        return newest[::-1]
