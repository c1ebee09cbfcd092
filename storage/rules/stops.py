"""/stop, /reset and a changed binding: everything of a conversation that they end, at once."""

from __future__ import annotations

from storage.events import (
    Change,
    Code,
    Entity,
    Move,
    Rebind,
    Refusal,
    Stop,
    Touch,
    Value,
)
from storage.models import ContinuationId, Part, Prompt, Snapshot
from storage.rules import view
from storage.states import (
    OPEN_PART,
    ContinuationState,
    PartState,
    PromptState,
    RunState,
    SessionState,
)


def stop(snap: Snapshot, event: Stop, now_ms: int) -> tuple[Change, ...] | Refusal:
    """End all that runs, waits or is pending. A dispatched run is only marked: it keeps its workspace until it is settled."""
    conversation = view.find(snap.conversations, event.conversation_id)
    if conversation is None:
        return view.NOT_FOUND
    run = view.active_run(snap, conversation.id)
    taken = [] if run is None else list(view.prompts_of(snap, run.id))
    queue = [p for p in snap.prompts if p.conversation_id == conversation.id and _ends(p, event)]
    parts = [p for p in snap.parts if p.conversation_id == conversation.id and p.kind.of_agent]
    continuations = view.live_continuations(snap, conversation.id)
    if event.only_own is not None:
        unsent = {p.run_id for p in parts}
        began = {c.began_by for c in continuations} | {p.author_id for p in (*queue, *taken)}
        began |= {r.began_by for r in snap.runs if r.id in unsent}
        if began - {event.only_own}:
            return Refusal(Code.NOT_YOURS)
    why = "reset" if event.reset else "stopped"
    changes: list[Change] = []
    cancelled = ContinuationState.CANCELLED
    for c in continuations:
        changes += view.end_continuation(snap, c, cancelled, why, now_ms, by=event.by)
    wakes = {c.id for c in continuations}
    if run is not None and run.state is RunState.DISPATCHED and not run.stop_requested:
        dispatched = RunState.DISPATCHED
        marked = {"stop_requested": True}
        changes.append(Move(Entity.RUN, run.id, dispatched, dispatched, why, sets=marked))
    elif run is not None and run.state is RunState.CLAIMED and not _woken(taken, wakes):
        changes += view.cancel_claimed(snap, run, why, now_ms)
    changes += [view.withdraw(p, why) for p in queue if not _woken([p], wakes)]
    changes += [c for part in parts for c in _silence(part, why)]
    session = view.open_session(snap, conversation.id) if event.reset else None
    if session is not None:
        opened, ended = SessionState.OPEN, SessionState.ENDED
        sets = {"ended_why": why}
        changes.append(Move(Entity.SESSION, session.id, opened, ended, why, sets=sets))
    mark = {"stop_id": max(conversation.stop_id, event.stop_id)}
    changes.append(Touch(Entity.CONVERSATION, conversation.id, mark))
    changes.append(view.attend(conversation, now_ms))
    return tuple(changes)


def _ends(prompt: Prompt, event: Stop) -> bool:
    """Whether the command ends a prompt that is not taken: not one that was written after it and stored before it."""
    newer = prompt.message_id is not None and prompt.message_id > event.stop_id
    return prompt.state in {PromptState.WAITING, PromptState.OFFERED} and not newer


def _woken(prompts: list[Prompt], continuations: set[ContinuationId]) -> bool:
    """Whether these are the wake of one of the continuations, which takes its prompt and its claimed run along."""
    return any(p.continuation_id in continuations for p in prompts)


def _silence(part: Part, why: str) -> list[Change]:
    """An agent's words that were never attempted are withdrawn; for one that may be in the channel, history decides."""
    if part.state is PartState.READY and part.attempt == 0:
        withdrawn = PartState.WITHDRAWN
        return [Move(Entity.PART, part.id, PartState.READY, withdrawn, why, part.attempt)]
    if part.state in OPEN_PART and not part.withdraw:
        return [Touch(Entity.PART, part.id, {"withdraw": True}, state=part.state)]
    return []


def rebind(snap: Snapshot, event: Rebind, now_ms: int) -> tuple[Change, ...] | Refusal:
    """Take over a changed config; a session belongs to one agent in one folder, so another one ends it."""
    conversation = view.find(snap.conversations, event.conversation_id)
    if conversation is None:
        return view.NOT_FOUND
    if view.active_run(snap, conversation.id) is not None:
        return Refusal(Code.TOO_EARLY)
    bound: dict[str, Value] = {
        "project": event.project,
        "agent": event.agent,
        "folder": event.folder,
        "shared": event.shared,
    }
    changes: list[Change] = []
    session = view.open_session(snap, conversation.id)
    if session is not None and (session.agent, session.folder) != (event.agent, event.folder):
        why = "the channel is bound to another agent or folder"
        changes += view.end_session(snap, session, why, now_ms, by=event.by)
    if (conversation.project, conversation.agent, conversation.folder, conversation.shared) != (
        event.project,
        event.agent,
        event.folder,
        event.shared,
    ):
        changes.append(Touch(Entity.CONVERSATION, conversation.id, bound))
    return tuple(changes)
