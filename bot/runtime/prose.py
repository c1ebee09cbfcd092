"""Tells the agent's answer from its narration (design section 7). Pure: fed with what the agent does, asked what may go out.

The answer is the text after the last foreign tool (neither Nightporter's nor a sub-agent's), or, where there is none, the last
text before it. So text that a foreign tool follows is known to be narration only when more text comes: until then it is held,
since it would be the answer if the turn ended now. A block is known by its id, not by its words.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from bot.agents.base import MessageDone, ToolStarted


def normalised(text: str) -> str:
    """The text as it is compared: without differences in white space."""
    return " ".join(text.split())


@dataclass(frozen=True, slots=True)
class Final:
    """What is left to say at the end of a turn, in order; either may be empty."""

    narration: tuple[str, ...]
    answer: str


@dataclass(slots=True)
class Prose:
    """The words of one turn."""

    #: Everything said, in order, for the record: (block, text).
    said: list[tuple[str, str]] = field(default_factory=list)
    #: Words that `send_message` has put into the channel; the same words are not said again.
    _sent: set[str] = field(default_factory=set)
    _blocks: set[str] = field(default_factory=set)
    #: Surely narration, not yet fetched.
    _narration: list[str] = field(default_factory=list)
    #: Text that a foreign tool followed; the answer if nothing more comes.
    _held: list[str] = field(default_factory=list)
    #: Text since the last foreign tool.
    _current: list[str] = field(default_factory=list)

    def feed(self, event: MessageDone | ToolStarted) -> None:
        """Take note of a finished block of text or of a tool that starts."""
        match event:
            case MessageDone():
                self._text(event)
            case ToolStarted(ours=True) | ToolStarted(subagent=True):
                pass
            case ToolStarted():
                if self._current:
                    self._held, self._current = self._current, []

    def _text(self, event: MessageDone) -> None:
        if event.block in self._blocks:
            return
        self._blocks.add(event.block)
        self.said.append((event.block, event.text))
        if not event.text.strip():
            return
        self._narration += self._held
        self._held = []
        self._current.append(event.text)

    def sent(self, text: str) -> None:
        """The agent put this into the channel itself."""
        self._sent.add(normalised(text))

    def fetch(self) -> tuple[str, ...]:
        """Narration that may go out now; handed out once."""
        ready = tuple(text for text in self._narration if self._unsent(text))
        self._narration.clear()
        return ready

    def unfetch(self, texts: tuple[str, ...]) -> None:
        """What was fetched could not be stored: it is handed out again, in its place."""
        self._narration[:0] = texts

    def finish(self) -> Final:
        """The rest, when the turn has ended."""
        answer = self._current or self._held
        words = [text.strip("\n") for text in answer if self._unsent(text)]
        return Final(self.fetch(), "\n\n".join(words))

    def mark_sent(self, was_sent: Callable[[str], bool]) -> None:
        """Mark every block of which that is true as sent: after a takeover, when the calls themselves were not seen."""
        for _, text in self.said:
            if text.strip() and was_sent(text):
                self.sent(text)

    def _unsent(self, text: str) -> bool:
        return normalised(text) not in self._sent
