"""Events of the outbox."""

from __future__ import annotations

from dataclasses import dataclass

from storage.events.changes import NewPart
from storage.models import ConversationId, PartId


@dataclass(frozen=True, slots=True)
class Notify:
    """Nightporter's own words to people."""

    by: str
    conversation_id: ConversationId
    notices: tuple[NewPart, ...]


@dataclass(frozen=True, slots=True)
class Send:
    """C6: about to post. Crash before: still ready. After: the window rule decides (`transitions.next_step`)."""

    by: str
    part_id: PartId
    deadline_ms: int
    #: Told to people if it has expired; once for all parts of a run.
    notice: NewPart | None = None


@dataclass(frozen=True, slots=True)
class TakePart:
    """The holder of a part in `sending` is gone."""

    by: str
    part_id: PartId
    deadline_ms: int
    holder_gone: bool = False


@dataclass(frozen=True, slots=True)
class Receipt:
    """C7: it is in the channel. Crash before: resent with the same nonce, the same message comes back. After: done.

    `attempt` is None for an echo (our own MESSAGE_CREATE) or what history shows; those hold whoever attempted it.
    """

    by: str
    part_id: PartId
    message_id: int
    attempt: int | None = None


@dataclass(frozen=True, slots=True)
class Retry:
    """The attempt's outcome is not known, or Discord said to wait: back to ready while the window is open."""

    by: str
    part_id: PartId
    attempt: int


@dataclass(frozen=True, slots=True)
class Absent:
    """History is complete and does not show it: a new nonce opens a new window (or it is withdrawn, after a stop)."""

    by: str
    part_id: PartId
    attempt: int
    nonce: str
    deadline_ms: int


@dataclass(frozen=True, slots=True)
class Undecided:
    """History cannot tell."""

    by: str
    part_id: PartId
    attempt: int
    why: str


@dataclass(frozen=True, slots=True)
class Fail:
    """Discord refuses it for good."""

    by: str
    part_id: PartId
    attempt: int
    why: str
