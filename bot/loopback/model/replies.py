"""What a brain can answer a model request with: content, timing behind gates, and every way of going wrong."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field

_ids = itertools.count(1)


@dataclass(frozen=True, slots=True)
class Text:
    """A text block. A gate among the `pieces` holds the stream until it is set, so slowness needs no clock."""

    pieces: tuple[str | asyncio.Event, ...]

    @property
    def text(self) -> str:
        """The whole text."""
        return "".join(piece for piece in self.pieces if isinstance(piece, str))


def text(*pieces: str | asyncio.Event) -> Text:
    """A text block of these pieces and gates."""
    return Text(pieces)


@dataclass(frozen=True, slots=True)
class Thinking:
    """A thinking block; its signature is made up."""

    text: str


@dataclass(frozen=True, slots=True)
class ToolUse:
    """A tool call; each gets an id of its own unless one is given."""

    name: str
    input: Mapping[str, object] = field(default_factory=dict)
    id: str = field(default_factory=lambda: f"toolu_{next(_ids):024d}")


Block = Text | Thinking | ToolUse


@dataclass(frozen=True, slots=True)
class Hang:
    """Says nothing more, for as long as the client listens."""


@dataclass(frozen=True, slots=True)
class Drop:
    """Cuts the connection."""


@dataclass(frozen=True, slots=True)
class Malformed:
    """Sends something that is no JSON where an event's data should be, then ends."""


@dataclass(frozen=True, slots=True)
class ErrorEvent:
    """Sends an `error` event in the stream, then ends."""

    kind: str = "overloaded_error"
    message: str = "Overloaded"


StreamFault = Hang | Drop | Malformed | ErrorEvent


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer. `stop_reason` None means the natural one: tool_use if a tool is called, else end_turn."""

    blocks: tuple[Block, ...]
    stop_reason: str | None = None
    input_tokens: int = 100
    output_tokens: int = 20
    #: Holds the response before its headers until set.
    gate: asyncio.Event | None = None
    #: Comes after the blocks, in place of a proper end. Without streaming, a hang and a drop keep their meaning and the
    #: others do not apply.
    fault: StreamFault | None = None

    @property
    def natural_stop(self) -> str:
        """The stop reason that is sent."""
        if self.stop_reason is not None:
            return self.stop_reason
        return "tool_use" if any(isinstance(block, ToolUse) for block in self.blocks) else "end_turn"


@dataclass(frozen=True, slots=True)
class HttpError:
    """An error answer as the real API writes it."""

    status: int
    kind: str
    message: str
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class HangBeforeHeaders:
    """Never answers at all."""


@dataclass(frozen=True, slots=True)
class DropBeforeHeaders:
    """Cuts the connection without an answer."""


Answer = Reply | HttpError | HangBeforeHeaders | DropBeforeHeaders


def say(*blocks: Block | str) -> Reply:
    """A plain reply of these blocks; a string is a text block."""
    return Reply(tuple(text(block) if isinstance(block, str) else block for block in blocks))
