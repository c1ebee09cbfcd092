"""A tiny language in which a prompt says what the agent should do: for the scripted agent and the loopback model.

One statement on a line; lines that are none are ignored, and so is a short `Name:` before one (a prompt names its author). A
prompt without any statement is echoed.

    say TEXT              write a text block
    think TEXT            write a thinking block
    wait DELAY REASON     call our tool wait
    cancel_wait           call our tool cancel_wait
    send TEXT             call our tool send_message
    skip REASON           call our tool skip_reply
    tool NAME SECONDS     use a tool of the agent's own for so long
    shell COMMAND         run a shell command
    call NAME JSON        call any tool with these arguments
    agent TEXT            start a sub-agent with this prompt; a literal backslash-n in it is a new line
    sleep SECONDS         say nothing for so long
    recall                write how many prompts the session had before this one
    fail KIND             fail the turn: a value of ErrorKind
    limit [SECONDS]       report the account's usage limit, which ends in so many seconds
    hang                  never say anything again
    die                   end the process in the middle of the turn

`+ STATEMENT` asks for a tool call together with the one before it, in one message.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from bot.agents.base import ErrorKind


@dataclass(frozen=True, slots=True)
class Say:
    """Write a text block."""

    text: str


@dataclass(frozen=True, slots=True)
class Think:
    """Write a thinking block."""

    text: str


@dataclass(frozen=True, slots=True)
class CallOurs:
    """Call one of Nightporter's tools."""

    name: str
    arguments: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CallTool:
    """Call a tool by the name the agent knows it by."""

    name: str
    arguments: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class UseTool:
    """Use a tool of the agent's own for `seconds`."""

    name: str
    seconds: float


@dataclass(frozen=True, slots=True)
class Shell:
    """Run a shell command."""

    command: str


@dataclass(frozen=True, slots=True)
class SubAgent:
    """Start a sub-agent."""

    prompt: str


@dataclass(frozen=True, slots=True)
class Sleep:
    """Say nothing for `seconds`."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Recall:
    """Write how many prompts came before this one."""


@dataclass(frozen=True, slots=True)
class Fail:
    """Fail the turn."""

    kind: ErrorKind


@dataclass(frozen=True, slots=True)
class Limit:
    """Report the usage limit; `resets_in_s` is None if the agent does not say when it ends."""

    resets_in_s: float | None


@dataclass(frozen=True, slots=True)
class Hang:
    """Never say anything again."""


@dataclass(frozen=True, slots=True)
class Die:
    """End the process."""


Statement = Say | Think | CallOurs | CallTool | UseTool | Shell | SubAgent | Sleep | Recall | Fail | Limit | Hang | Die

#: A tool call. It ends an assistant message, since the agent has to answer before the model goes on.
ToolStatement = CallOurs | CallTool | UseTool | Shell | SubAgent


@dataclass(frozen=True, slots=True)
class Line:
    """A statement, and whether it belongs to the same message as the tool call before it."""

    statement: Statement
    together: bool = False


_LINE = re.compile(r"^(?P<together>\+\s*)?(?P<word>[a-z_]+)(?:\s+(?P<rest>\S.*))?$")


def parse(prompt: str) -> tuple[Line, ...]:
    """The statements in a prompt, in order; for a prompt without any, one that echoes its last line."""
    lines = [line for raw in prompt.splitlines() if (line := _parse_line(raw.strip())) is not None]
    if lines:
        return tuple(lines)
    last = next((line.strip() for line in reversed(prompt.splitlines()) if line.strip()), "")
    return (Line(Say(f"echo: {last}")),)


def _parse_line(line: str) -> Line | None:
    # A bare line first: `say a: b` is a statement, not a line by an author named "say a".
    for text in (line, line.partition(": ")[2]):
        if (match := _LINE.match(text)) and (statement := _statement(match["word"], match["rest"] or "")) is not None:
            return Line(statement, together=match["together"] is not None)
    return None


def _statement(word: str, rest: str) -> Statement | None:
    if rest:
        return _with_rest(word, rest)
    match word:
        case "cancel_wait":
            return CallOurs("cancel_wait")
        case "recall":
            return Recall()
        case "hang":
            return Hang()
        case "die":
            return Die()
        case "limit":
            return Limit(None)
        case _:
            return None


def _with_rest(word: str, rest: str) -> Statement | None:  # noqa: PLR0912  # one case for each statement
    first, _, more = rest.partition(" ")
    match word:
        case "say":
            return Say(rest)
        case "think":
            return Think(rest)
        case "wait":
            return CallOurs("wait", {"delay": first, "reason": more.strip()})
        case "send":
            return CallOurs("send_message", {"text": rest})
        case "skip":
            return CallOurs("skip_reply", {"reason": rest})
        case "shell":
            return Shell(rest)
        case "agent":
            return SubAgent(rest.replace("\\n", "\n"))
        case "call":
            arguments = _json_object(more)
            return None if arguments is None else CallTool(first, arguments)
        case "tool":
            seconds = _number(more)
            return None if seconds is None else UseTool(first, seconds)
        case "sleep":
            seconds = _number(rest)
            return None if seconds is None else Sleep(seconds)
        case "limit":
            seconds = _number(rest)
            return None if seconds is None else Limit(seconds)
        case "fail":
            return _fail(rest)
        case _:
            return None


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _json_object(text: str) -> Mapping[str, object] | None:
    try:
        value = json.loads(text or "{}")
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def _fail(kind: str) -> Statement | None:
    try:
        return Fail(ErrorKind(kind))
    except ValueError:
        return None
