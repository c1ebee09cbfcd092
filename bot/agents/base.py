"""The one interface through which every coding agent is driven.

An adapter (`claude`, `scripted`, later others) turns one agent's habits into these types. The runtime knows nothing else of
an agent, so adding one is adding one module that passes `tests/contract`.

Rules every adapter keeps (the contract suite holds them):

- `AgentSession.run` yields events and ends with exactly one `RunEnded`, whatever happens: end of file, kill, timeout, a
  broken stream. Nothing comes after it.
- A session that the agent no longer knows is `Lost` from `open`; it is never replaced silently by a new one. An API error
  or a missing program is an `AgentUnavailable`, never `Lost`.
- Tool handlers are bound to a run when it starts. They learn nothing about conversation or run from the model's arguments,
  and are cancelled at `RunEnded`.
- One run at a time in a session; a second `run` while one is active raises `RuntimeError`.
- A prompt's text is literal: nothing in it is read as a file reference or a command.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Literal, Protocol

from bot.errors import Unavailable

# --- what a session is opened with -----------------------------------------------------------------------------------


class PermissionMode(StrEnum):
    """What the agent may do without asking; everything else is denied with a sentence."""

    #: Reads and edits inside the project folder, and shell commands that match `allowed_commands`.
    ACCEPT_EDITS = "accept_edits"
    #: Reads only; the agent plans and changes nothing.
    PLAN = "plan"


@dataclass(frozen=True, slots=True)
class PermissionPolicy:
    """The project's rules for tool use. `allowed_commands` are glob patterns over one simple shell command."""

    mode: PermissionMode
    allowed_commands: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """One tool of ours that the agent sees: its bare name, what it is told about it, and the JSON schema of its arguments."""

    name: str
    description: str
    schema: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class ToolResult:
    """What the agent reads as a tool's answer."""

    text: str
    is_error: bool = False


#: Answers one call of one of our tools: (tool name, arguments as the model wrote them). It stores and returns, it never
#: waits for people or the network beyond a few seconds. It is bound to a run; see `AgentSession.run`.
ToolHandler = Callable[[str, Mapping[str, object]], Awaitable[ToolResult]]


@dataclass(frozen=True, slots=True)
class SessionSpec:
    """All that is needed to open one provider session. Nothing in it changes within the session."""

    #: Our row's id (`ProviderSession`), for the pool and the logs.
    session_id: int
    conversation_id: int
    #: The resolved project folder; stored when the session began, also on resume.
    folder: Path
    #: The agent's own id of the session. We choose it before the first byte.
    native_id: str
    #: False: open a new session with this `native_id`. True: continue it; if the agent does not know it, `Lost`.
    resume: bool
    #: Turns this row has dispatched so far. A warm process is used again only if it saw the last one.
    turns: int
    standing_instructions: str
    permissions: PermissionPolicy
    tools: tuple[ToolSpec, ...]
    model: str | None = None
    #: Allow-listed additions to the agent's otherwise minimal environment.
    env: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Lost:
    """The agent no longer knows the session it was asked to resume. `detail` goes to the log."""

    detail: str


class AgentUnavailable(Unavailable):
    """The agent could not be opened: program missing, folder missing, handshake failed. A later try may succeed."""


# --- the agent's process ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class AgentProcess:
    """Identity of an agent's process, stored with the intent (C3) so that a successor can prove it dead.

    A pid alone proves nothing, since pids are used again: start times (clock ticks since boot, field 22 of
    /proc/<pid>/stat, proc(5)) and the boot id (/proc/sys/kernel/random/boot_id) pin it. `mark` is the value of the environment
    variable NIGHTPORTER_MARK that the launcher and every descendant carry.
    """

    host: str
    boot_id: str
    launcher_pid: int
    launcher_start: int
    agent_pid: int
    agent_start: int
    mark: str


class Death(StrEnum):
    """What is known about an agent's process and its descendants."""

    #: Nothing of it runs: launcher, agent and every marked descendant are gone (they were killed if need be).
    DEAD = "dead"
    #: It could not be killed, or it is not known; try again.
    ALIVE = "alive"
    #: It ran on another host; only an admin can give it up.
    OTHER_HOST = "other_host"


# --- what a turn is made of ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TextPart:
    """A literal piece of a prompt."""

    text: str


PromptPart = TextPart


class EndKind(StrEnum):
    """How a turn ended."""

    COMPLETED = "completed"
    #: `interrupt` was called and took effect.
    INTERRUPTED = "interrupted"
    #: The model declined to answer.
    REFUSED = "refused"
    #: The account's usage limit; `RunEnded.resets_at_ms` if the agent said when it ends.
    LIMIT = "limit"
    FAILED = "failed"


class ErrorKind(StrEnum):
    """Why a turn failed, as far as the agent tells."""

    AUTH = "auth"
    RATE_LIMIT = "rate_limit"
    OVERLOADED = "overloaded"
    API = "api"
    NETWORK = "network"
    #: The session's history or the request itself is not accepted any more; every later turn would fail too.
    BAD_REQUEST = "bad_request"
    PROMPT_TOO_LONG = "prompt_too_long"
    #: The agent no longer knows the session, found after the intent was committed.
    SESSION_LOST = "session_lost"
    #: The process ended or its stream broke.
    PROCESS = "process"
    #: Silent for too long.
    TIMEOUT = "timeout"
    DISK = "disk"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class SessionStarted:
    """The session is up. `native_id` differs from the one asked for only when `how` is "changed"."""

    native_id: str
    how: Literal["new", "resumed", "warm", "changed"]


@dataclass(frozen=True, slots=True)
class TextDelta:
    """A piece of a text block that is still growing. `restart` means: throw away what this block showed before."""

    block: str
    text: str
    restart: bool = False


@dataclass(frozen=True, slots=True)
class MessageDone:
    """One complete text block of the agent itself (not of a sub-agent). `block` is unique within the run."""

    block: str
    text: str


@dataclass(frozen=True, slots=True)
class ToolStarted:
    """The agent started a tool. `ours` marks Nightporter's tools, `subagent` a call made by a sub-agent."""

    tool_id: str
    name: str
    #: A few words on its object, e.g. the command or the file; not shown unmasked.
    summary: str
    ours: bool
    subagent: bool


@dataclass(frozen=True, slots=True)
class ToolEnded:
    """The tool has answered."""

    tool_id: str
    is_error: bool


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens and cost, for the scope named: of this call, of this turn, or of the session so far (take differences)."""

    scope: Literal["call", "turn", "session"]
    input_tokens: int
    output_tokens: int
    cost_usd: float | None


@dataclass(frozen=True, slots=True)
class Notice:
    """Something worth a log line or a word in the progress message: a retry, a denied tool, a fallback model."""

    kind: Literal["retry", "permission_denied", "fallback", "stderr", "other"]
    text: str


@dataclass(frozen=True, slots=True)
class RunEnded:
    """The turn is over; always the last event and always there."""

    end: EndKind
    error: ErrorKind | None = None
    #: One plain sentence for people when `end` is not COMPLETED.
    detail: str = ""
    #: When a usage limit ends, integer milliseconds UTC, if the agent said so.
    resets_at_ms: int | None = None


AgentEvent = SessionStarted | TextDelta | MessageDone | ToolStarted | ToolEnded | Usage | Notice | RunEnded


class AgentSession(Protocol):
    """One open session of an agent in one process; owned by one task."""

    @property
    def native_id(self) -> str:
        """The agent's id of the session as it is now."""
        ...

    @property
    def process(self) -> AgentProcess:
        """Identity of the process that will be called next; it does not change while the session is open."""
        ...

    @property
    def alive(self) -> bool:
        """False once the process ended or the stream broke: the session must be opened again."""
        ...

    def run(self, prompt_uuid: str, parts: Sequence[PromptPart], tools: ToolHandler) -> AsyncIterator[AgentEvent]:
        """Hand over one prompt and yield what the agent does, ending with `RunEnded`.

        `prompt_uuid` is fresh for each dispatch (a repeated one would get no answer, ever). `tools` answers the calls of
        this run only.
        """
        ...

    async def swept(self) -> bool:
        """Kill what the turn left behind and say whether nothing of it is left (except the idle agent itself).

        True is the proof that a settlement needs. After a broken session it also ends the agent.
        """
        ...

    async def interrupt(self) -> None:
        """Ask the agent to end its turn; kill it after the limit (design section 11). Idempotent; bounded."""
        ...

    async def close(self) -> None:
        """End the process and every descendant, within a few seconds. Idempotent."""
        ...


# --- the provider ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Ended:
    """The transcript shows that the turn with this prompt ended by itself. `blocks` are its text blocks and tool starts in order."""

    events: tuple[MessageDone | ToolStarted, ...]


@dataclass(frozen=True, slots=True)
class Unknown:
    """The transcript does not show a finished turn. Absence proves nothing: an agent can act before it writes."""


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What differs between agents and the runtime may ask for."""

    usage_scope: Literal["call", "turn", "session", "none"]
    steer: bool = False


class AgentProvider(Protocol):
    """One kind of coding agent."""

    @property
    def name(self) -> str:
        """The name projects use in the config, e.g. "claude"."""
        ...

    @property
    def capabilities(self) -> Capabilities:
        """What this agent can do."""
        ...

    async def check(self) -> str | None:
        """None if the agent can be used, else one sentence that names the mend."""
        ...

    async def open(self, spec: SessionSpec) -> AgentSession | Lost:
        """Start a process for the session, or say that the session is lost. Raises `AgentUnavailable`."""
        ...

    async def outcome(self, spec: SessionSpec, prompt_uuid: str) -> Ended | Unknown:
        """Read from the provider's transcript what became of a dispatched prompt; only after its process is proven dead."""
        ...

    async def prove_dead(self, process: AgentProcess) -> Death:
        """Kill what is left of a process of an earlier owner, and say what is known. Bounded to a few seconds."""
        ...

    async def close(self) -> None:
        """Release what the provider holds; sessions are closed by their owners."""
        ...
