"""Where a claim is worth trying, in the order in which it is fair to try."""

from __future__ import annotations

from sqlalchemy import and_, exists, func, or_, select

from storage.models import ConversationId
from storage.reader import Reader
from storage.schema import ACTIVE_RUNS, conversations, prompts, runs
from storage.snapshots import PROMPT_CLASS, WAITING, Candidate


class Dispatch:
    """Read-only. What it names is a hint: the claim looks again, under the lock."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader

    async def claimable(self, now_ms: int) -> tuple[Candidate, ...]:
        """Workspaces (and conversations of shared folders) with waiting prompts and no active run; people first, oldest first.

        A conversation whose agent could not be opened is left out until its `not_before_ms`. Where only wakes and events wait and the
        unattended bound holds them, the claim is refused with `HELD`.
        """
        busy = exists().where(
            ACTIVE_RUNS,
            or_(
                runs.c.conversation_id == conversations.c.id,
                and_(conversations.c.shared.is_(False), runs.c.workspace == conversations.c.folder),
            ),
        )
        kind = PROMPT_CLASS.label("kind")
        oldest = func.min(prompts.c.ordered_ms).label("oldest")
        query = (
            select(conversations.c.id, conversations.c.folder, conversations.c.shared, kind, oldest)
            .join(prompts, prompts.c.conversation_id == conversations.c.id)
            .where(WAITING, conversations.c.not_before_ms <= now_ms, ~busy)
            .group_by(conversations.c.id, conversations.c.folder, conversations.c.shared, kind)
            .order_by(kind, oldest, conversations.c.id)
        )
        candidates: dict[str | ConversationId, Candidate] = {}
        for record in await self._reader.records(query):
            found = Candidate(None if record.shared else record.folder, ConversationId(record.id))
            candidates.setdefault(found.workspace or found.conversation_id, found)
        return tuple(candidates.values())
