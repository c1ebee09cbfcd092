"""Every state of every durable thing, and every move between them, as one table.

The table is the truth: `storage.transitions` decides within it, the database repeats it as CHECK constraints, the model checker
explores it, and the diagram in docs/states.md is generated from it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class PromptState(StrEnum):
    """One accepted reason to run."""

    #: Older than `catch_up_max_age` when it was found: people choose Run or Discard.
    OFFERED = "offered"
    #: In the queue.
    WAITING = "waiting"
    #: Belongs to an active run.
    TAKEN = "taken"
    #: Its run ended after dispatch, or failed before it. Terminal.
    SETTLED = "settled"
    #: It will never run. Terminal.
    WITHDRAWN = "withdrawn"


class RunState(StrEnum):
    """One turn of the agent, from claim to settlement."""

    #: A process has the right to run it; the agent was not called.
    CLAIMED = "claimed"
    #: The intent to call the agent is committed; it may have been called. Never queued again by itself.
    DISPATCHED = "dispatched"
    #: Given back before dispatch; its prompts wait again. Terminal.
    RELEASED = "released"
    #: The turn ended by itself, or the transcript shows that it did. Terminal.
    SUCCEEDED = "succeeded"
    #: The agent could not be opened three times, or the turn ended with an error. Terminal.
    FAILED = "failed"
    #: Somebody stopped it. Terminal.
    CANCELLED = "cancelled"
    #: Its outcome is not known, or it was cut off; people may resume. Terminal.
    INTERRUPTED = "interrupted"


class ContinuationState(StrEnum):
    """The stored promise to prompt the same session once, later."""

    #: Asked for by a run that has not ended yet.
    REQUESTED = "requested"
    #: Armed: it waits for its due time.
    PENDING = "pending"
    #: Due: its prompt is in the queue, or taken by a run that was not dispatched yet.
    CLAIMED = "claimed"
    #: Its wake was handed to the agent. Terminal.
    DISPATCHED = "dispatched"
    #: The run that asked did not succeed, or asked again. Terminal.
    DROPPED = "dropped"
    #: Its provider session has ended. Terminal.
    FENCED = "fenced"
    #: Somebody cancelled it. Terminal.
    CANCELLED = "cancelled"
    #: A later wait of the same conversation took its place. Terminal.
    REPLACED = "replaced"
    #: Its time passed while nothing could wake it. Terminal.
    EXPIRED = "expired"
    #: Its run failed before it was dispatched. Terminal.
    FAILED = "failed"


class PartState(StrEnum):
    """One message to post."""

    #: To be sent when all earlier parts of the channel are terminal.
    READY = "ready"
    #: A process has the right to send it, and may have.
    SENDING = "sending"
    #: It is in the channel; the receipt is stored. Terminal.
    DELIVERED = "delivered"
    #: It may be in the channel; nobody can tell. Terminal, but a late echo may still prove it delivered.
    UNKNOWN = "unknown"
    #: Refused for good; the text is kept. Terminal.
    FAILED = "failed"
    #: Stopped before it was sent. Terminal.
    WITHDRAWN = "withdrawn"
    #: The agent's own words, too late to be worth saying. Terminal.
    EXPIRED = "expired"


class SessionState(StrEnum):
    """One session of the agent in a conversation."""

    OPEN = "open"
    #: Reset, lost by the agent, or replaced because the agent or the folder changed. Terminal.
    ENDED = "ended"


State = PromptState | RunState | ContinuationState | PartState | SessionState


@dataclass(frozen=True, slots=True)
class Edge:
    """One allowed move; `before` is None where the row is made."""

    before: State | None
    after: State
    why: str


_P, _R, _C, _O, _S = PromptState, RunState, ContinuationState, PartState, SessionState

#: Every move there is. A move that is not here is refused by `storage.transitions` and by the store.
EDGES: tuple[Edge, ...] = (
    Edge(None, _P.WAITING, "accepted"),
    Edge(None, _P.OFFERED, "older than catch_up_max_age"),
    Edge(None, _P.WITHDRAWN, "older than the channel's last stop"),
    Edge(_P.OFFERED, _P.WAITING, "a person chose Run"),
    Edge(_P.OFFERED, _P.WITHDRAWN, "a person chose Discard; stop; reset; deleted"),
    Edge(_P.WAITING, _P.TAKEN, "C2: claimed"),
    Edge(_P.TAKEN, _P.WAITING, "its run was released"),
    Edge(_P.TAKEN, _P.SETTLED, "its run ended after dispatch, or failed before it"),
    Edge(_P.TAKEN, _P.WITHDRAWN, "its run was cancelled before dispatch"),
    Edge(_P.WAITING, _P.WITHDRAWN, "deleted; removed; stop; reset; its continuation or session ended"),
    Edge(None, _R.CLAIMED, "C2: claimed"),
    Edge(_R.CLAIMED, _R.RELEASED, "lease ended; the agent could not be opened; shutdown"),
    Edge(_R.CLAIMED, _R.FAILED, "tries reached the limit"),
    Edge(_R.CLAIMED, _R.CANCELLED, "stop; reset; its continuation was cancelled; its session is stale"),
    Edge(_R.CLAIMED, _R.DISPATCHED, "C3: the intent is committed"),
    Edge(_R.DISPATCHED, _R.DISPATCHED, "stop requested; or taken over: fence + 1"),
    Edge(_R.DISPATCHED, _R.SUCCEEDED, "the turn ended"),
    Edge(_R.DISPATCHED, _R.FAILED, "the turn ended with an error"),
    Edge(_R.DISPATCHED, _R.CANCELLED, "stopped, and its turn has ended"),
    Edge(_R.DISPATCHED, _R.INTERRUPTED, "cut off, or its outcome is not known"),
    Edge(None, _C.REQUESTED, "wait was called"),
    Edge(_C.REQUESTED, _C.PENDING, "its run succeeded"),
    Edge(_C.REQUESTED, _C.DROPPED, "its run did not succeed, or asked again"),
    Edge(_C.REQUESTED, _C.FENCED, "its run succeeded in a session that has ended"),
    Edge(_C.REQUESTED, _C.CANCELLED, "cancelled"),
    Edge(_C.PENDING, _C.PENDING, "a person woke it now"),
    Edge(_C.PENDING, _C.CLAIMED, "C8: due; its prompt is queued"),
    Edge(_C.PENDING, _C.CANCELLED, "cancelled"),
    Edge(_C.PENDING, _C.FENCED, "its session ended"),
    Edge(_C.PENDING, _C.REPLACED, "its successor was armed"),
    Edge(_C.PENDING, _C.EXPIRED, "not woken before its expiry"),
    Edge(_C.CLAIMED, _C.DISPATCHED, "C3: its wake is handed over"),
    Edge(_C.CLAIMED, _C.CANCELLED, "cancelled; its prompt was removed"),
    Edge(_C.CLAIMED, _C.FENCED, "its session ended"),
    Edge(_C.CLAIMED, _C.REPLACED, "its successor was armed"),
    Edge(_C.CLAIMED, _C.FAILED, "its run failed before dispatch"),
    Edge(None, _O.READY, "queued"),
    Edge(_O.READY, _O.SENDING, "C6: about to be sent"),
    Edge(_O.READY, _O.WITHDRAWN, "stopped before it was sent"),
    Edge(_O.READY, _O.DELIVERED, "the echo of an earlier attempt"),
    Edge(_O.READY, _O.EXPIRED, "the agent's own words, never attempted, too late"),
    Edge(_O.SENDING, _O.SENDING, "taken over; or history shows it is absent: new nonce, new window"),
    Edge(_O.SENDING, _O.READY, "outcome unknown, window open"),
    Edge(_O.SENDING, _O.DELIVERED, "C7: the receipt"),
    Edge(_O.SENDING, _O.UNKNOWN, "nobody can tell"),
    Edge(_O.SENDING, _O.FAILED, "refused for good"),
    Edge(_O.SENDING, _O.WITHDRAWN, "stopped, and history shows it is absent"),
    Edge(_O.UNKNOWN, _O.DELIVERED, "a late echo"),
    Edge(None, _S.OPEN, "begun"),
    Edge(_S.OPEN, _S.ENDED, "reset; lost; another agent or folder"),
)

# With the kind: words of different kinds are equal strings ("dispatched" is a run's state and a continuation's).
_ALLOWED = frozenset((type(edge.after), edge.before, edge.after) for edge in EDGES)

#: A run that holds its conversation and its workspace.
ACTIVE_RUN = frozenset({RunState.CLAIMED, RunState.DISPATCHED})
#: A continuation that may still wake somebody.
LIVE_CONTINUATION = frozenset({ContinuationState.REQUESTED, ContinuationState.PENDING, ContinuationState.CLAIMED})
#: A part that later parts of its channel wait for.
OPEN_PART = frozenset({PartState.READY, PartState.SENDING})


def allowed(before: State | None, after: State) -> bool:
    """Whether the table has the move; `before` is None for a new row."""
    return (before is None or type(before) is type(after)) and (type(after), before, after) in _ALLOWED


def terminal(state: State) -> bool:
    """Whether a row in this state stays there (an `unknown` part counts as terminal: the order does not wait for it)."""
    if state is PartState.UNKNOWN:
        return True
    return not any(edge.before is state for edge in EDGES)
