"""One observed event of a demo, and its line in the JSON file: what recorder, transcript and checker talk about."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

#: Who saw it: the loopback Discord's log, the loopback model API's log, the database (read only), or the demo itself
#: (processes that it started and ended, steps that it played).
Source = Literal["discord", "model", "database", "demo"]

#: discord: message, command (typed by a person), answer (to a command, also changed later), reaction, typing.
#: model: request, reply. database: conversation, session, prompt, run, continuation, part. demo: step, process, agent_process,
#: leftover.
Kind = Literal[
    "message",
    "command",
    "answer",
    "reaction",
    "typing",
    "request",
    "reply",
    "conversation",
    "session",
    "prompt",
    "run",
    "continuation",
    "part",
    "step",
    "process",
    "agent_process",
    "leftover",
]


@dataclass(frozen=True, slots=True)
class Event:
    """Fields that do not apply are None. `session` is the agent's own id of it, as the model API sees it too."""

    #: Milliseconds since 1970 UTC, by the clock of whoever saw it (all on one machine).
    t_ms: int
    kind: Kind
    source: Source
    #: The channel's name.
    conversation: str | None = None
    author: str | None = None
    text: str | None = None
    message_id: str | None = None
    run: int | None = None
    session: str | None = None
    continuation: int | None = None
    state: str | None = None
    #: What the common fields cannot hold, for example `due_ms` of a continuation, `history` of a request.
    detail: Mapping[str, Any] = field(default_factory=dict)

    def to_json(self) -> str:
        """One line; all common fields are there, null where they do not apply."""
        row = {name: getattr(self, name) for name in _COMMON}
        if self.detail:
            row["detail"] = dict(self.detail)
        return json.dumps(row, ensure_ascii=False)


_COMMON = ("t_ms", "kind", "conversation", "author", "text", "message_id", "run", "session", "continuation", "state", "source")


def read_events(lines: Iterable[str]) -> list[Event]:
    """The events of a file, in the order of their times.

    Raises:
        ValueError: a line is no event.
    """
    events = [_read(number, line) for number, line in enumerate(lines, 1) if line.strip()]
    # Stable: what happened in one millisecond stays as it was observed.
    return sorted(events, key=lambda event: event.t_ms)


def _read(number: int, line: str) -> Event:
    row = json.loads(line)
    if not isinstance(row, dict) or any(name not in row for name in _COMMON):
        raise ValueError(f"line {number} is no event: it needs {', '.join(_COMMON)}")
    if row["kind"] not in get_args(Kind) or row["source"] not in get_args(Source):
        raise ValueError(f"line {number} is no event: kind {row['kind']!r}, source {row['source']!r}")
    return Event(**{name: row[name] for name in _COMMON}, detail=row.get("detail") or {})
