"""What happens to a run after the agent was called: heartbeat, takeover, words, settlement."""

from __future__ import annotations

from storage.events import (
    Change,
    Code,
    Entity,
    Evidence,
    GiveUp,
    Move,
    NativeIdChanged,
    Proof,
    Refusal,
    Renew,
    Say,
    Settle,
    Skip,
    TakeOver,
    Touch,
    Value,
)
from storage.models import PartKind, PromptKind, Run, Snapshot
from storage.rules import parking, view
from storage.states import (
    ACTIVE_RUN,
    ContinuationState,
    PartState,
    PromptState,
    RunState,
    SessionState,
)


def owned(snap: Snapshot, run_id: int, fence: int, by: str) -> Run | Refusal:
    """The dispatched run, if this process still owns it."""
    run = view.find(snap.runs, run_id)
    if run is None:
        return view.NOT_FOUND
    if run.state is not RunState.DISPATCHED or run.fence != fence or run.holder != by:
        return Refusal(Code.STALE_FENCE)
    return run


def renew(snap: Snapshot, event: Renew) -> tuple[Change, ...] | Refusal:
    """Lengthen the owner's lease."""
    run = view.find(snap.runs, event.run_id)
    if run is None:
        return view.NOT_FOUND
    if run.state not in ACTIVE_RUN or run.fence != event.fence or run.holder != event.by:
        return Refusal(Code.STALE_FENCE)
    later = {"lease_until_ms": event.lease_until_ms}
    return (Touch(Entity.RUN, run.id, later, state=run.state, fence=event.fence),)


def take_over(snap: Snapshot, event: TakeOver, now_ms: int) -> tuple[Change, ...] | Refusal:
    """Raise the fence: from here on the former owner changes nothing. Proving its agent dead comes after."""
    run = view.find(snap.runs, event.run_id)
    if run is None:
        return view.NOT_FOUND
    if run.state is not RunState.DISPATCHED:
        return Refusal(Code.STALE_FENCE)
    if run.host != event.host:
        return Refusal(Code.OTHER_HOST)
    if run.lease_until_ms > now_ms and not event.holder_gone:
        return Refusal(Code.LEASE_HELD)
    taken: dict[str, Value] = {
        "fence": run.fence + 1,
        "holder": event.by,
        "lease_until_ms": event.lease_until_ms,
    }
    return (
        Move(
            Entity.RUN,
            run.id,
            RunState.DISPATCHED,
            RunState.DISPATCHED,
            "taken over",
            fence=run.fence,
            sets=taken,
        ),
    )


def give_up(snap: Snapshot, event: GiveUp, now_ms: int) -> tuple[Change, ...] | Refusal:
    """An admin says that the host of a dispatched run is lost; nothing can be proven any more."""
    run = view.find(snap.runs, event.run_id)
    if run is None:
        return view.NOT_FOUND
    conversation = view.find(snap.conversations, run.conversation_id)
    if conversation is None:
        return view.NOT_FOUND
    if run.state is not RunState.DISPATCHED:
        return Refusal(Code.ENDED)
    after = RunState.CANCELLED if run.stop_requested else RunState.INTERRUPTED
    ended: dict[str, Value] = {
        "fence": run.fence + 1,
        "ended_ms": now_ms,
        "ended_why": event.why,
    }
    changes: list[Change] = [Move(Entity.RUN, run.id, RunState.DISPATCHED, after, event.why, run.fence, ended)]
    changes += _settle_prompts(snap, run, event.why)
    changes += _end_request(snap, run, after, event.why, now_ms, event.by)
    if event.notice is not None and not run.stop_requested:
        changes += view.add_parts(conversation, (event.notice,), now_ms, run.id)
    return tuple(changes)


def native_id_changed(snap: Snapshot, event: NativeIdChanged) -> tuple[Change, ...] | Refusal:
    """Store the agent's new session id as soon as it is seen, so that a crash resumes the newest."""
    run = owned(snap, event.run_id, event.fence, event.by)
    if isinstance(run, Refusal):
        return run
    return (Touch(Entity.SESSION, run.session_id, {"native_id": event.native_id}),)


def say(snap: Snapshot, event: Say, now_ms: int) -> tuple[Change, ...] | Refusal:
    """Queue what the agent says during its turn."""
    run = owned(snap, event.run_id, event.fence, event.by)
    if isinstance(run, Refusal):
        return run
    if run.stop_requested:
        return Refusal(Code.STOPPED)
    conversation = view.find(snap.conversations, run.conversation_id)
    if conversation is None:
        return view.NOT_FOUND
    # Narration that was on its way to the database when `skip_reply` was stored came too late.
    said = event.parts if run.skipped_why is None else tuple(p for p in event.parts if p.kind is not PartKind.NARRATION)
    return tuple(view.add_parts(conversation, said, now_ms, run.id))


def skip(snap: Snapshot, event: Skip) -> tuple[Change, ...] | Refusal:
    """Keep private what is not yet out. Stored at once: a crash after it must not publish the answer."""
    run = owned(snap, event.run_id, event.fence, event.by)
    if isinstance(run, Refusal):
        return run
    changes: list[Change] = [
        Touch(
            Entity.RUN,
            run.id,
            {"skipped_why": event.why},
            state=RunState.DISPATCHED,
            fence=event.fence,
        )
    ]
    changes += [
        Move(Entity.PART, p.id, PartState.READY, PartState.WITHDRAWN, "kept private", p.attempt)
        for p in snap.parts
        if p.run_id == run.id and p.state is PartState.READY and p.attempt == 0 and p.kind is PartKind.NARRATION
    ]
    return tuple(changes)


def settle(snap: Snapshot, event: Settle, now_ms: int) -> tuple[Change, ...] | Refusal:
    """End a dispatched run with all that follows from its end, at once."""
    run = owned(snap, event.run_id, event.fence, event.by)
    if isinstance(run, Refusal):
        return run
    if not _proven(run, event):
        return Refusal(Code.NOT_PROVEN)
    conversation = view.find(snap.conversations, run.conversation_id)
    if conversation is None:
        return view.NOT_FOUND
    after = _outcome(run, event)
    ended: dict[str, Value] = {"ended_ms": now_ms, "ended_why": event.why}
    if event.record is not None:
        ended["record"] = event.record
    changes: list[Change] = [Move(Entity.RUN, run.id, RunState.DISPATCHED, after, event.why, event.fence, ended)]
    changes += _settle_prompts(snap, run, event.why)
    changes += _end_request(snap, run, after, event.why, now_ms, event.by)
    if event.native_id is not None:
        changes.append(Touch(Entity.SESSION, run.session_id, {"native_id": event.native_id}))
    words = () if run.stop_requested or run.skipped_why is not None else event.parts
    changes += view.add_parts(conversation, (*words, *event.notices), now_ms, run.id)
    if _answered(run, after, event):
        changes.append(view.attend(conversation, now_ms))
    if event.park_until_ms is not None:
        changes += parking.park(snap, conversation, event.park_until_ms)
    if event.again is not None and not run.stop_requested:
        changes += parking.again(snap, run, event.again, now_ms)
    return tuple(changes)


def _proven(run: Run, event: Settle) -> bool:
    """A turn that its own caller saw end must be swept; whoever else settles, or reads the transcript, needs the agent's death."""
    if event.evidence is Evidence.STREAM and run.fence == 1:
        return event.proof is not Proof.NONE
    return event.proof is Proof.DEAD


def _outcome(run: Run, event: Settle) -> RunState:
    """Stopped means cancelled; whoever took the run over knows only what the transcript shows."""
    if run.stop_requested:
        return RunState.CANCELLED
    seen_by_owner = event.evidence is Evidence.STREAM and run.fence == 1
    if seen_by_owner:
        return event.outcome
    if event.evidence is Evidence.TRANSCRIPT and event.outcome is RunState.SUCCEEDED:
        return RunState.SUCCEEDED
    return RunState.INTERRUPTED


def _answered(run: Run, after: RunState, event: Settle) -> bool:
    """A person's message that the agent answered counts as addressed, even where nobody mentioned the bot."""
    spoke = any(p.kind in {PartKind.ANSWER, PartKind.SENT} for p in event.parts)
    return run.kind is PromptKind.USER and after is RunState.SUCCEEDED and run.skipped_why is None and spoke


def _settle_prompts(snap: Snapshot, run: Run, why: str) -> list[Change]:
    return [Move(Entity.PROMPT, p.id, PromptState.TAKEN, PromptState.SETTLED, why) for p in view.prompts_of(snap, run.id)]


def _end_request(snap: Snapshot, run: Run, after: RunState, why: str, now_ms: int, by: str) -> list[Change]:
    """Arm the continuation that the run asked for, if the run succeeded in a session that still is the open one."""
    request = next(
        (c for c in snap.continuations if c.origin_run_id == run.id and c.state is ContinuationState.REQUESTED),
        None,
    )
    if request is None:
        return []
    if after is not RunState.SUCCEEDED:
        why = f"its run ended {after.value}: {why}"
        return [view.move_continuation(request, ContinuationState.DROPPED, why, by=by)]
    session = view.find(snap.sessions, request.session_id)
    if session is None or session.state is not SessionState.OPEN:
        fenced = ContinuationState.FENCED
        return [view.move_continuation(request, fenced, "its session has ended", by=by)]
    changes: list[Change] = []
    for other in view.live_continuations(snap, run.conversation_id):
        if other.state in {ContinuationState.PENDING, ContinuationState.CLAIMED}:
            replaced = ContinuationState.REPLACED
            why = f"replaced by c{request.id}"
            changes += view.end_continuation(snap, other, replaced, why, now_ms, by=by, told=True)
    changes.append(
        Move(
            Entity.CONTINUATION,
            request.id,
            ContinuationState.REQUESTED,
            ContinuationState.PENDING,
            "its run succeeded",
        )
    )
    return changes
