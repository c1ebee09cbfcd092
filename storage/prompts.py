"""Reads prompts: the queue, what is offered, and what a run has taken."""

from __future__ import annotations

from sqlalchemy import and_, func, select

from storage.models import ConversationId, Prompt, PromptId, PromptKind, RunId
from storage.reader import Reader
from storage.rows import PROMPTS
from storage.schema import LIVE_PROMPTS, one_of, prompts
from storage.snapshots import PROMPT_CLASS, WAITING
from storage.states import PromptState

_OFFERED = and_(LIVE_PROMPTS, one_of(prompts.c.state, PromptState.OFFERED))


class Prompts:
    """Read-only."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader

    async def by_id(self, prompt_id: PromptId) -> Prompt | None:
        """One prompt."""
        return await self._reader.one(PROMPTS, PROMPTS.light().where(prompts.c.id == prompt_id))

    async def by_source_key(self, source_key: str) -> Prompt | None:
        """The prompt that a message, a continuation, a button or an event became."""
        return await self._reader.one(PROMPTS, PROMPTS.light().where(prompts.c.source_key == source_key))

    async def waiting(self, conversation_id: ConversationId) -> tuple[Prompt, ...]:
        """The queue in the order in which it will run: people first, then first come."""
        query = PROMPTS.light().where(prompts.c.conversation_id == conversation_id, WAITING)
        return await self._reader.all(PROMPTS, query.order_by(PROMPT_CLASS, prompts.c.ordered_ms, prompts.c.id))

    async def offered(self, conversation_id: ConversationId) -> tuple[Prompt, ...]:
        """What catch-up found too old to run silently, oldest first."""
        query = PROMPTS.light().where(prompts.c.conversation_id == conversation_id, _OFFERED)
        return await self._reader.all(PROMPTS, query.order_by(prompts.c.ordered_ms, prompts.c.id))

    async def of_run(self, run_id: RunId) -> tuple[Prompt, ...]:
        """What a run took, in order. A released run has given its prompts back."""
        query = PROMPTS.light().where(prompts.c.run_id == run_id)
        return await self._reader.all(PROMPTS, query.order_by(prompts.c.ordered_ms, prompts.c.id))

    async def people_since(self, conversation_id: ConversationId, since_ms: int) -> int:
        """How many messages of people were stored after that time."""
        mine = and_(prompts.c.conversation_id == conversation_id, one_of(prompts.c.kind, PromptKind.USER), prompts.c.created_ms > since_ms)
        ((count,),) = await self._reader.records(select(func.count()).select_from(prompts).where(mine))
        return int(count)
