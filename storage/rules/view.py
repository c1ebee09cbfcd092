"""Looking things up in a snapshot, and the pieces that several rules share."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeVar

from storage.events import (
    Change,
    Code,
    Entity,
    Insert,
    Move,
    NewPart,
    Refusal,
    Touch,
    Value,
)
from storage.models import (
    Continuation,
    ContinuationId,
    Conversation,
    ConversationId,
    Part,
    PartId,
    Prompt,
    PromptId,
    PromptKind,
    Rules,
    Run,
    RunId,
    Session,
    SessionId,
    Snapshot,
)
from storage.states import (
    ACTIVE_RUN,
    LIVE_CONTINUATION,
    ContinuationState,
    PartState,
    PromptState,
    RunState,
    SessionState,
)

#: Placeholders for rows made in a decision; the store puts real ids in their place.
NEW_SESSION = SessionId(-1)
NEW_RUN = RunId(-2)
NEW_PROMPT = PromptId(-3)
NEW_CONTINUATION = ContinuationId(-4)
_FIRST_NEW_PART = -10

NOT_FOUND = Refusal(Code.NOT_FOUND)

_Row = TypeVar("_Row", Conversation, Session, Prompt, Run, Continuation, Part)


def find(rows: tuple[_Row, ...], row_id: int) -> _Row | None:
    """The row with this id, or None."""
    return next((row for row in rows if row.id == row_id), None)


def prompts_of(snap: Snapshot, run_id: RunId) -> Iterator[Prompt]:
    """The prompts that an active run has taken."""
    return (p for p in snap.prompts if p.run_id == run_id and p.state is PromptState.TAKEN)


def queued(snap: Snapshot, conversation_id: ConversationId) -> list[Prompt]:
    """Waiting prompts of a conversation, first come first."""
    waiting = (p for p in snap.prompts if p.conversation_id == conversation_id and p.state is PromptState.WAITING)
    return sorted(waiting, key=lambda p: (p.ordered_ms, p.id))


def active_run(snap: Snapshot, conversation_id: ConversationId) -> Run | None:
    """The run that holds the conversation."""
    return next(
        (r for r in snap.runs if r.conversation_id == conversation_id and r.state in ACTIVE_RUN),
        None,
    )


def open_session(snap: Snapshot, conversation_id: ConversationId) -> Session | None:
    """The conversation's open session row."""
    return next(
        (s for s in snap.sessions if s.conversation_id == conversation_id and s.state is SessionState.OPEN),
        None,
    )


def live_continuations(snap: Snapshot, conversation_id: ConversationId) -> list[Continuation]:
    """Requested, pending and claimed continuations of a conversation."""
    return [c for c in snap.continuations if c.conversation_id == conversation_id and c.state in LIVE_CONTINUATION]


def full(snap: Snapshot, conversation_id: ConversationId, rules: Rules) -> bool:
    """Whether so many of people's prompts wait that no further one is taken."""
    return sum(p.kind.of_people for p in queued(snap, conversation_id)) >= rules.queue_limit


def unattended(conversation: Conversation, now_ms: int, rules: Rules) -> bool:
    """Whether the unattended bound is met: too many runs in a row, or too long, without a person."""
    return conversation.unattended_runs >= rules.unattended_runs or now_ms - conversation.attended_at_ms >= rules.unattended_ms


def attend(conversation: Conversation, now_ms: int) -> Touch:
    """A person is here: the unattended budget begins anew."""
    return Touch(
        Entity.CONVERSATION,
        conversation.id,
        {"unattended_runs": 0, "attended_at_ms": now_ms, "unattended_asked": False},
    )


def add_parts(conversation: Conversation, parts: tuple[NewPart, ...], now_ms: int, run_id: RunId | None) -> list[Change]:
    """Queue messages at the end of the conversation's channel."""
    if not parts:
        return []
    changes: list[Change] = [
        Insert(
            Entity.PART,
            Part(
                id=PartId(_FIRST_NEW_PART - index),
                conversation_id=conversation.id,
                channel_id=conversation.channel_id,
                seq=conversation.next_seq + index,
                kind=new.kind,
                state=PartState.READY,
                text=new.text,
                nonce=new.nonce,
                queued_ms=now_ms,
                run_id=run_id,
                reply_to_id=new.reply_to_id,
                components=new.components,
            ),
            "queued",
        )
        for index, new in enumerate(parts)
    ]
    end = {"next_seq": conversation.next_seq + len(parts)}
    changes.append(Touch(Entity.CONVERSATION, conversation.id, end))
    return changes


def end_continuation(
    snap: Snapshot,
    continuation: Continuation,
    after: ContinuationState,
    why: str,
    now_ms: int,
    *,
    by: str,
    told: bool = False,
) -> list[Change]:
    """End a live continuation with what belongs to it: a claimed one's prompt is withdrawn and its claimed run cancelled."""
    changes: list[Change] = [move_continuation(continuation, after, why, by=by, told=told)]
    if continuation.state is not ContinuationState.CLAIMED:
        return changes
    for prompt in snap.prompts:
        if prompt.continuation_id != continuation.id:
            continue
        if prompt.state is PromptState.WAITING:
            changes.append(withdraw(prompt, why))
        elif prompt.state is PromptState.TAKEN and prompt.run_id is not None:
            run = find(snap.runs, prompt.run_id)
            if run is not None and run.state is RunState.CLAIMED:
                changes += cancel_claimed(snap, run, why, now_ms)
    return changes


def move_continuation(continuation: Continuation, after: ContinuationState, why: str, *, by: str, told: bool = False) -> Move:
    """End one continuation, alone."""
    sets: dict[str, Value] = {"ended_by": by, "ended_why": why, "told": told}
    return Move(Entity.CONTINUATION, continuation.id, continuation.state, after, why, sets=sets)


def cancel_claimed(snap: Snapshot, run: Run, why: str, now_ms: int) -> list[Change]:
    """Cancel a run whose agent was not called, and withdraw what it took. Its owner finds its fence refused."""
    ended: dict[str, Value] = {"ended_why": why, "ended_ms": now_ms}
    return [
        Move(Entity.RUN, run.id, RunState.CLAIMED, RunState.CANCELLED, why, sets=ended),
        *(withdraw(prompt, why) for prompt in prompts_of(snap, run.id)),
    ]


def withdraw(prompt: Prompt, why: str) -> Move:
    """A prompt will never run."""
    return Move(Entity.PROMPT, prompt.id, prompt.state, PromptState.WITHDRAWN, why)


def end_session(snap: Snapshot, session: Session, why: str, now_ms: int, *, by: str) -> list[Change]:
    """End a session row with all that may only run in it: its continuations are fenced, its wakes and events withdrawn.

    A `requested` continuation is left to the settlement of its run, which finds the session ended.
    """
    changes: list[Change] = [
        Move(
            Entity.SESSION,
            session.id,
            SessionState.OPEN,
            SessionState.ENDED,
            why,
            sets={"ended_why": why},
        )
    ]
    for continuation in snap.continuations:
        armed = continuation.state in {ContinuationState.PENDING, ContinuationState.CLAIMED}
        if armed and continuation.session_id == session.id:
            fenced = ContinuationState.FENCED
            changes += end_continuation(snap, continuation, fenced, why, now_ms, by=by)
    changes += [
        withdraw(prompt, why)
        for prompt in snap.prompts
        if prompt.kind is PromptKind.EVENT and prompt.session_id == session.id and prompt.state is PromptState.WAITING
    ]
    return changes


def new_session(conversation: Conversation, native_id: str, standing: str) -> Insert:
    """Begin a session row for the conversation's agent and folder as they are bound now."""
    return Insert(
        Entity.SESSION,
        Session(
            id=NEW_SESSION,
            conversation_id=conversation.id,
            state=SessionState.OPEN,
            agent=conversation.agent,
            folder=conversation.folder,
            native_id=native_id,
            standing=standing,
        ),
        "begun",
    )
