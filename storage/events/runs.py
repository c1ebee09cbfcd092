"""Events of a run, from claim to settlement."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

from storage.events.changes import NewPart
from storage.models import ContinuationId, ConversationId, RunId
from storage.states import RunState


@dataclass(frozen=True, slots=True)
class Claim:
    """C2: take the next prompts of a workspace. Crash before: they still wait. After: the lease ends, they wait again."""

    by: str
    host: str
    lease_until_ms: int
    #: For a session that may have to be begun; chosen before the first byte.
    native_id: str
    standing: str


@dataclass(frozen=True, slots=True)
class Dispatch:
    """C3: the intent to call the agent. Crash before: as `Claim`. After: never queued again; settled from the transcript."""

    by: str
    run_id: RunId
    fence: int
    prompt_uuid: str
    #: JSON of the process that will be called.
    process: str
    #: Receipts and endings that the prompt tells: each is told once.
    told_runs: tuple[RunId, ...] = ()
    told_continuations: tuple[ContinuationId, ...] = ()


@dataclass(frozen=True, slots=True)
class Renew:
    """The owner's heartbeat."""

    by: str
    run_id: RunId
    fence: int
    lease_until_ms: int


@dataclass(frozen=True, slots=True)
class Release:
    """The owner gives a claimed run back; at the third time it fails instead, and `notice` is told."""

    by: str
    run_id: RunId
    fence: int
    why: str
    #: False when a shutdown, not the prompt, is the reason.
    counts: bool = True
    notice: NewPart | None = None


@dataclass(frozen=True, slots=True)
class LeaseEnded:
    """A claimed run's owner is gone; anyone may say so. `holder_gone`: proven otherwise than by time (a lock it held is free)."""

    by: str
    run_id: RunId
    holder_gone: bool = False
    notice: NewPart | None = None


@dataclass(frozen=True, slots=True)
class TakeOver:
    """A dispatched run's owner is gone: raise the fence first, prove its agent dead after."""

    by: str
    run_id: RunId
    host: str
    lease_until_ms: int
    holder_gone: bool = False


@dataclass(frozen=True, slots=True)
class GiveUp:
    """An admin gives up a dispatched run whose host is lost; it ends interrupted."""

    by: str
    run_id: RunId
    why: str
    #: Offers to resume it, unless it was stopped.
    notice: NewPart | None = None


@dataclass(frozen=True, slots=True)
class NativeIdChanged:
    """The agent's own session id changed during the run."""

    by: str
    run_id: RunId
    fence: int
    native_id: str


@dataclass(frozen=True, slots=True)
class SessionLost:
    """Before the intent: the agent no longer knows the session. Its row ends; a new one is begun once for this claim."""

    by: str
    run_id: RunId
    fence: int
    native_id: str
    standing: str
    notice: NewPart


class Proof(StrEnum):
    """What is known when a run is settled."""

    #: The turn has ended and its descendants are swept.
    SWEPT = "swept"
    #: The agent's process and every descendant are proven dead.
    DEAD = "dead"
    NONE = "none"


class Evidence(StrEnum):
    """Where the outcome comes from."""

    #: The owner saw the turn end.
    STREAM = "stream"
    #: The provider's transcript shows that it ended.
    TRANSCRIPT = "transcript"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class Again:
    """A prompt that lets the same session go on, by itself, with what the run was cut off in."""

    text: str
    #: Makes it unique.
    source_key: str


@dataclass(frozen=True, slots=True)
class Settle:
    """C5: the run's end, its answer, its continuation, its prompts, in one transaction.

    Crash before: as after C3, the transcript has the result. After: the outbox sends.
    """

    by: str
    run_id: RunId
    fence: int
    outcome: Literal[RunState.SUCCEEDED, RunState.FAILED, RunState.INTERRUPTED]
    proof: Proof
    evidence: Evidence
    why: str
    #: The agent's words that are not queued yet.
    parts: tuple[NewPart, ...] = ()
    #: What people are told beside them; queued also when the run was stopped.
    notices: tuple[NewPart, ...] = ()
    native_id: str | None = None
    #: JSON: everything the agent said, and tokens and cost.
    record: str | None = None
    #: The account's usage limit ended the turn: nothing of this agent is claimed before, integer milliseconds UTC.
    park_until_ms: int | None = None
    #: Queued with it, unless the run was stopped.
    again: Again | None = None


@dataclass(frozen=True, slots=True)
class Unpark:
    """An admin wants the conversation's agent to be tried now, in all its conversations."""

    by: str
    conversation_id: ConversationId


@dataclass(frozen=True, slots=True)
class Say:
    """C4: the agent's words during its turn: narration, `send_message`."""

    by: str
    run_id: RunId
    fence: int
    parts: tuple[NewPart, ...]


@dataclass(frozen=True, slots=True)
class Skip:
    """The agent called `skip_reply`: what is not yet out stays private."""

    by: str
    run_id: RunId
    fence: int
    why: str


@dataclass(frozen=True, slots=True)
class Resume:
    """A person pressed Resume: the same session is prompted to continue. A double press is one."""

    by: str
    run_id: RunId
    author_id: int
    author_name: str
    text: str
    #: The session is no use any more: end it first, with the waits that may only wake in it, so that a new one begins.
    fresh: bool = False
