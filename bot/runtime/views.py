"""What people look at: plain values for /status, /queue list and /continuations list."""

from __future__ import annotations

from dataclasses import dataclass

from bot.runtime.services import Services
from storage.models import Continuation, Conversation, ConversationId, Part, Prompt, Run, Session

#: Runs and troubled parts shown.
_RECENT_RUNS = 5
_TROUBLED_PARTS = 5


@dataclass(frozen=True, slots=True)
class Budget:
    """How much the agent may still do without anybody speaking to it."""

    runs_used: int
    runs_allowed: int
    #: When the time of it is over, integer milliseconds UTC.
    until_ms: int
    #: Met: wakes and events are held until a person speaks or presses Continue.
    met: bool


@dataclass(frozen=True, slots=True)
class Status:
    """A conversation as it is now."""

    conversation: Conversation
    #: The run that holds it, if any.
    run: Run | None
    #: In the order in which they will run.
    waiting: tuple[Prompt, ...]
    #: Too old to run silently: people choose.
    offered: tuple[Prompt, ...]
    #: Requested, pending, claimed.
    continuations: tuple[Continuation, ...]
    #: Not in the channel yet.
    unsent: tuple[Part, ...]
    #: Unknown, failed, expired; newest first.
    troubled: tuple[Part, ...]
    session: Session | None
    unattended: Budget
    #: Newest first.
    recent: tuple[Run, ...]
    #: No turn begins before: the agent's usage limit, or a pause after it could not be opened. Integer milliseconds UTC.
    held_until_ms: int | None
    #: Since when nothing could be posted there.
    unreachable_since_ms: int | None


async def status(services: Services, conversation_id: ConversationId) -> Status | None:
    """Everything about one conversation; None if there is none. Raises StorageError."""
    store, now_ms = services.store, services.clock.now_ms()
    conversation = await store.conversations.by_id(conversation_id)
    if conversation is None:
        return None
    rules = store.rules
    until_ms = conversation.attended_at_ms + rules.unattended_ms
    met = conversation.unattended_runs >= rules.unattended_runs or now_ms >= until_ms
    return Status(
        conversation=conversation,
        run=await store.runs.active(conversation_id),
        waiting=await store.prompts.waiting(conversation_id),
        offered=await store.prompts.offered(conversation_id),
        continuations=await store.continuations.live(conversation_id),
        unsent=await store.outbox.backlog(conversation_id),
        troubled=await store.outbox.troubled(conversation_id, _TROUBLED_PARTS),
        session=await store.sessions.open_of(conversation_id),
        unattended=Budget(conversation.unattended_runs, rules.unattended_runs, until_ms, met),
        recent=await store.runs.recent(conversation_id, _RECENT_RUNS),
        held_until_ms=conversation.not_before_ms if conversation.not_before_ms > now_ms else None,
        unreachable_since_ms=services.unreachable_since_ms(conversation.channel_id),
    )
