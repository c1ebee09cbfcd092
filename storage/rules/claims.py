"""Who runs next, and what happens to a run before the agent is called."""

from __future__ import annotations

from storage.events import (
    Change,
    Claim,
    Code,
    Dispatch,
    Entity,
    Insert,
    LeaseEnded,
    Move,
    NewPart,
    Refusal,
    Release,
    SessionLost,
    Touch,
    Value,
)
from storage.models import (
    Conversation,
    Prompt,
    PromptKind,
    Rules,
    Run,
    Snapshot,
)
from storage.rules import view
from storage.states import (
    ACTIVE_RUN,
    ContinuationState,
    PromptState,
    RunState,
    SessionState,
)


def claim(snap: Snapshot, event: Claim, now_ms: int, rules: Rules) -> tuple[Change, ...] | Refusal:
    """Take the next prompts: people before wakes and events across the snapshot's workspace, first come within a class.

    The snapshot holds the conversations of one workspace, or one conversation of a shared folder.
    """
    busy = {r.workspace for r in snap.runs if r.state in ACTIVE_RUN and r.workspace is not None}
    candidates: list[tuple[tuple[bool, int, int], Conversation, list[Prompt]]] = []
    held = False
    for conversation in snap.conversations:
        if view.active_run(snap, conversation.id) is not None or conversation.workspace in busy:
            continue
        if conversation.not_before_ms > now_ms:
            continue
        batch = _next_batch(snap, conversation, now_ms, rules)
        if batch is None:
            held = True
        elif batch:
            first = batch[0]
            rank = (not first.kind.of_people, first.ordered_ms, first.id)
            candidates.append((rank, conversation, batch))
    if not candidates:
        return Refusal(Code.HELD if held else Code.NOTHING)
    _, conversation, batch = min(candidates, key=lambda c: c[0])
    if _goes_on(batch, view.queued(snap, conversation.id), now_ms, rules):
        # Its place is kept: nobody who came later goes before it.
        return Refusal(Code.NOTHING)
    return _take(snap, conversation, batch, event, now_ms)


def _next_batch(snap: Snapshot, conversation: Conversation, now_ms: int, rules: Rules) -> list[Prompt] | None:
    """The prompts that the conversation's next run would take; empty if none is ready, None if the bound holds them."""
    queue = view.queued(snap, conversation.id)
    people = [p for p in queue if p.kind.of_people]
    if people:
        return _batch(people, rules)
    if not queue:
        return []
    if view.unattended(conversation, now_ms, rules):
        return None
    return queue[:1]


def _batch(people: list[Prompt], rules: Rules) -> list[Prompt]:
    """One author's messages in a row are one turn."""
    first = people[0]
    if first.kind is not PromptKind.USER:
        return [first]
    batch, characters = [first], len(first.text)
    for prompt in people[1:]:
        full = len(batch) >= rules.batch_prompts or characters + len(prompt.text) > rules.batch_characters
        if prompt.kind is not PromptKind.USER or prompt.author_id != first.author_id or full:
            return batch
        batch.append(prompt)
        characters += len(prompt.text)
    return batch


def _goes_on(batch: list[Prompt], queue: list[Prompt], now_ms: int, rules: Rules) -> bool:
    """Whether the last message looks cut off and nothing came after it yet. A clock that went backwards does not prolong the wait."""
    last = batch[-1]
    piece = last.kind is PromptKind.USER and len(last.text) >= rules.piece_characters and last.tries == 0
    alone = len(batch) < rules.batch_prompts and not any(p.kind.of_people and p not in batch for p in queue)
    return piece and alone and 0 <= now_ms - last.created_ms < rules.piece_wait_ms


def _take(snap: Snapshot, conversation: Conversation, batch: list[Prompt], event: Claim, now_ms: int) -> tuple[Change, ...]:
    changes: list[Change] = []
    session = view.open_session(snap, conversation.id)
    if session is None:
        changes.append(view.new_session(conversation, event.native_id, event.standing))
    else:
        # Compared and set: a reset or another binding that was committed since the snapshot was read voids the claim.
        changes.append(Touch(Entity.SESSION, session.id, {"ended_why": None}, state=SessionState.OPEN))
    run = Run(
        id=view.NEW_RUN,
        conversation_id=conversation.id,
        session_id=view.NEW_SESSION if session is None else session.id,
        workspace=conversation.workspace,
        state=RunState.CLAIMED,
        fence=1,
        holder=event.by,
        host=event.host,
        lease_until_ms=event.lease_until_ms,
        kind=batch[0].kind,
        began_by=batch[0].author_id,
        addressed=any(p.addressed for p in batch),
        claimed_ms=now_ms,
    )
    changes.append(Insert(Entity.RUN, run, "claimed"))
    changes += [
        Move(
            Entity.PROMPT,
            p.id,
            PromptState.WAITING,
            PromptState.TAKEN,
            "claimed",
            sets={"run_id": view.NEW_RUN},
        )
        for p in batch
    ]
    return tuple(changes)


def dispatch(snap: Snapshot, event: Dispatch, now_ms: int) -> tuple[Change, ...] | Refusal:
    """Commit the intent to call the agent, with all that says whether it still may be called."""
    run = view.find(snap.runs, event.run_id)
    if run is None:
        return view.NOT_FOUND
    if run.state is not RunState.CLAIMED or run.fence != event.fence or run.holder != event.by:
        return Refusal(Code.STALE_FENCE)
    session = view.find(snap.sessions, run.session_id)
    conversation = view.find(snap.conversations, run.conversation_id)
    if session is None or conversation is None or session.state is not SessionState.OPEN:
        return Refusal(Code.STALE_SESSION)
    changes: list[Change] = [
        Move(
            Entity.RUN,
            run.id,
            RunState.CLAIMED,
            RunState.DISPATCHED,
            "intent committed",
            fence=event.fence,
            sets={
                "prompt_uuid": event.prompt_uuid,
                "process": event.process,
                "dispatched_ms": now_ms,
            },
        ),
        Touch(Entity.SESSION, session.id, {"turns": session.turns + 1}, state=SessionState.OPEN),
    ]
    for prompt in view.prompts_of(snap, run.id):
        if prompt.continuation_id is None:
            continue
        continuation = view.find(snap.continuations, prompt.continuation_id)
        if continuation is None or continuation.state is not ContinuationState.CLAIMED or continuation.session_id != run.session_id:
            return Refusal(Code.STALE_SESSION)
        changes.append(
            Move(
                Entity.CONTINUATION,
                continuation.id,
                ContinuationState.CLAIMED,
                ContinuationState.DISPATCHED,
                "its wake is handed over",
                sets={"told": True},
            )
        )
    if not run.kind.of_people:
        spent = {"unattended_runs": conversation.unattended_runs + 1}
        changes.append(Touch(Entity.CONVERSATION, conversation.id, spent))
    if conversation.not_before_ms:
        changes.append(Touch(Entity.CONVERSATION, conversation.id, {"not_before_ms": 0}))
    changes += [Touch(Entity.RUN, told, {"receipt_told": True}) for told in event.told_runs]
    changes += [Touch(Entity.CONTINUATION, told, {"told": True}) for told in event.told_continuations]
    return tuple(changes)


def release(snap: Snapshot, event: Release, now_ms: int, rules: Rules) -> tuple[Change, ...] | Refusal:
    """The owner gives a claimed run back."""
    run = view.find(snap.runs, event.run_id)
    if run is None:
        return view.NOT_FOUND
    if run.state is not RunState.CLAIMED or run.fence != event.fence or run.holder != event.by:
        return Refusal(Code.STALE_FENCE)
    return _give_back(snap, run, event.why, now_ms, rules, counts=event.counts, notice=event.notice, by=event.by)


def lease_ended(snap: Snapshot, event: LeaseEnded, now_ms: int, rules: Rules) -> tuple[Change, ...] | Refusal:
    """Anyone gives back a claimed run whose owner is gone; the agent was not called."""
    run = view.find(snap.runs, event.run_id)
    if run is None:
        return view.NOT_FOUND
    if run.state is not RunState.CLAIMED:
        return Refusal(Code.STALE_FENCE)
    if run.lease_until_ms > now_ms and not event.holder_gone:
        return Refusal(Code.LEASE_HELD)
    return _give_back(snap, run, "its owner is gone", now_ms, rules, counts=True, notice=event.notice, by=event.by)


def _give_back(
    snap: Snapshot,
    run: Run,
    why: str,
    now_ms: int,
    rules: Rules,
    *,
    counts: bool,
    notice: NewPart | None,
    by: str,
) -> tuple[Change, ...] | Refusal:
    conversation = view.find(snap.conversations, run.conversation_id)
    if conversation is None:
        return view.NOT_FOUND
    prompts = list(view.prompts_of(snap, run.id))
    tries = max((p.tries for p in prompts), default=0) + (1 if counts else 0)
    ended: dict[str, Value] = {"ended_why": why, "ended_ms": now_ms}
    if tries >= rules.max_tries:
        failed: list[Change] = [Move(Entity.RUN, run.id, RunState.CLAIMED, RunState.FAILED, why, run.fence, ended)]
        failed += [Move(Entity.PROMPT, p.id, PromptState.TAKEN, PromptState.SETTLED, why, sets={"tries": tries}) for p in prompts]
        woken = {p.continuation_id for p in prompts}
        failed += [
            view.move_continuation(c, ContinuationState.FAILED, why, by=by)
            for c in snap.continuations
            if c.id in woken and c.state is ContinuationState.CLAIMED
        ]
        if notice is not None:
            failed += view.add_parts(conversation, (notice,), now_ms, run.id)
        return tuple(failed)
    changes: list[Change] = [Move(Entity.RUN, run.id, RunState.CLAIMED, RunState.RELEASED, why, run.fence, ended)]
    for p in prompts:
        back: dict[str, Value] = {"run_id": None, "tries": p.tries + (1 if counts else 0)}
        changes.append(Move(Entity.PROMPT, p.id, PromptState.TAKEN, PromptState.WAITING, why, sets=back))
    if counts:
        later = {"not_before_ms": max(conversation.not_before_ms, now_ms + rules.backoff_ms * 2 ** (tries - 1))}
        changes.append(Touch(Entity.CONVERSATION, conversation.id, later))
    return tuple(changes)


def session_lost(snap: Snapshot, event: SessionLost, now_ms: int) -> tuple[Change, ...] | Refusal:
    """End the stale session row; people's prompts go on in a new one, once; a wake is fenced, an event withdrawn."""
    run = view.find(snap.runs, event.run_id)
    if run is None:
        return view.NOT_FOUND
    if run.state is not RunState.CLAIMED or run.fence != event.fence or run.holder != event.by:
        return Refusal(Code.STALE_FENCE)
    if run.session_replaced:
        return Refusal(Code.ALREADY_REPLACED)
    session = view.find(snap.sessions, run.session_id)
    conversation = view.find(snap.conversations, run.conversation_id)
    if session is None or conversation is None or session.state is not SessionState.OPEN:
        return Refusal(Code.STALE_SESSION)
    why = "the agent no longer knows the session"
    changes = view.end_session(snap, session, why, now_ms, by=event.by)
    if run.kind.of_people:
        changes.append(view.new_session(conversation, event.native_id, event.standing))
        begun: dict[str, Value] = {"session_id": view.NEW_SESSION, "session_replaced": True}
        changes.append(Touch(Entity.RUN, run.id, begun, state=RunState.CLAIMED, fence=event.fence))
    elif run.kind is PromptKind.EVENT:
        changes += view.cancel_claimed(snap, run, why, now_ms)
    changes += view.add_parts(conversation, (event.notice,), now_ms, None)
    return tuple(changes)
