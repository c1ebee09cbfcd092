"""Reads continuations: what is due, what may still wake somebody, whose end is to be told."""

from __future__ import annotations

from sqlalchemy import func, select

from storage.models import Continuation, ContinuationId, ConversationId
from storage.reader import Reader
from storage.rows import CONTINUATIONS
from storage.schema import LIVE_CONTINUATIONS, PENDING, UNTOLD_CONTINUATIONS, continuations, conversations


class Continuations:
    """Read-only."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader

    async def by_id(self, continuation_id: ContinuationId) -> Continuation | None:
        """One continuation."""
        return await self._reader.one(CONTINUATIONS, CONTINUATIONS.light().where(continuations.c.id == continuation_id))

    async def live(self, conversation_id: ConversationId) -> tuple[Continuation, ...]:
        """Requested, pending and claimed ones, oldest first: one that is armed, and one that the active run asks for."""
        query = CONTINUATIONS.light().where(continuations.c.conversation_id == conversation_id, LIVE_CONTINUATIONS)
        return await self._reader.all(CONTINUATIONS, query.order_by(continuations.c.id))

    async def live_in_guild(self, guild_id: int) -> tuple[Continuation, ...]:
        """The live ones of a guild's channels, next due first."""
        of_guild = select(conversations.c.id).where(conversations.c.guild_id == guild_id)
        query = CONTINUATIONS.light().where(LIVE_CONTINUATIONS, continuations.c.conversation_id.in_(of_guild))
        return await self._reader.all(CONTINUATIONS, query.order_by(continuations.c.due_at_ms, continuations.c.id))

    async def next_due_ms(self) -> int | None:
        """When the earliest pending one is due, also when that has passed; None if there is none."""
        ((earliest,),) = await self._reader.records(select(func.min(continuations.c.due_at_ms)).where(PENDING))
        return None if earliest is None else int(earliest)

    async def due(self, now_ms: int, limit: int) -> tuple[ContinuationId, ...]:
        """Pending ones whose time has come, earliest first."""
        query = select(continuations.c.id).where(PENDING, continuations.c.due_at_ms <= now_ms)
        query = query.order_by(continuations.c.due_at_ms, continuations.c.id).limit(limit)
        return tuple(ContinuationId(found) for (found,) in await self._reader.records(query))

    async def untold(self, conversation_id: ConversationId, limit: int = 20) -> tuple[Continuation, ...]:
        """Ended ones whose end the agent has not been told, oldest first; at most `limit`, the newest."""
        query = CONTINUATIONS.light().where(continuations.c.conversation_id == conversation_id, UNTOLD_CONTINUATIONS)
        newest = await self._reader.all(CONTINUATIONS, query.order_by(continuations.c.id.desc()).limit(limit))
        return newest[::-1]
