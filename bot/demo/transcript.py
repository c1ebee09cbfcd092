"""The readable transcript: times, who said what, sessions and states, and one line of verdict for each step."""

from __future__ import annotations

import re
import sys
import textwrap
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TextIO, assert_never

from bot.demo.events import Event

#: Lines are this wide; longer texts go on below.
_WIDTH = 118
_INDENT = " " * 33
#: Events of several sources are put into their order if they come no further apart.
_SETTLE_MS = 150

_COLOURS = {"dim": "2", "bold": "1", "green": "32", "red": "31", "cyan": "36", "yellow": "33", "magenta": "35"}

#: A mention, or a time (developer docs, message formatting).
_MARKUP = re.compile(r"<(?P<sign>@|#)!?(?P<id>\d+)>|<t:(?P<seconds>\d+)(?::(?P<style>\w))?>")

#: Moves that say something to a reader; the rest is in the JSON file.
_RUN_STATES = {"dispatched", "succeeded", "failed", "cancelled", "interrupted", "released"}


@dataclass(frozen=True, slots=True)
class Verdict:
    """How one step went."""

    step: str
    title: str
    #: None: it was not played.
    passed: bool | None
    expected: str
    came: str

    def lines(self) -> list[str]:
        """One line; for a failed step what was expected and what came, in one more each."""
        if self.passed:
            return [f"ok    step {self.step}: {self.came}"]
        if self.passed is None:
            return [f"--    step {self.step}: not played"]
        return [f"FAIL  step {self.step}: {self.title}", f"        expected  {self.expected}", f"        came      {self.came}"]


class Transcript:
    """Writes events as lines, in the order of their times, a moment after they came; colour only on a terminal."""

    def __init__(self, now_ms: Callable[[], int], out: TextIO = sys.stdout, names: Mapping[int, str] | None = None) -> None:
        """`names` of people and channels by id; it may grow later."""
        self._names = {} if names is None else names
        self._now_ms = now_ms
        self._out = out
        self._colour = out.isatty()
        self._began_ms = now_ms()
        self._pending: list[Event] = []

    def on_event(self, event: Event) -> None:
        """Take an event; it is written by `flush`."""
        self._pending.append(event)
        self.flush(self._now_ms() - _SETTLE_MS)

    def flush(self, until_ms: int | None = None) -> None:
        """Write what came up to that time; None means everything."""
        ready = [event for event in self._pending if until_ms is None or event.t_ms <= until_ms]
        self._pending = [event for event in self._pending if event not in ready]
        for event in sorted(ready, key=lambda one: one.t_ms):
            line = _line(event)
            if line is not None:
                self._write(event, *line)

    def heading(self, text: str) -> None:
        """Begin a step."""
        self.flush()
        self.say("")
        self.say(text, "bold")

    def verdict(self, verdict: Verdict) -> None:
        """End a step."""
        self.flush()
        colour = {True: "green", False: "red", None: "yellow"}[verdict.passed]
        for line in verdict.lines():
            self.say(line, colour)

    def say(self, text: str, colour: str | None = None) -> None:
        """A line of the demo's own."""
        print(self._paint(text, colour), file=self._out, flush=True)

    def _write(self, event: Event, who: str, text: str, colour: str | None) -> None:
        seconds = max(0, event.t_ms - self._began_ms) / 1000
        where = f"#{event.conversation}" if event.conversation else ""
        head = f"{seconds:8.2f}  {where:<9} {who:<11} "
        shown = _MARKUP.sub(self._plain, " / ".join(filter(None, text.splitlines())))
        body = textwrap.wrap(shown, _WIDTH - len(_INDENT)) or [""]
        self.say(self._paint(head, "dim") + self._paint(body[0], colour))
        for more in body[1:]:
            self.say(_INDENT + self._paint(more, colour))

    def _plain(self, markup: re.Match[str]) -> str:
        """Discord's markup as a person sees it."""
        if markup["seconds"] is None:
            return markup["sign"][0] + self._names.get(int(markup["id"]), "?")
        seconds = int(markup["seconds"])
        if markup["style"] == "R":
            away = round(seconds - self._now_ms() / 1000)
            return f"in {away} s" if away >= 0 else f"{-away} s ago"
        return datetime.fromtimestamp(seconds, UTC).strftime("%H:%M:%SZ")

    def _paint(self, text: str, colour: str | None) -> str:
        if not self._colour or colour is None:
            return text
        return f"\x1b[{_COLOURS[colour]}m{text}\x1b[0m"


def describe(event: Event) -> str:
    """An event in half a line; empty for what only the file has."""
    line = _line(event)
    return "" if line is None else f"{line[0]}: {' / '.join(line[1].splitlines())[:120]}"


def short(session: str | None) -> str:
    """The beginning of a session's id, enough to tell them apart."""
    return session[:8] if session else "?"


#: Who, what and colour; None for what only the file has.
_Line = tuple[str, str, str | None] | None


def _line(event: Event) -> _Line:
    match event.source:
        case "discord":
            return _discord(event)
        case "model":
            return _model(event)
        case "database":
            return _database(event)
        case "demo":
            return _demo(event)
        case _:
            assert_never(event.source)


def _discord(event: Event) -> _Line:
    match event.kind:
        case "message" if event.state == "create":
            return event.author or "", event.text or "", "cyan" if event.detail.get("bot") else None
        case "message":
            return event.author or "", f"({event.state}) {event.text or ''}", "dim"
        case "command":
            return event.author or "", f"/{event.text}", None
        case "answer" if event.text or event.detail.get("embeds"):
            hidden = " (shown to that person only)" if event.detail.get("ephemeral_for") else ""
            return "nightporter", _shown(event) + hidden, "cyan"
        case _:
            return None


def _model(event: Event) -> _Line:
    if event.kind == "request":
        if event.detail.get("results"):
            return "to model", f"tool result: {' / '.join(event.detail['results'])}", "magenta"
        before = len(event.detail["history"])
        prompts = "1 earlier prompt" if before == 1 else f"{before or 'no'} earlier prompts"
        return "to model", f"(session {short(event.session)}, {prompts}) {event.text}", "magenta"
    if event.state != "answer":
        return "from model", f"({event.state}) {event.text or ''}", "magenta"
    tools = [f"[{tool.rpartition('__')[2]}]" for tool in event.detail["tools"]]
    return "from model", " ".join([*([event.text] if event.text else []), *tools]), "magenta"


def _database(event: Event) -> _Line:
    match event.kind:
        case "run" if event.state == "dispatched" and event.detail["before"] == "dispatched":
            return "run", f"run {event.run} {event.detail['why']}", "yellow"
        case "run" if event.state in _RUN_STATES:
            return "run", f"run {event.run} {event.state} ({event.detail['kind']}, session {short(event.session)})", "yellow"
        case "continuation":
            return "wait", f"c{event.continuation} {event.state}: {event.text} (session {short(event.session)})", "yellow"
        case "prompt" if event.state in {"withdrawn", "offered"}:
            return "prompt", f"{event.state}: {event.text}", "yellow"
        case _:
            return None


def _demo(event: Event) -> _Line:
    match event.kind:
        case "process":
            return "process", f"Nightporter (pid {event.detail['pid']}) {event.state}", "bold"
        case "agent_process":
            return "process", f"agent (pid {event.detail['pid']}) {event.state}", "bold"
        case "leftover" if event.text:
            return "leftover", event.text, "red"
        case _:
            return None


def _shown(event: Event) -> str:
    """What a person sees of an answer: its text and its embeds."""
    parts = [event.text or ""]
    for embed in event.detail.get("embeds") or []:
        parts += [embed.get("title") or "", embed.get("description") or ""]
        parts += [f"{field.get('name', '')}: {field.get('value', '')}" for field in embed.get("fields") or []]
        parts.append((embed.get("footer") or {}).get("text") or "")
    return "\n".join(part for part in parts if part)
