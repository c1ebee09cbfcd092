"""Events of a continuation, and the ones that end everything: stop, reset, another binding."""

from __future__ import annotations

from dataclasses import dataclass

from storage.events.changes import NewPart
from storage.models import ContinuationId, ConversationId, RunId


@dataclass(frozen=True, slots=True)
class Wait:
    """C9: the agent called `wait`. The tool answers only after this is stored. Dropped with its run."""

    by: str
    run_id: RunId
    fence: int
    reason: str
    due_at_ms: int
    expires_at_ms: int


@dataclass(frozen=True, slots=True)
class Cancel:
    """A continuation is cancelled. `by_agent`: it knows, so it is not told again; then with the run that it asked in."""

    by: str
    continuation_id: ContinuationId
    why: str
    only_own: int | None = None
    by_agent: bool = False
    run_id: RunId | None = None
    fence: int | None = None


@dataclass(frozen=True, slots=True)
class WakeNow:
    """A person wants it now."""

    by: str
    continuation_id: ContinuationId
    only_own: int | None = None


@dataclass(frozen=True, slots=True)
class Due:
    """C8: its time has come: claim it and queue its prompt, or expire it. Crash before: pending. After: exactly one prompt."""

    by: str
    continuation_id: ContinuationId
    #: Told to people if it has expired.
    notice: NewPart | None = None


@dataclass(frozen=True, slots=True)
class Stop:
    """/stop, and with `reset` /reset: one transaction over everything that is pending or running in the conversation.

    `only_own`: refused unless all that would end was begun by this person.
    """

    by: str
    conversation_id: ConversationId
    #: Snowflake of the command: older messages found later are withdrawn, newer ones kept.
    stop_id: int
    reset: bool = False
    only_own: int | None = None


@dataclass(frozen=True, slots=True)
class Rebind:
    """The config binds the conversation to another project, agent or folder: its session ends. Refused while a run is active."""

    by: str
    conversation_id: ConversationId
    project: str
    agent: str
    folder: str
    shared: bool
