"""Reads conversations, and describes the first binding of one."""

from __future__ import annotations

from dataclasses import dataclass

from storage.models import Conversation, ConversationId
from storage.reader import Reader
from storage.rows import CONVERSATIONS
from storage.schema import conversations


@dataclass(frozen=True, slots=True)
class NewConversation:
    """A channel that is bound for the first time; it begins at `last_seen_id`, what is older is not read."""

    channel_id: int
    guild_id: int | None
    project: str
    agent: str
    #: The resolved project folder.
    folder: str
    shared: bool
    last_seen_id: int

    def row(self, now_ms: int) -> Conversation:
        """Its first row; a binding counts as attention, so that the unattended time begins now."""
        return Conversation(
            id=ConversationId(-1),
            channel_id=self.channel_id,
            guild_id=self.guild_id,
            project=self.project,
            agent=self.agent,
            folder=self.folder,
            shared=self.shared,
            last_seen_id=self.last_seen_id,
            attended_at_ms=now_ms,
        )


class Conversations:
    """Read-only."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader

    async def by_id(self, conversation_id: ConversationId) -> Conversation | None:
        """One conversation."""
        return await self._reader.one(CONVERSATIONS, CONVERSATIONS.light().where(conversations.c.id == conversation_id))

    async def by_channel(self, channel_id: int) -> Conversation | None:
        """The conversation of a channel, thread or DM."""
        return await self._reader.one(CONVERSATIONS, CONVERSATIONS.light().where(conversations.c.channel_id == channel_id))

    async def all_bound(self) -> tuple[Conversation, ...]:
        """All of them, oldest first."""
        return await self._reader.all(CONVERSATIONS, CONVERSATIONS.light().order_by(conversations.c.id))

    async def in_guild(self, guild_id: int) -> tuple[Conversation, ...]:
        """Those of a guild, oldest first."""
        query = CONVERSATIONS.light().where(conversations.c.guild_id == guild_id)
        return await self._reader.all(CONVERSATIONS, query.order_by(conversations.c.id))
