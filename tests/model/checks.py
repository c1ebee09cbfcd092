"""What has to hold for a step, written without the rules that are checked by it."""

from __future__ import annotations

from collections.abc import Iterator

from storage import events as e
from storage.events import Change, Event, Insert, Move
from storage.models import Conversation, Part, Prompt, Rules, Snapshot
from storage.states import (
    ACTIVE_RUN,
    LIVE_CONTINUATION,
)
from storage.states import (
    ContinuationState as C,
)
from storage.states import (
    PromptState as P,
)
from storage.states import (
    RunState as R,
)
from storage.states import (
    SessionState as S,
)


def wrong(before: Snapshot, event: Event, changes: tuple[Change, ...], after: Snapshot, now_ms: int, rules: Rules) -> Iterator[str]:
    """One sentence for each promise that the step breaks."""
    yield from _replacement(changes, after)
    match event:
        case e.Claim():
            yield from _claim(before, after, now_ms, rules)
        case e.Dispatch():
            yield from _dispatch(before, event, after)
        case e.Due():
            yield from _due(before, event, after, now_ms)
        case e.Settle():
            yield from _settle(before, event, changes, after)
        case e.Stop():
            yield from stopped(after, event.conversation_id, event.stop_id)
        case _:
            pass


def _replacement(changes: tuple[Change, ...], after: Snapshot) -> Iterator[str]:
    replaced = [c for c in changes if isinstance(c, Move) and c.after is C.REPLACED]
    armed = any(isinstance(c, Move) and c.before is C.REQUESTED and c.after is C.PENDING for c in changes)
    for c in replaced:
        if not armed:
            yield f"P4: c{c.id} was replaced, but no successor was armed with it"


def _ready(snap: Snapshot, conversation: Conversation, now_ms: int) -> list[Prompt]:
    """Prompts of a conversation that nothing but the queue holds back."""
    if conversation.not_before_ms > now_ms:
        return []
    for r in snap.runs:
        busy = r.conversation_id == conversation.id or (r.workspace is not None and r.workspace == conversation.workspace)
        if r.state in ACTIVE_RUN and busy:
            return []
    return [p for p in snap.prompts if p.conversation_id == conversation.id and p.state is P.WAITING]


def _claim(before: Snapshot, after: Snapshot, now_ms: int, rules: Rules) -> Iterator[str]:
    known = {r.id for r in before.runs}
    run = next(r for r in after.runs if r.id not in known)
    taken = [p for p in after.prompts if p.run_id == run.id and p.state is P.TAKEN]
    if not taken:
        yield f"run {run.id} was claimed without a prompt"
        return
    conversations = {c.id: c for c in before.conversations}
    mine = conversations[run.conversation_id]
    best = min((not p.kind.of_people, p.ordered_ms, p.id) for p in taken)
    rivals = [c for c in conversations.values() if c.id == mine.id or (c.workspace is not None and c.workspace == mine.workspace)]
    chosen = {p.id for p in taken}
    for p in (p for c in rivals for p in _ready(before, c, now_ms)):
        if (
            p.id not in chosen
            and (not p.kind.of_people, p.ordered_ms, p.id) < best
            and (p.kind.of_people or not held(before, p, now_ms, rules))
        ):
            yield f"P2: run {run.id} ({run.kind}) went before prompt {p.id} ({p.kind})"
    if not run.kind.of_people:
        if len(taken) > 1:
            yield f"run {run.id} ({run.kind}) took {len(taken)} prompts"
        if held(before, taken[0], now_ms, rules):
            yield f"run {run.id} went past the unattended bound"
    if len({p.author_id for p in taken}) > 1:
        yield f"run {run.id} took prompts of several people"


def held(snap: Snapshot, prompt: Prompt, now_ms: int, rules: Rules) -> bool:
    """Whether the unattended bound holds a wake or an event."""
    c = next(c for c in snap.conversations if c.id == prompt.conversation_id)
    return c.unattended_runs >= rules.unattended_runs or now_ms - c.attended_at_ms >= rules.unattended_ms


def _dispatch(before: Snapshot, event: e.Dispatch, after: Snapshot) -> Iterator[str]:
    run = next(r for r in after.runs if r.id == event.run_id)
    sessions = {s.id: s for s in before.sessions}
    session = sessions.get(run.session_id)
    if session is None or session.state is not S.OPEN:
        yield f"run {run.id} was dispatched into a session that has ended"
    continuations = {c.id: c for c in before.continuations}
    for p in before.prompts:
        if p.run_id != run.id or p.state is not P.TAKEN or p.continuation_id is None:
            continue
        c = continuations[p.continuation_id]
        if c.session_id != run.session_id:
            yield f"P4: c{c.id} was asked for in session {c.session_id}, but woke session {run.session_id}"
        if c.state is not C.CLAIMED:
            yield f"P4: c{c.id} is {c.state}, but its wake was handed over"


def _due(before: Snapshot, event: e.Due, after: Snapshot, now_ms: int) -> Iterator[str]:
    old = next(c for c in before.continuations if c.id == event.continuation_id)
    new = next(c for c in after.continuations if c.id == event.continuation_id)
    if new.state is not C.CLAIMED:
        return
    if now_ms < old.due_at_ms:
        yield f"P4: c{old.id} fired before it was due"
    if now_ms >= old.expires_at_ms:
        yield f"P4: c{old.id} fired after it had expired"
    if len(after.prompts) != len(before.prompts) + 1:
        yield f"P4: c{old.id} was claimed without its prompt"


def _settle(before: Snapshot, event: e.Settle, changes: tuple[Change, ...], after: Snapshot) -> Iterator[str]:
    old = next(r for r in before.runs if r.id == event.run_id)
    new = next(r for r in after.runs if r.id == event.run_id)
    said = {part.nonce for part in event.parts}
    words = any(isinstance(c, Insert) and isinstance(c.row, Part) and c.row.nonce in said for c in changes)
    if old.stop_requested:
        if new.state is not R.CANCELLED:
            yield f"run {old.id} was stopped, but ended {new.state}"
        if words:
            yield f"run {old.id} was stopped, but its answer is sent"
    elif new.state is R.SUCCEEDED and event.parts and old.skipped_why is None and not words:
        yield f"P6: run {old.id} succeeded, and its answer is lost"
    if old.fence > 1 and new.state is R.SUCCEEDED and event.evidence is not e.Evidence.TRANSCRIPT:
        yield f"P3: run {old.id} was taken over and succeeded without a transcript that shows it"
    if new.state in ACTIVE_RUN:
        yield f"run {old.id} was settled and is {new.state}"


def stopped(after: Snapshot, conversation_id: int, stop_id: int) -> Iterator[str]:
    """What /stop promises of the state after it."""
    for p in after.prompts:
        newer = p.message_id is not None and p.message_id > stop_id
        if p.conversation_id == conversation_id and p.state in {P.WAITING, P.OFFERED} and not newer:
            yield f"stop: prompt {p.id} is still {p.state}"
    for c in after.continuations:
        if c.conversation_id == conversation_id and c.state in LIVE_CONTINUATION:
            yield f"stop: c{c.id} is still {c.state}"
    for r in after.runs:
        if r.conversation_id == conversation_id and (r.state is R.CLAIMED or (r.state is R.DISPATCHED and not r.stop_requested)):
            yield f"stop: run {r.id} is still {r.state}"
