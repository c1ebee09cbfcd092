"""The wait: asked for, cancelled, woken now, due, expired."""

from __future__ import annotations

from storage.events import (
    Cancel,
    Change,
    Code,
    Due,
    Entity,
    Insert,
    Move,
    Refusal,
    Wait,
    WakeNow,
)
from storage.models import Continuation, Prompt, PromptKind, Rules, Snapshot
from storage.rules import turns, view
from storage.states import (
    LIVE_CONTINUATION,
    ContinuationState,
    PromptState,
    RunState,
    SessionState,
)


def wait(snap: Snapshot, event: Wait, now_ms: int, rules: Rules) -> tuple[Change, ...] | Refusal:
    """Store the agent's request; it is armed only when its run has succeeded. A later one in the same run takes its place."""
    run = turns.owned(snap, event.run_id, event.fence, event.by)
    if isinstance(run, Refusal):
        return run
    if run.stop_requested:
        return Refusal(Code.STOPPED)
    conversation = view.find(snap.conversations, run.conversation_id)
    if conversation is None:
        return view.NOT_FOUND
    if not run.kind.of_people and view.unattended(conversation, now_ms, rules):
        # A person's own turn may always ask: its wake is checked again when it is claimed.
        return Refusal(Code.UNATTENDED)
    changes: list[Change] = [
        view.move_continuation(c, ContinuationState.DROPPED, "a later wait of the same turn", by="agent", told=True)
        for c in snap.continuations
        if c.origin_run_id == run.id and c.state is ContinuationState.REQUESTED
    ]
    request = Continuation(
        id=view.NEW_CONTINUATION,
        conversation_id=run.conversation_id,
        session_id=run.session_id,
        origin_run_id=run.id,
        state=ContinuationState.REQUESTED,
        reason=event.reason,
        asked_ms=now_ms,
        due_at_ms=event.due_at_ms,
        expires_at_ms=event.expires_at_ms,
        began_by=run.began_by,
    )
    changes.append(Insert(Entity.CONTINUATION, request, "wait was called"))
    return tuple(changes)


def cancel(snap: Snapshot, event: Cancel, now_ms: int) -> tuple[Change, ...] | Refusal:
    """Cancel what has not been handed over; after that only /stop helps."""
    continuation = view.find(snap.continuations, event.continuation_id)
    if continuation is None:
        return view.NOT_FOUND
    if event.run_id is not None:
        run = view.find(snap.runs, event.run_id)
        if run is None or run.state is not RunState.DISPATCHED or run.fence != event.fence:
            return Refusal(Code.STALE_FENCE)
    if event.only_own is not None and continuation.began_by != event.only_own:
        return Refusal(Code.NOT_YOURS)
    if continuation.state is ContinuationState.DISPATCHED:
        return Refusal(Code.TOO_LATE)
    if continuation.state not in LIVE_CONTINUATION:
        return Refusal(Code.ENDED)
    return tuple(
        view.end_continuation(
            snap,
            continuation,
            ContinuationState.CANCELLED,
            event.why,
            now_ms,
            by=event.by,
            told=event.by_agent,
        )
    )


def wake_now(snap: Snapshot, event: WakeNow, now_ms: int) -> tuple[Change, ...] | Refusal:
    """Make a pending continuation due; the alarm does the rest. The person is here, so the unattended budget begins anew."""
    continuation = view.find(snap.continuations, event.continuation_id)
    if continuation is None:
        return view.NOT_FOUND
    if event.only_own is not None and continuation.began_by != event.only_own:
        return Refusal(Code.NOT_YOURS)
    match continuation.state:
        case ContinuationState.PENDING:
            pass
        case ContinuationState.REQUESTED:
            return Refusal(Code.TOO_EARLY)
        case ContinuationState.CLAIMED | ContinuationState.DISPATCHED:
            return Refusal(Code.TOO_LATE)
        case _:
            return Refusal(Code.ENDED)
    conversation = view.find(snap.conversations, continuation.conversation_id)
    if conversation is None:
        return view.NOT_FOUND
    pending = ContinuationState.PENDING
    due = {"due_at_ms": min(now_ms, continuation.due_at_ms)}
    return (
        Move(Entity.CONTINUATION, continuation.id, pending, pending, "woken now", sets=due),
        view.attend(conversation, now_ms),
    )


def due(snap: Snapshot, event: Due, now_ms: int) -> tuple[Change, ...] | Refusal:
    """Claim a due continuation and queue its prompt, in one transaction; or expire it, or find its session gone."""
    continuation = view.find(snap.continuations, event.continuation_id)
    if continuation is None:
        return view.NOT_FOUND
    if continuation.state is not ContinuationState.PENDING:
        return Refusal(Code.ENDED)
    if now_ms < continuation.due_at_ms:
        return Refusal(Code.TOO_EARLY)
    conversation = view.find(snap.conversations, continuation.conversation_id)
    session = view.find(snap.sessions, continuation.session_id)
    if conversation is None:
        return view.NOT_FOUND
    if session is None or session.state is not SessionState.OPEN:
        fenced = ContinuationState.FENCED
        return (view.move_continuation(continuation, fenced, "its session has ended", by=event.by),)
    if now_ms >= continuation.expires_at_ms:
        why = "nothing could wake it before its expiry"
        expired = view.move_continuation(continuation, ContinuationState.EXPIRED, why, by=event.by)
        notices = () if event.notice is None else (event.notice,)
        return (expired, *view.add_parts(conversation, notices, now_ms, None))
    prompt = Prompt(
        id=view.NEW_PROMPT,
        conversation_id=conversation.id,
        kind=PromptKind.WAKE,
        state=PromptState.WAITING,
        ordered_ms=now_ms,
        created_ms=now_ms,
        author_id=continuation.began_by,
        author_name="",
        text=continuation.reason,
        source_key=f"continuation:{continuation.id}",
        addressed=False,
        session_id=continuation.session_id,
        continuation_id=continuation.id,
    )
    return (
        Move(
            Entity.CONTINUATION,
            continuation.id,
            ContinuationState.PENDING,
            ContinuationState.CLAIMED,
            "due",
        ),
        Insert(Entity.PROMPT, prompt, "its continuation is due"),
    )
