"""Collects rows into a snapshot: bounded queries on one connection, each row once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, ScalarSelect, Select, Table, and_, case, exists, func, or_, select
from sqlalchemy.ext.asyncio import AsyncConnection

from storage.events import Entity
from storage.models import ContinuationId, ConversationId, PartId, PartKind, PromptKind, RunId, Snapshot
from storage.rows import CONTINUATIONS, CONVERSATIONS, PARTS, PROMPTS, RUNS, SESSIONS, Kind, R
from storage.schema import (
    ACTIVE_RUNS,
    LIVE_CONTINUATIONS,
    LIVE_PROMPTS,
    OPEN_PARTS,
    OPEN_SESSION,
    continuations,
    conversations,
    one_of,
    parts,
    prompts,
    runs,
    sessions,
)
from storage.states import PartState, PromptState

#: Both terms: the first names the partial index, the second what is wanted of it.
WAITING = and_(LIVE_PROMPTS, one_of(prompts.c.state, PromptState.WAITING))
#: 0 for people's prompts, 1 for wakes and events.
PROMPT_CLASS = case((one_of(prompts.c.kind, *(kind for kind in PromptKind if kind.of_people)), 0), else_=1)


#: A conversation's id, or a subquery that finds it.
Owner = int | ScalarSelect[int]


def owner_of(table: Table, row_id: int) -> ScalarSelect[int]:
    """Whose row it is. That never changes, so it may be looked up by the same statement that locks the conversation."""
    return select(table.c.conversation_id).where(table.c.id == row_id).scalar_subquery()


@dataclass(frozen=True, slots=True)
class Candidate:
    """Where a claim may find something: one workspace with all its conversations, or one conversation of a shared folder."""

    workspace: str | None
    conversation_id: ConversationId


class Collector:
    """The rows found so far in one transaction."""

    def __init__(self, conn: AsyncConnection) -> None:
        self._conn = conn
        self._rows: dict[Entity, dict[int, Any]] = {entity: {} for entity in Entity}

    def snapshot(self) -> Snapshot:
        """Everything collected, in order of the ids."""

        def of(kind: Kind[R]) -> tuple[R, ...]:
            found: dict[int, R] = self._rows[kind.entity]
            return tuple(found[row_id] for row_id in sorted(found))

        return Snapshot(
            conversations=of(CONVERSATIONS),
            sessions=of(SESSIONS),
            prompts=of(PROMPTS),
            runs=of(RUNS),
            continuations=of(CONTINUATIONS),
            parts=of(PARTS),
        )

    async def _add(self, kind: Kind[R], query: Select[Any]) -> list[R]:
        found = [kind.read(row) for row in (await self._conn.execute(query)).mappings()]
        self._rows[kind.entity].update((row.id, row) for row in found)
        return found

    # --- one conversation

    async def lock(self, conversation: Owner) -> ConversationId | None:
        """The conversation row, locked; None if there is none."""
        query = CONVERSATIONS.light().where(conversations.c.id == conversation).with_for_update()
        found = await self._add(CONVERSATIONS, query)
        return found[0].id if found else None

    async def lock_agent(self, conversation: Owner) -> None:
        """All conversations with the same agent, locked."""
        agent = select(conversations.c.agent).where(conversations.c.id == conversation).scalar_subquery()
        query = CONVERSATIONS.light().where(conversations.c.agent == agent).order_by(conversations.c.id)
        await self._add(CONVERSATIONS, query.with_for_update())

    async def whole(self, conversation: Owner) -> ConversationId | None:
        """The conversation, locked, with its active run, live prompts and continuations, and the sessions those belong to."""
        conversation_id = await self.lock(conversation)
        if conversation_id is None:
            return None
        active = await self._add(RUNS, RUNS.light().where(runs.c.conversation_id == conversation_id, ACTIVE_RUNS))
        await self._add(PROMPTS, PROMPTS.light().where(prompts.c.conversation_id == conversation_id, LIVE_PROMPTS))
        mine = continuations.c.conversation_id == conversation_id
        live = await self._add(CONTINUATIONS, CONTINUATIONS.light().where(mine, LIVE_CONTINUATIONS))
        await self.open_sessions([conversation_id])
        await self._sessions({run.session_id for run in active} | {row.session_id for row in live})
        return conversation_id

    async def waiting(self, conversation_id: ConversationId) -> None:
        """The conversation's waiting prompts."""
        await self._add(PROMPTS, PROMPTS.light().where(prompts.c.conversation_id == conversation_id, WAITING))

    async def open_parts(self, conversation_id: ConversationId) -> None:
        """The conversation's parts that are not terminal, and the runs that said them."""
        found = await self.parts_with(and_(parts.c.conversation_id == conversation_id, OPEN_PARTS))
        for run_id in {part.run_id for part in found} - {None}:
            await self.run(run_id)

    async def open_replies(self, conversation_id: ConversationId) -> None:
        """The conversation's notices to single messages that are not terminal."""
        reply = and_(parts.c.kind == PartKind.NOTICE, parts.c.reply_to_id.is_not(None))
        await self.parts_with(and_(parts.c.conversation_id == conversation_id, OPEN_PARTS, reply))

    # --- single rows

    async def prompt_with(self, condition: ColumnElement[bool]) -> None:
        """A prompt by a unique key, whatever its state."""
        await self._add(PROMPTS, PROMPTS.light().where(condition))

    async def run(self, run_id: RunId) -> None:
        """A run, whatever its state, with its session."""
        if run_id not in self._rows[Entity.RUN]:
            found = await self._add(RUNS, RUNS.light().where(runs.c.id == run_id))
            await self._sessions(run.session_id for run in found)

    async def continuation(self, continuation_id: ContinuationId) -> None:
        """A continuation, whatever its state, with its session."""
        if continuation_id not in self._rows[Entity.CONTINUATION]:
            found = await self._add(CONTINUATIONS, CONTINUATIONS.light().where(continuations.c.id == continuation_id))
            await self._sessions(row.session_id for row in found)

    async def parts_with(self, condition: ColumnElement[bool]) -> list[Any]:
        """Parts by a condition."""
        return await self._add(PARTS, PARTS.light().where(condition))

    async def part_and_earlier(self, part_id: PartId) -> None:
        """A part, the first open one before it in its channel (one is enough to be second), and one of its run that has expired."""
        for part in await self.parts_with(parts.c.id == part_id):
            before = and_(parts.c.conversation_id == part.conversation_id, OPEN_PARTS, parts.c.seq < part.seq)
            await self._add(PARTS, PARTS.light().where(before).order_by(parts.c.seq).limit(1))
            if part.run_id is not None:
                expired = and_(parts.c.run_id == part.run_id, one_of(parts.c.state, PartState.EXPIRED))
                await self._add(PARTS, PARTS.light().where(expired).limit(1))

    async def _sessions(self, wanted: Iterable[int]) -> None:
        missing = set(wanted) - self._rows[Entity.SESSION].keys()
        if missing:
            await self._add(SESSIONS, SESSIONS.light().where(sessions.c.id.in_(missing)))

    # --- candidates for a claim

    async def lock_candidates(self, candidate: Candidate) -> list[ConversationId]:
        """The conversations that a claim chooses from: those with waiting prompts; locked, in order of their ids."""
        chosen: ColumnElement[bool] = conversations.c.id == candidate.conversation_id
        if candidate.workspace is not None:
            chosen = and_(conversations.c.folder == candidate.workspace, conversations.c.shared.is_(False))
        query = CONVERSATIONS.light().where(chosen, exists().where(prompts.c.conversation_id == conversations.c.id, WAITING))
        found = await self._add(CONVERSATIONS, query.order_by(conversations.c.id).with_for_update())
        return [conversation.id for conversation in found]

    async def heads(self, chosen: Sequence[ConversationId], limit: int) -> None:
        """The first waiting prompts of each class of each conversation: a claim never looks further."""
        order = func.row_number().over(
            partition_by=(prompts.c.conversation_id, PROMPT_CLASS), order_by=(prompts.c.ordered_ms, prompts.c.id)
        )
        ranked = select(prompts.c.id, order.label("place")).where(prompts.c.conversation_id.in_(chosen), WAITING).subquery()
        first = select(ranked.c.id).where(ranked.c.place <= limit)
        await self._add(PROMPTS, PROMPTS.light().where(prompts.c.id.in_(first)))

    async def active_runs(self, chosen: Sequence[ConversationId], workspace: str | None) -> None:
        """The active runs of the conversations, and whichever holds the workspace."""
        held: ColumnElement[bool] = runs.c.conversation_id.in_(chosen)
        if workspace is not None:
            held = or_(held, runs.c.workspace == workspace)
        await self._add(RUNS, RUNS.light().where(ACTIVE_RUNS, held))

    async def open_sessions(self, chosen: Sequence[ConversationId]) -> None:
        """The open session of each conversation."""
        await self._add(SESSIONS, SESSIONS.light().where(sessions.c.conversation_id.in_(chosen), OPEN_SESSION))
