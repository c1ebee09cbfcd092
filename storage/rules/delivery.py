"""One message after the other, each at most once: the outbox.

An attempt whose outcome is not known is repeated with the same nonce while Discord surely remembers it (the nonce window). After
that only the channel's history can tell, and it is read only when no request can be in flight any more.
"""

from __future__ import annotations

from typing import Literal

from storage.events import (
    Absent,
    Change,
    Code,
    Entity,
    Fail,
    Move,
    NewPart,
    Notify,
    Receipt,
    Refusal,
    Retry,
    Send,
    TakePart,
    Undecided,
    Value,
)
from storage.models import Part, Rules, Snapshot
from storage.rules import view
from storage.states import OPEN_PART, PartState


def window_open(part: Part, now_ms: int, rules: Rules) -> bool:
    """Whether the same nonce may still be posted. A clock that went backwards closes the window."""
    if part.first_attempt_ms is None:
        return True
    return 0 <= now_ms - part.first_attempt_ms <= rules.nonce_window_ms


def next_step(part: Part, now_ms: int, rules: Rules) -> Literal["post", "history", "wait"]:
    """What the holder of a part in `sending` does: post it, read the history, or wait until no request is in flight."""
    if not part.withdraw and window_open(part, now_ms, rules):
        return "post"
    if part.first_attempt_ms is None:
        return "history"
    # Of a clock that went backwards nobody knows how far: the last request may still be in flight until the next attempt, or its
    # end (`retry`), states the times anew.
    quiet_ms = max(part.deadline_ms or 0, part.first_attempt_ms + rules.nonce_window_ms)
    return "history" if now_ms > quiet_ms else "wait"


def notify(snap: Snapshot, event: Notify, now_ms: int) -> tuple[Change, ...] | Refusal:
    """Queue Nightporter's own words."""
    conversation = view.find(snap.conversations, event.conversation_id)
    if conversation is None:
        return view.NOT_FOUND
    return tuple(view.add_parts(conversation, event.notices, now_ms, None))


def send(snap: Snapshot, event: Send, now_ms: int, rules: Rules) -> tuple[Change, ...] | Refusal:
    """Take the right to send the first open part of a channel, before the attempt."""
    part = view.find(snap.parts, event.part_id)
    if part is None:
        return view.NOT_FOUND
    if part.state is not PartState.READY:
        return Refusal(Code.STALE_FENCE)
    if any(p.channel_id == part.channel_id and p.seq < part.seq and p.state in OPEN_PART for p in snap.parts):
        return Refusal(Code.NOT_FIRST)
    old = now_ms - part.queued_ms > rules.words_expire_ms
    if old and part.kind.of_agent and part.attempt == 0:
        why = "too late to be worth saying"
        sets: dict[str, Value] = {"failure": why}
        expired = PartState.EXPIRED
        return (Move(Entity.PART, part.id, PartState.READY, expired, why, part.attempt, sets), *_told(snap, part, event.notice, now_ms))
    return (_hold(part, PartState.READY, event.by, event.deadline_ms, "about to be sent", now_ms, rules),)


def _told(snap: Snapshot, part: Part, notice: NewPart | None, now_ms: int) -> list[Change]:
    """Tell people that words have expired, unless another part of the same run has told them."""
    conversation = view.find(snap.conversations, part.conversation_id)
    told = any(p.state is PartState.EXPIRED and p.run_id == part.run_id for p in snap.parts)
    if conversation is None or notice is None or told:
        return []
    return view.add_parts(conversation, (notice,), now_ms, None)


def take_part(snap: Snapshot, event: TakePart, now_ms: int, rules: Rules) -> tuple[Change, ...] | Refusal:
    """Take over a part whose holder is gone."""
    part = view.find(snap.parts, event.part_id)
    if part is None:
        return view.NOT_FOUND
    if part.state is not PartState.SENDING:
        return Refusal(Code.STALE_FENCE)
    if not event.holder_gone and now_ms <= (part.deadline_ms or 0):
        return Refusal(Code.LEASE_HELD)
    return (_hold(part, PartState.SENDING, event.by, event.deadline_ms, "taken over", now_ms, rules),)


def _hold(part: Part, before: PartState, by: str, deadline_ms: int, why: str, now_ms: int, rules: Rules) -> Move:
    """A new attempt. Where it may not post any more it keeps the deadline of the last request that may be in flight."""
    posts = not part.withdraw and window_open(part, now_ms, rules)
    sets: dict[str, Value] = {"attempt": part.attempt + 1, "holder": by}
    if posts:
        sets["deadline_ms"] = max(deadline_ms, part.deadline_ms or 0)
        if part.first_attempt_ms is None:
            sets["first_attempt_ms"] = now_ms
    else:
        sets.update(_restated(part, now_ms, rules))
    return Move(Entity.PART, part.id, before, PartState.SENDING, why, part.attempt, sets)


def _restated(part: Part, now_ms: int, rules: Rules) -> dict[str, Value]:
    """After the clock went backwards: the window is closed, and a request that is in flight ends within its old length from now."""
    first_ms = part.first_attempt_ms
    if first_ms is None or now_ms >= first_ms:
        return {}
    length_ms = max((part.deadline_ms or 0) - first_ms, 0)
    return {"first_attempt_ms": now_ms - rules.nonce_window_ms - 1, "deadline_ms": now_ms + length_ms}


def _attempted(snap: Snapshot, part_id: int, attempt: int, by: str) -> Part | Refusal:
    """The part, if this process still holds this attempt."""
    part = view.find(snap.parts, part_id)
    if part is None:
        return view.NOT_FOUND
    if part.state is not PartState.SENDING or part.attempt != attempt or part.holder != by:
        return Refusal(Code.STALE_FENCE)
    return part


def receipt(snap: Snapshot, event: Receipt, now_ms: int) -> tuple[Change, ...] | Refusal:
    """It is in the channel: by the response of an attempt, by our own echoed message, or by history."""
    part = view.find(snap.parts, event.part_id)
    if part is None:
        return view.NOT_FOUND
    if event.attempt is not None:
        held = _attempted(snap, event.part_id, event.attempt, event.by)
        if isinstance(held, Refusal):
            return held
    may_be_out = part.attempt > 0 and part.state in {
        PartState.READY,
        PartState.SENDING,
        PartState.UNKNOWN,
    }
    if not may_be_out:
        return Refusal(Code.ENDED)
    sets: dict[str, Value] = {"message_id": event.message_id, "delivered_ms": now_ms}
    why = "receipt" if event.attempt is not None else "echo"
    delivered = PartState.DELIVERED
    return (Move(Entity.PART, part.id, part.state, delivered, why, part.attempt, sets),)


def retry(snap: Snapshot, event: Retry, now_ms: int, rules: Rules) -> tuple[Change, ...] | Refusal:
    """Put it back while the same nonce may still be posted; else history has to decide."""
    part = _attempted(snap, event.part_id, event.attempt, event.by)
    if isinstance(part, Refusal):
        return part
    ready = PartState.READY
    restated = _restated(part, now_ms, rules)
    if restated:
        why = "outcome unknown, and the clock went backwards"
        return (Move(Entity.PART, part.id, PartState.SENDING, ready, why, part.attempt, restated),)
    if part.withdraw or not window_open(part, now_ms, rules):
        return Refusal(Code.WINDOW_CLOSED)
    return (Move(Entity.PART, part.id, PartState.SENDING, ready, "outcome unknown", part.attempt),)


def absent(snap: Snapshot, event: Absent, now_ms: int, rules: Rules) -> tuple[Change, ...] | Refusal:
    """The history is complete and does not show it: begin anew with a new nonce, or, after a stop, withdraw it."""
    part = _attempted(snap, event.part_id, event.attempt, event.by)
    if isinstance(part, Refusal):
        return part
    if next_step(part, now_ms, rules) != "history":
        return Refusal(Code.TOO_EARLY)
    sending = PartState.SENDING
    if part.withdraw:
        why = "stopped; the history shows that it was not sent"
        withdrawn = PartState.WITHDRAWN
        return (Move(Entity.PART, part.id, sending, withdrawn, why, part.attempt),)
    anew: dict[str, Value] = {
        "nonce": event.nonce,
        "generation": part.generation + 1,
        "attempt": part.attempt + 1,
        "first_attempt_ms": now_ms,
        "deadline_ms": event.deadline_ms,
    }
    why = "the history does not show it: new nonce"
    return (Move(Entity.PART, part.id, sending, sending, why, part.attempt, anew),)


def undecided(snap: Snapshot, event: Undecided) -> tuple[Change, ...] | Refusal:
    """Nobody can tell whether it is in the channel."""
    return _end(snap, event, PartState.UNKNOWN)


def fail(snap: Snapshot, event: Fail) -> tuple[Change, ...] | Refusal:
    """Refused for good; the text is kept. Where an earlier attempt got no answer, that one may be in the channel."""
    first = any(p.id == event.part_id and p.attempt == 1 for p in snap.parts)
    return _end(snap, event, PartState.FAILED if first else PartState.UNKNOWN)


def _end(snap: Snapshot, event: Undecided | Fail, after: PartState) -> tuple[Change, ...] | Refusal:
    part = _attempted(snap, event.part_id, event.attempt, event.by)
    if isinstance(part, Refusal):
        return part
    sets: dict[str, Value] = {"failure": event.why}
    return (Move(Entity.PART, part.id, PartState.SENDING, after, event.why, part.attempt, sets),)
