"""Reads the rows of the agent's sessions."""

from __future__ import annotations

from storage.models import ConversationId, Session, SessionId
from storage.reader import Reader
from storage.rows import SESSIONS
from storage.schema import OPEN_SESSION, sessions


class Sessions:
    """Read-only."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader

    async def by_id(self, session_id: SessionId) -> Session | None:
        """One session."""
        return await self._reader.one(SESSIONS, SESSIONS.light().where(sessions.c.id == session_id))

    async def open_of(self, conversation_id: ConversationId) -> Session | None:
        """The conversation's open session."""
        return await self._reader.one(SESSIONS, SESSIONS.light().where(sessions.c.conversation_id == conversation_id, OPEN_SESSION))
