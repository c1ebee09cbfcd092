"""A used-up account: nothing of its agent is claimed until the limit ends, and what it cut off goes on by itself then."""

from __future__ import annotations

from storage.events import Again, Change, Code, Entity, Insert, Refusal, Touch, Unpark
from storage.models import Conversation, Prompt, PromptKind, Run, Snapshot
from storage.rules import view
from storage.states import PromptState


def park(snap: Snapshot, conversation: Conversation, until_ms: int) -> list[Change]:
    """Hold every conversation of the agent; one that is held for longer already stays so."""
    return [
        Touch(Entity.CONVERSATION, each.id, {"not_before_ms": until_ms})
        for each in snap.conversations
        if each.agent == conversation.agent and each.not_before_ms < until_ms
    ]


def again(snap: Snapshot, run: Run, event: Again, now_ms: int) -> list[Change]:
    """Queue the prompt that goes on, at the place of what it goes on with."""
    mine = [p for p in snap.prompts if p.run_id == run.id]
    if not mine:
        return []
    of_people = run.kind.of_people
    prompt = Prompt(
        id=view.NEW_PROMPT,
        conversation_id=run.conversation_id,
        kind=PromptKind.RESUME if of_people else PromptKind.EVENT,
        state=PromptState.WAITING,
        ordered_ms=min(p.ordered_ms for p in mine),
        created_ms=now_ms,
        author_id=run.began_by,
        author_name="",
        text=event.text,
        source_key=event.source_key,
        addressed=run.addressed,
        session_id=None if of_people else run.session_id,
    )
    return [Insert(Entity.PROMPT, prompt, "the usage limit cut it off")]


def unpark(snap: Snapshot, event: Unpark) -> tuple[Change, ...] | Refusal:
    """Let claims of the agent begin at once."""
    conversation = view.find(snap.conversations, event.conversation_id)
    if conversation is None:
        return view.NOT_FOUND
    held = [each for each in snap.conversations if each.agent == conversation.agent and each.not_before_ms]
    if not held:
        return Refusal(Code.ENDED)
    return tuple(Touch(Entity.CONVERSATION, each.id, {"not_before_ms": 0}) for each in held)
