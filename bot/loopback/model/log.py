"""The append-only log of everything the loopback model API was asked and answered."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

#: request: came in (also refused ones). answer: was sent completely. error: an error status or stream fault was sent.
#: aborted: the client went away before the end.
Kind = Literal["request", "answer", "error", "aborted"]

#: A content block of the wire format.
Wire = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """One `POST /v1/messages`, as it came."""

    #: X-Claude-Code-Session-Id: the agent's native session id.
    session: str | None
    #: x-claude-code-agent-id: set on the requests of a sub-agent.
    subagent: str | None
    key: str | None
    stream: bool
    body: Mapping[str, object]

    @property
    def model(self) -> str:
        """The model's name."""
        return str(self.body.get("model", ""))

    @property
    def messages(self) -> Sequence[Wire]:
        """The conversation."""
        messages = self.body.get("messages")
        return messages if isinstance(messages, list) else ()

    @property
    def tool_names(self) -> tuple[str, ...]:
        """The names of the tools on offer, in order."""
        tools = self.body.get("tools")
        return tuple(str(tool.get("name")) for tool in tools if isinstance(tool, dict)) if isinstance(tools, list) else ()

    @property
    def system_text(self) -> str:
        """The system prompt as one text."""
        return "\n".join(texts_of(self.body.get("system")))

    @property
    def last_prompt(self) -> str:
        """The last prompt: the last text that a user message holds and the agent's program did not write itself."""
        at = self.last_prompt_at
        return "" if at is None else _prompt_texts(self.messages[at])[-1]

    @property
    def last_prompt_at(self) -> int | None:
        """The index of that message."""
        for at in range(len(self.messages) - 1, -1, -1):
            if _prompt_texts(self.messages[at]):
                return at
        return None

    @property
    def prompts(self) -> tuple[str, ...]:
        """All prompts of the conversation so far, first to last."""
        return tuple(text for message in self.messages for text in _prompt_texts(message))

    @property
    def tool_results(self) -> tuple[Wire, ...]:
        """The tool_result blocks that came since the last prompt."""
        at = self.last_prompt_at
        return tuple(block for message in self.messages[at:] for block in blocks_of(message) if block.get("type") == "tool_result")


def blocks_of(message: Wire) -> list[Wire]:
    """The content of a message as blocks."""
    content = message.get("content")
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []


def texts_of(content: object) -> list[str]:
    """The texts in a content value, whatever its form."""
    return [str(block.get("text", "")) for block in blocks_of({"content": content}) if block.get("type") == "text"]


#: How texts begin that the agent's program writes into user messages by itself (Claude Code 2.1.332).
_NOT_PROMPTS = ("<system-reminder>", "[Request interrupted", "Your response above was cut off mid-stream")


def _prompt_texts(message: Wire) -> list[str]:
    """The prompts in a message. One after an interrupted tool call stands in the same message as that call's result."""
    if message.get("role") != "user":
        return []
    blocks = blocks_of(message)
    return [text for block in blocks if (text := str(block.get("text", ""))).strip() and not text.lstrip().startswith(_NOT_PROMPTS)]


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of the log."""

    seq: int
    t_ms: int
    kind: Kind
    #: The seq of the request that this is about; its own for a request.
    request_seq: int
    request: ModelRequest
    status: int | None = None
    #: The text that was answered, or the error.
    text: str = ""
    tools: tuple[str, ...] = field(default=())

    def to_json(self) -> str:
        """One line of JSON for people and checkers; without the key."""
        row = {
            "seq": self.seq,
            "t_ms": self.t_ms,
            "kind": self.kind,
            "request_seq": self.request_seq,
            "session": self.request.session,
            "subagent": self.request.subagent,
            "model": self.request.model,
            "status": self.status,
            "text": self.text or (self.request.last_prompt if self.kind == "request" else ""),
            "prompts": list(self.request.prompts) if self.kind == "request" else None,
            "tools": list(self.tools),
        }
        return json.dumps({name: value for name, value in row.items() if value not in (None, [])}, ensure_ascii=False)


Predicate = Callable[[Entry], bool]


class ModelLog:
    """Entries in order. Appending is synchronous; waiters are futures, nothing polls."""

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self._now_ms = now_ms
        self._entries: list[Entry] = []
        self._subscribers: list[Callable[[Entry], None]] = []
        self._waiters: list[tuple[Predicate, asyncio.Future[Entry]]] = []

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[Entry]:
        return iter(tuple(self._entries))

    def append(
        self,
        kind: Kind,
        request: ModelRequest,
        *,
        request_seq: int | None = None,
        status: int | None = None,
        text: str = "",
        tools: tuple[str, ...] = (),
    ) -> Entry:
        """Add an entry with the time of now; tell subscribers and waiters."""
        seq = len(self._entries)
        entry = Entry(seq, self._now_ms(), kind, seq if request_seq is None else request_seq, request, status, text, tools)
        self._entries.append(entry)
        for subscriber in tuple(self._subscribers):
            subscriber(entry)
        for predicate, future in tuple(self._waiters):
            if not future.done() and predicate(entry):
                future.set_result(entry)
        return entry

    def subscribe(self, subscriber: Callable[[Entry], None]) -> Callable[[], None]:
        """Call `subscriber` with each new entry; the returned function ends that."""
        self._subscribers.append(subscriber)
        return lambda: self._subscribers.remove(subscriber)

    def requests(self, since: int = 0) -> list[ModelRequest]:
        """The requests from position `since` on."""
        return [entry.request for entry in self._entries[since:] if entry.kind == "request"]

    async def wait_for(self, predicate: Predicate, *, since: int = 0) -> Entry:
        """The first entry from position `since` on that satisfies `predicate`, now or later. Waits for ever: bound it outside."""
        for entry in self._entries[since:]:
            if predicate(entry):
                return entry
        future: asyncio.Future[Entry] = asyncio.get_running_loop().create_future()
        waiter = (predicate, future)
        self._waiters.append(waiter)
        try:
            return await future
        finally:
            self._waiters.remove(waiter)

    async def wait_kind(self, kind: Kind, *, since: int = 0, text: str = "") -> Entry:
        """The first entry of this kind from `since` on whose prompt contains `text`."""
        return await self.wait_for(lambda entry: entry.kind == kind and text in entry.request.last_prompt, since=since)
