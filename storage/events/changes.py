"""What a decision returns: changes to rows, or a refusal with its reason."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from storage.models import (
    Continuation,
    ContinuationId,
    Conversation,
    ConversationId,
    Part,
    PartId,
    PartKind,
    Prompt,
    PromptId,
    Run,
    RunId,
    Session,
    SessionId,
)
from storage.states import State

Row = Conversation | Session | Prompt | Run | Continuation | Part
RowId = ConversationId | SessionId | PromptId | RunId | ContinuationId | PartId
Value = str | int | bool | None


class Entity(StrEnum):
    """The kinds of rows; also the journal's word for them."""

    CONVERSATION = "conversation"
    SESSION = "session"
    PROMPT = "prompt"
    RUN = "run"
    CONTINUATION = "continuation"
    PART = "part"


@dataclass(frozen=True, slots=True)
class Insert:
    """A new row, with a negative id in it."""

    entity: Entity
    row: Row
    why: str


@dataclass(frozen=True, slots=True)
class Move:
    """A compare-and-set on one row: only if it is still in `before` (and its fence is `fence`, where given).

    `fence` compares a run's `fence` or a part's `attempt`. Journalled. If no row matches, the whole decision is void (StaleFence).
    """

    entity: Entity
    id: RowId
    before: State
    after: State
    why: str
    fence: int | None = None
    sets: Mapping[str, Value] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Touch:
    """Columns that are not a state. `state` and `fence` are compared like in `Move`. Not journalled."""

    entity: Entity
    id: RowId
    sets: Mapping[str, Value]
    state: State | None = None
    fence: int | None = None


Change = Insert | Move | Touch


class Code(StrEnum):
    """Why nothing was changed; each has its sentence where it is shown."""

    NOT_FOUND = "not_found"
    #: Stored before, under the same source key.
    DUPLICATE = "duplicate"
    #: Nothing to claim.
    NOTHING = "nothing"
    #: Only wakes or events wait, and the unattended bound holds them.
    HELD = "held"
    #: The run, the part or its fence belongs to somebody else now.
    STALE_FENCE = "stale_fence"
    #: The session row is not the open one any more.
    STALE_SESSION = "stale_session"
    #: The session was already replaced once for this claim.
    ALREADY_REPLACED = "already_replaced"
    #: It runs, or ran: use /stop.
    TOO_LATE = "too_late"
    #: Not due, or still in flight.
    TOO_EARLY = "too_early"
    #: A turn that was resumed so often is not resumed again.
    TOO_OFTEN = "too_often"
    #: It has ended already.
    ENDED = "ended"
    #: /stop came: nothing more is taken from this run.
    STOPPED = "stopped"
    #: The unattended bound: a person has to speak first.
    UNATTENDED = "unattended"
    #: Somebody else began (some of) it.
    NOT_YOURS = "not_yours"
    #: The turn has not ended for sure, or something of it still runs.
    NOT_PROVEN = "not_proven"
    #: Only the host it ran on may take it over.
    OTHER_HOST = "other_host"
    #: The owner's lease has not ended.
    LEASE_HELD = "lease_held"
    #: An earlier part of the channel is not terminal.
    NOT_FIRST = "not_first"
    #: The nonce window is closed: look at the history first.
    WINDOW_CLOSED = "window_closed"


@dataclass(frozen=True, slots=True)
class Refusal:
    """Nothing changes, for this reason. An expected outcome, not an error."""

    code: Code


@dataclass(frozen=True, slots=True)
class NewPart:
    """A message to queue; `nonce` is fresh."""

    kind: PartKind
    text: str
    nonce: str
    reply_to_id: int | None = None
    components: str | None = None
