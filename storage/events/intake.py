"""Events about what becomes a prompt, and about people being there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from storage.events.changes import NewPart
from storage.models import ConversationId, PromptId, PromptKind, SessionId


@dataclass(frozen=True, slots=True)
class Arrive:
    """C1: a message, a button or an outside event wants to become a prompt.

    Crash before: it is seen again (gateway resume, catch-up, redelivery). After: it waits its turn.
    """

    by: str
    conversation_id: ConversationId
    kind: PromptKind
    ordered_ms: int
    author_id: int
    author_name: str
    text: str
    source_key: str
    addressed: bool
    message_id: int | None = None
    session_id: SessionId | None = None
    #: How it was found: live from the gateway, by catch-up from history, or made by Nightporter.
    source: Literal["live", "catch_up", "internal"] = "live"
    #: Live only: this gateway session's catch-up of the channel is complete.
    caught_up: bool = False
    #: What its author is told if too many wait already: it is then stored as withdrawn, so that nothing is refused in silence.
    if_full: NewPart | None = None


@dataclass(frozen=True, slots=True)
class Seen:
    """A message that is no prompt was looked at; moves the last-seen message by the same rule as `Arrive`."""

    by: str
    conversation_id: ConversationId
    message_id: int
    source: Literal["live", "catch_up"]
    caught_up: bool = False


@dataclass(frozen=True, slots=True)
class Edit:
    """A waiting prompt's message was edited."""

    by: str
    prompt_id: PromptId
    text: str


@dataclass(frozen=True, slots=True)
class Remove:
    """A waiting prompt is withdrawn: deleted, or /queue remove. Removing a wake cancels its continuation."""

    by: str
    prompt_id: PromptId
    why: str
    only_own: int | None = None


@dataclass(frozen=True, slots=True)
class Choose:
    """A person pressed Run or Discard below what catch-up offered."""

    by: str
    conversation_id: ConversationId
    run: bool


@dataclass(frozen=True, slots=True)
class Attend:
    """A person pressed Continue, or gave a command: the unattended budget begins anew."""

    by: str
    conversation_id: ConversationId


@dataclass(frozen=True, slots=True)
class AskToContinue:
    """The unattended bound holds prompts: ask people, once."""

    by: str
    conversation_id: ConversationId
    notice: NewPart
