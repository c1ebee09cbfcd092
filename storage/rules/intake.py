"""What becomes a prompt, and what happens to one before it is taken."""

from __future__ import annotations

from storage.events import (
    Arrive,
    AskToContinue,
    Attend,
    Change,
    Choose,
    Code,
    Edit,
    Entity,
    Insert,
    Move,
    NewPart,
    Refusal,
    Remove,
    Resume,
    Seen,
    Touch,
)
from storage.models import Conversation, PartKind, Prompt, PromptKind, Rules, SessionId, Snapshot
from storage.rules import view
from storage.states import ContinuationState, PromptState, RunState, SessionState

_REMOVABLE = frozenset({PromptState.WAITING, PromptState.OFFERED})


def arrive(snap: Snapshot, event: Arrive, now_ms: int, rules: Rules) -> tuple[Change, ...] | Refusal:
    """Store a prompt once. A duplicate changes nothing but the last-seen message, and has no `Insert`."""
    conversation = view.find(snap.conversations, event.conversation_id)
    if conversation is None:
        return view.NOT_FOUND
    seen = _advance(conversation, event)
    if any(p.source_key == event.source_key for p in snap.prompts):
        return tuple(seen) or Refusal(Code.DUPLICATE)
    if event.session_id is not None and not _open(snap, event.session_id):
        return Refusal(Code.STALE_SESSION)
    state, why = _first_state(conversation, event, now_ms, rules), f"arrived: {event.source}"
    told: tuple[NewPart, ...] = ()
    if state is PromptState.WAITING and event.kind.of_people and view.full(snap, conversation.id, rules):
        state, why, told = PromptState.WITHDRAWN, "too many waited already", _told_once(snap, event)
    prompt = Prompt(
        id=view.NEW_PROMPT,
        conversation_id=conversation.id,
        kind=event.kind,
        state=state,
        ordered_ms=event.ordered_ms,
        created_ms=now_ms,
        author_id=event.author_id,
        author_name=event.author_name,
        text=event.text,
        source_key=event.source_key,
        addressed=event.addressed,
        message_id=event.message_id,
        session_id=event.session_id,
    )
    changes: list[Change] = [Insert(Entity.PROMPT, prompt, why), *seen, *view.add_parts(conversation, told, now_ms, None)]
    if state is PromptState.WAITING and event.addressed:
        changes.append(view.attend(conversation, now_ms))
    return tuple(changes)


def _first_state(conversation: Conversation, event: Arrive, now_ms: int, rules: Rules) -> PromptState:
    if event.message_id is not None and event.message_id < conversation.stop_id:
        return PromptState.WITHDRAWN
    if event.source == "catch_up" and now_ms - event.ordered_ms > rules.catch_up_max_age_ms:
        return PromptState.OFFERED
    return PromptState.WAITING


def _told_once(snap: Snapshot, event: Arrive) -> tuple[NewPart, ...]:
    """One notice for all that come before it is posted: a flood does not fill the outbox as well."""
    waits = any(part.kind is PartKind.NOTICE and part.reply_to_id is not None for part in snap.parts)
    return () if event.if_full is None or waits else (event.if_full,)


def _open(snap: Snapshot, session_id: SessionId) -> bool:
    session = view.find(snap.sessions, session_id)
    return session is not None and session.state is SessionState.OPEN


def seen(snap: Snapshot, event: Seen) -> tuple[Change, ...] | Refusal:
    """Move the last-seen message past one that is no prompt."""
    conversation = view.find(snap.conversations, event.conversation_id)
    if conversation is None:
        return view.NOT_FOUND
    return tuple(_advance(conversation, event))


def _advance(conversation: Conversation, event: Arrive | Seen) -> list[Change]:
    """Catch-up reads in order, so each message it stores moves the mark; a live one only once nothing before it is missing."""
    if event.message_id is None or event.message_id <= conversation.last_seen_id:
        return []
    if event.source == "internal" or (event.source == "live" and not event.caught_up):
        return []
    return [Touch(Entity.CONVERSATION, conversation.id, {"last_seen_id": event.message_id})]


def edit(snap: Snapshot, event: Edit) -> tuple[Change, ...] | Refusal:
    """A prompt that still waits runs with its new text."""
    prompt = view.find(snap.prompts, event.prompt_id)
    if prompt is None:
        return view.NOT_FOUND
    if prompt.state not in _REMOVABLE:
        return Refusal(Code.TOO_LATE)
    return (Touch(Entity.PROMPT, prompt.id, {"text": event.text}, state=prompt.state),)


def remove(snap: Snapshot, event: Remove, now_ms: int) -> tuple[Change, ...] | Refusal:
    """Withdraw a prompt that still waits; a wake goes with its continuation."""
    prompt = view.find(snap.prompts, event.prompt_id)
    if prompt is None:
        return view.NOT_FOUND
    if event.only_own is not None and prompt.author_id != event.only_own:
        return Refusal(Code.NOT_YOURS)
    if prompt.state is PromptState.TAKEN:
        return Refusal(Code.TOO_LATE)
    if prompt.state not in _REMOVABLE:
        return Refusal(Code.ENDED)
    if prompt.continuation_id is not None:
        continuation = view.find(snap.continuations, prompt.continuation_id)
        if continuation is not None and continuation.state is ContinuationState.CLAIMED:
            return tuple(
                view.end_continuation(
                    snap,
                    continuation,
                    ContinuationState.CANCELLED,
                    event.why,
                    now_ms,
                    by=event.by,
                )
            )
    return (view.withdraw(prompt, event.why),)


def choose(snap: Snapshot, event: Choose, now_ms: int) -> tuple[Change, ...] | Refusal:
    """Run or discard everything that catch-up offered in the conversation."""
    conversation = view.find(snap.conversations, event.conversation_id)
    if conversation is None:
        return view.NOT_FOUND
    offered = [p for p in snap.prompts if p.conversation_id == conversation.id and p.state is PromptState.OFFERED]
    if not offered:
        return Refusal(Code.ENDED)
    after, why = (PromptState.WAITING, "a person chose Run") if event.run else (PromptState.WITHDRAWN, "a person chose Discard")
    moves = [Move(Entity.PROMPT, p.id, PromptState.OFFERED, after, why) for p in offered]
    return (*moves, view.attend(conversation, now_ms))


def attend(snap: Snapshot, event: Attend, now_ms: int) -> tuple[Change, ...] | Refusal:
    """A person is here."""
    conversation = view.find(snap.conversations, event.conversation_id)
    if conversation is None:
        return view.NOT_FOUND
    return (view.attend(conversation, now_ms),)


def ask_to_continue(snap: Snapshot, event: AskToContinue, now_ms: int, rules: Rules) -> tuple[Change, ...] | Refusal:
    """Tell people once that wakes and events are held until somebody speaks or presses Continue."""
    conversation = view.find(snap.conversations, event.conversation_id)
    if conversation is None:
        return view.NOT_FOUND
    held = any(not p.kind.of_people for p in view.queued(snap, conversation.id))
    if conversation.unattended_asked or not held or not view.unattended(conversation, now_ms, rules):
        return Refusal(Code.NOTHING)
    return (
        Touch(Entity.CONVERSATION, conversation.id, {"unattended_asked": True}),
        *view.add_parts(conversation, (event.notice,), now_ms, None),
    )


def resume(snap: Snapshot, event: Resume, now_ms: int) -> tuple[Change, ...] | Refusal:
    """Queue one prompt that tells the session to go on with what a run that was cut off, or may not wait any more, began."""
    run = view.find(snap.runs, event.run_id)
    if run is None:
        return view.NOT_FOUND
    conversation = view.find(snap.conversations, run.conversation_id)
    if conversation is None:
        return view.NOT_FOUND
    source_key = f"resume:{run.id}"
    if any(p.source_key == source_key for p in snap.prompts):
        return Refusal(Code.DUPLICATE)
    # A wake or an event that ended well may have been refused a further wait: people decide whether it goes on.
    kept_waiting = run.state is RunState.SUCCEEDED and not run.kind.of_people
    if run.state not in {RunState.INTERRUPTED, RunState.FAILED} and not kept_waiting:
        return Refusal(Code.ENDED)
    ended: list[Change] = []
    if event.fresh:
        if view.active_run(snap, conversation.id) is not None:
            return Refusal(Code.TOO_EARLY)
        session = view.open_session(snap, conversation.id)
        if session is not None and session.id == run.session_id:
            ended = view.end_session(snap, session, "a person began afresh", now_ms, by=event.by)
    prompt = Prompt(
        id=view.NEW_PROMPT,
        conversation_id=conversation.id,
        kind=PromptKind.RESUME,
        state=PromptState.WAITING,
        ordered_ms=now_ms,
        created_ms=now_ms,
        author_id=event.author_id,
        author_name=event.author_name,
        text=event.text,
        source_key=source_key,
        addressed=True,
    )
    return (
        *ended,
        Insert(Entity.PROMPT, prompt, "a person pressed Resume"),
        view.attend(conversation, now_ms),
    )
