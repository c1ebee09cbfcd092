"""Reads the messages to post: what comes next in each channel, and what became of a run's words."""

from __future__ import annotations

from sqlalchemy import and_, func, or_, select

from storage.models import ConversationId, Part, PartId, RunId
from storage.reader import Reader
from storage.rows import PARTS
from storage.schema import OPEN_PARTS, TROUBLED_PARTS, one_of, parts
from storage.states import PartState

_SENDING = and_(OPEN_PARTS, one_of(parts.c.state, PartState.SENDING))


class Outbox:
    """Read-only."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader

    async def by_id(self, part_id: PartId) -> Part | None:
        """One part."""
        return await self._reader.one(PARTS, PARTS.light().where(parts.c.id == part_id))

    async def by_nonce(self, nonce: str) -> Part | None:
        """The part whose current generation has this nonce: for the echo of our own message."""
        return await self._reader.one(PARTS, PARTS.light().where(parts.c.nonce == nonce))

    async def of_run(self, run_id: RunId) -> tuple[Part, ...]:
        """A run's parts in order, its notices included."""
        return await self._reader.all(PARTS, PARTS.light().where(parts.c.run_id == run_id).order_by(parts.c.seq))

    async def sendable(self, now_ms: int, limit: int) -> tuple[Part, ...]:
        """The first open part of each channel, longest queued first, if somebody could act on it.

        That is: it is ready; or it is being sent, and the deadline of its attempt has passed.
        """
        first = select(parts.c.conversation_id, func.min(parts.c.seq).label("seq")).where(OPEN_PARTS)
        heads = first.group_by(parts.c.conversation_id).subquery()
        at_head = and_(parts.c.conversation_id == heads.c.conversation_id, parts.c.seq == heads.c.seq)
        actionable = or_(one_of(parts.c.state, PartState.READY), parts.c.deadline_ms < now_ms)
        query = PARTS.light().join(heads, at_head).where(OPEN_PARTS, actionable)
        return await self._reader.all(PARTS, query.order_by(parts.c.queued_ms, parts.c.id).limit(limit))

    async def held_by_others(self, instance: str) -> tuple[Part, ...]:
        """Parts that other processes were sending: to be taken over once those are gone."""
        query = PARTS.light().where(_SENDING, parts.c.holder != instance)
        # In the order of the index of open parts: asked for in order of the ids, SQLite would read all of history instead.
        return await self._reader.all(PARTS, query.order_by(parts.c.conversation_id, parts.c.seq))

    async def backlog(self, conversation_id: ConversationId) -> tuple[Part, ...]:
        """What is not in the channel yet, in order."""
        query = PARTS.light().where(parts.c.conversation_id == conversation_id, OPEN_PARTS)
        return await self._reader.all(PARTS, query.order_by(parts.c.seq))

    async def posted_before(self, conversation_id: ConversationId, seq: int) -> Part | None:
        """The last part before that one whose message is known; parts are posted in order, so its message is the older one."""
        mine = and_(parts.c.conversation_id == conversation_id, parts.c.seq < seq, parts.c.message_id > 0)
        return await self._reader.one(PARTS, PARTS.light().where(mine).order_by(parts.c.seq.desc()))

    async def posted_from(self, conversation_id: ConversationId, seq: int) -> tuple[Part, ...]:
        """The parts from that one on whose messages are known, in order: those of the channel's history are accounted for."""
        mine = and_(parts.c.conversation_id == conversation_id, parts.c.seq >= seq, parts.c.message_id.is_not(None))
        return await self._reader.all(PARTS, PARTS.light().where(mine).order_by(parts.c.seq))

    async def troubled(self, conversation_id: ConversationId, limit: int) -> tuple[Part, ...]:
        """What did not arrive for sure, newest first: unknown, failed, expired."""
        query = PARTS.light().where(parts.c.conversation_id == conversation_id, TROUBLED_PARTS)
        return await self._reader.all(PARTS, query.order_by(parts.c.seq.desc()).limit(limit))
