"""What the runtime needs from the chat side and from the configuration, and the values that cross the border.

The gateway implements `Chat` and makes `Incoming` from messages. Nothing here names Discord, so that tests can put a strict
double in its place.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, Protocol

from bot.agents.base import PermissionPolicy
from storage.events import Code
from storage.models import ConversationId, Part, PromptId

# --- posting ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Sent:
    """It is in the channel. `message_id` 0: it was, and somebody deleted it since ("Unknown Message" for a known nonce)."""

    message_id: int


@dataclass(frozen=True, slots=True)
class Wait:
    """Not posted, for sure; try again after so many seconds (429 and its Retry-After)."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Rejected:
    """Refused for good (403, 404, a bad request); `why` is a few words for people: "missing permission in #backend"."""

    why: str


@dataclass(frozen=True, slots=True)
class OutcomeUnknown:
    """It may be in the channel: a timeout, a broken connection, a 5xx."""

    why: str


@dataclass(frozen=True, slots=True)
class Paused:
    """The attempt was not made, or refused because of us and not of the message (not connected, 401)."""

    why: str


SendResult = Sent | Wait | Rejected | OutcomeUnknown | Paused


@dataclass(frozen=True, slots=True)
class Posted:
    """One message of our own as the channel's history shows it."""

    message_id: int
    text: str
    reply_to_id: int | None
    created_ms: int


class Chat(Protocol):
    """The chat side. No method raises for what a network does; all are bounded in time."""

    @property
    def ready(self) -> bool:
        """Whether messages can be posted now (connected and logged in)."""
        ...

    async def send(self, part: Part, deadline_s: float) -> SendResult:
        """Post one part with its nonce, enforced; returns within `deadline_s`, the library's own retries included.

        After it has returned no request of it is in flight. Narration is posted silently; nothing ever pings.
        """
        ...

    async def history(self, channel_id: int, after_id: int, after_ms: int = 0) -> tuple[Posted, ...] | Rejected | None:
        """Our own messages behind that one, oldest first and complete; None if that cannot be read now, `Rejected` if it never can.

        `after_id` 0: no message is known to be older, and only our clock says since when (`after_ms`).
        """
        ...

    async def typing(self, channel_id: int) -> None:
        """Show that somebody works; failures are swallowed and logged."""
        ...

    async def seen(self, channel_id: int, message_id: int) -> None:
        """Mark a message as stored (the eyes); failures are swallowed and logged."""
        ...

    def split(self, text: str) -> list[str]:
        """The text as messages of at most 2,000 code points, in order, code fences balanced; empty for blank text."""
        ...

    def channel_name(self, channel_id: int) -> str:
        """How the agent and the logs name a channel: "#backend"."""
        ...


# --- intake ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Incoming:
    """A message of somebody who may speak to the agent, in a bound conversation."""

    conversation_id: ConversationId
    channel_id: int
    message_id: int
    #: The message's own time (its snowflake), integer milliseconds UTC.
    sent_ms: int
    author_id: int
    author_name: str
    text: str
    #: It mentions the bot, replies to it, or is a direct message.
    addressed: bool
    source: Literal["live", "catch_up"] = "live"
    #: Live only: this gateway session's catch-up of the channel is complete.
    caught_up: bool = False
    #: What it replies to, if anything: who wrote it and how it begins.
    reply_to: Reply | None = None


@dataclass(frozen=True, slots=True)
class Reply:
    """The message that another one replies to."""

    author_name: str
    text: str


@dataclass(frozen=True, slots=True)
class Accepted:
    """Stored. `position` counts the waiting prompts of the conversation up to this one, from 1."""

    prompt_id: PromptId
    position: int


@dataclass(frozen=True, slots=True)
class Offered:
    """Stored, but too old to run silently: people are asked once that catch-up is complete."""


@dataclass(frozen=True, slots=True)
class Duplicate:
    """Stored before."""


@dataclass(frozen=True, slots=True)
class Withdrawn:
    """Stored, and will not run: older than the channel's last /stop, or one too many, as its author is told in the channel."""


@dataclass(frozen=True, slots=True)
class Refused:
    """Not stored, for this reason."""

    code: Code


AcceptResult = Accepted | Offered | Duplicate | Withdrawn | Refused


@dataclass(frozen=True, slots=True)
class Person:
    """Who gives a command or presses a button."""

    id: int
    name: str
    #: Admins may end what others began.
    admin: bool

    @property
    def by(self) -> str:
        """For the journal."""
        return f"user:{self.id}"

    @property
    def only_own(self) -> int | None:
        """None, or the id that everything concerned must have been begun by."""
        return None if self.admin else self.id


# --- configuration ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ProjectRules:
    """What a project's sessions are opened with."""

    permissions: PermissionPolicy
    model: str | None = None
    env: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class WaitBounds:
    """Bounds of the agent's `wait` (design section 6)."""

    min_ms: int = 30_000
    max_ms: int = 86_400_000
    #: A wake expires this long after its due time, or after the delay itself if that is longer …
    expire_after_ms: int = 3_600_000
    #: … and never later than this.
    expire_max_ms: int = 86_400_000


@dataclass(frozen=True, slots=True)
class RuntimeConfig:
    """Everything the runtime is told; derived from the settings by app.py."""

    #: Identity of this machine, the same before and after a restart; only the same host takes over a dispatched run.
    host: str
    projects: Mapping[str, ProjectRules] = field(default_factory=dict)
    max_concurrent_runs: int = 4
    narration: Literal["silent", "off"] = "silent"
    wait: WaitBounds = field(default_factory=WaitBounds)
    lease_s: float = 30.0
    heartbeat_s: float = 10.0
    #: An owner that could not renew kills its agent so long before its lease ends.
    margin_s: float = 5.0
    #: What running turns get to finish at shutdown.
    drain_s: float = 20.0
    #: How often loops look without being told.
    sweep_s: float = 1.0
    #: The hard end of one attempt to post. Window and deadline together stay below what Discord remembers of a nonce.
    send_deadline_s: float = 30.0
    #: Pauses of a channel after attempts whose outcome is not known; several fit into the nonce window.
    send_pauses_s: tuple[float, ...] = (1.0, 2.0, 4.0, 8.0, 15.0)
    #: A prompt waits so long for an answer in flight, so that its receipt can be told.
    receipt_wait_s: float = 2.0
    #: `send_message` waits so long for its receipt before it says "[delayed]".
    send_tool_wait_s: float = 5.0
    #: The typing sign is renewed so often; Discord shows it for 10 s (developer docs, Trigger Typing Indicator).
    typing_s: float = 8.0
