"""What a state of the outbox model is made of, and what has to hold in it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

from storage.events import NewPart
from storage.models import (
    Conversation,
    ConversationId,
    Part,
    PartKind,
    PromptKind,
    Rules,
    Run,
    RunId,
    Session,
    SessionId,
    Snapshot,
)
from storage.rules import view
from storage.states import OPEN_PART, SessionState
from storage.states import PartState as O
from storage.states import RunState as R
from tests.model.world import Applied, apply

NOW = 100_000
WINDOW = 60
DEADLINE = 30
RULES = Rules(nonce_window_ms=WINDOW, words_expire_ms=10_000)
NextStep = Callable[[Part, int, Rules], Literal["post", "history", "wait"]]


@dataclass(frozen=True, slots=True)
class Outside:
    """How often each thing from outside may happen."""

    #: An answer that does not come back, or comes too late.
    lost: int = 1
    crashes: int = 1
    #: A live sender hangs until its deadline has passed.
    hangs: int = 0
    stops: int = 0
    #: The server refuses for good.
    refusals: int = 0
    #: Nobody can tell from the history.
    unclear: int = 0
    #: Our own messages that come back as events.
    echoes: int = 1
    #: The wall clock goes backwards.
    clock: int = 0
    #: The words are too old before anybody tried.
    late: int = 0


OUTSIDE = {name: index for index, name in enumerate(Outside.__dataclass_fields__)}


class Sender(NamedTuple):
    """What a process believes: it holds an attempt of a part, and is about to post, has posted, or has read the history."""

    part: int
    attempt: int
    phase: str
    nonce: str
    #: Its own deadline has not passed: it may still post.
    fresh: bool
    #: What the history showed.
    found: int


class World(NamedTuple):
    """One state."""

    db: int
    senders: tuple[Sender | None, Sender | None]
    #: Requests that may still reach the server: (nonce, part, by which process, -1 if nobody waits for the answer).
    flying: tuple[tuple[str, int, int], ...]
    #: What the channel shows, in order: (nonce, part).
    channel: tuple[tuple[str, int], ...]
    #: Nonces that the server has forgotten.
    forgotten: tuple[str, ...]
    #: Echoes that may still come: nonces.
    echoes: tuple[str, ...]
    outside: tuple[int, ...]


def queued(kinds: str) -> Applied:
    """Parts of one channel, queued by the product's own rule."""
    conversation = Conversation(ConversationId(1), 101, 1, "p", "a", "/p", False, 0, attended_at_ms=NOW)
    run = Run(RunId(1), ConversationId(1), SessionId(1), "/p", R.SUCCEEDED, 1, "x", "host", NOW, PromptKind.USER, 1, True, NOW)
    snap = Snapshot((conversation,), (Session(SessionId(1), ConversationId(1), SessionState.OPEN, "a", "/p", ""),), runs=(run,))
    new = tuple(
        NewPart(PartKind.NOTICE if kind == "n" else PartKind.ANSWER, f"text {number}", f"n{number}g1")
        for number, kind in enumerate(kinds, 1)
    )
    return apply(snap, view.add_parts(conversation, new, NOW, RunId(1)))


def plain(snap: Snapshot) -> Snapshot:
    """Without what no rule reads."""
    parts = tuple(
        replace(p, message_id=1 if p.message_id else None, delivered_ms=None, failure=None)
        if p.state in OPEN_PART or p.state is O.UNKNOWN
        else replace(p, holder=None, deadline_ms=None, first_attempt_ms=None, withdraw=False, message_id=1 if p.message_id else None)
        for p in snap.parts
    )
    conversation = replace(snap.conversations[0], stop_id=0)
    return replace(snap, parts=parts, conversations=(conversation,))


def broken_promise(state: World, snap: Snapshot) -> str | None:
    """The promise that a state breaks."""
    shown = [part for _, part in state.channel]
    for p in snap.parts:
        number = shown.count(p.id)
        if number > 1:
            return f"P6: part {p.id} is in the channel {number} times"
        if p.state is O.DELIVERED and number == 0:
            return f"P6: part {p.id} is said to be delivered, but is not in the channel"
        if p.state in {O.FAILED, O.WITHDRAWN, O.EXPIRED} and number:
            return f"P6: part {p.id} is {p.state}, but it is in the channel"
        if p.state in {O.FAILED, O.WITHDRAWN, O.EXPIRED} and any(f[1] == p.id for f in state.flying):
            return f"P6: part {p.id} is {p.state}, but a request may still bring it into the channel"
    if shown != sorted(shown):
        return f"order: the channel shows {shown}"
    opened = False
    for p in snap.parts:
        if opened and p.attempt:
            return f"order: part {p.id} was attempted before an earlier one was done"
        opened = opened or p.state in OPEN_PART
    return None


def put(senders: tuple[Sender | None, Sender | None], index: int, sender: Sender | None) -> tuple[Sender | None, Sender | None]:
    return (sender, senders[1]) if index == 0 else (senders[0], sender)
