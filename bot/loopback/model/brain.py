"""Decides what the loopback model answers: any callable may; the default one does what the prompt says, in the script language.

It keeps no state. What is to be done next follows from the request alone: the last prompt's statements are cut into messages
(a tool call ends one), and as many of them are done as there are assistant messages after that prompt. So a repeated request
(a retry, the fallback without streaming) gets the same answer, and conversations never mix.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable
from typing import assert_never

from bot.agents.base import ErrorKind
from bot.agents.script import (
    CallOurs,
    CallTool,
    Die,
    Fail,
    Hang,
    Limit,
    Line,
    Recall,
    Say,
    Shell,
    Sleep,
    SubAgent,
    Think,
    ToolStatement,
    UseTool,
    parse,
)
from bot.clock import Clock
from bot.loopback.model import replies
from bot.loopback.model.log import ModelRequest, blocks_of
from bot.loopback.model.replies import Answer, Block, HttpError, Reply, Thinking, ToolUse, text

#: Decides the answer to one request; may wait before it does.
Brain = Callable[[ModelRequest], Answer | Awaitable[Answer]]

#: How the agent's program names a tool of the server `nightporter`.
_OURS = "mcp__nightporter__{}"

_FAILURES = {
    ErrorKind.AUTH: HttpError(401, "authentication_error", "invalid x-api-key"),
    ErrorKind.RATE_LIMIT: HttpError(429, "rate_limit_error", "This request would exceed your rate limit.", {"retry-after": "1"}),
    ErrorKind.OVERLOADED: HttpError(529, "overloaded_error", "Overloaded"),
    ErrorKind.API: HttpError(500, "api_error", "Internal server error"),
    ErrorKind.BAD_REQUEST: HttpError(400, "invalid_request_error", "messages: the conversation cannot be continued"),
    ErrorKind.PROMPT_TOO_LONG: HttpError(400, "invalid_request_error", "prompt is too long: 250000 tokens > 200000 maximum"),
}


def script_brain(clock: Clock) -> Brain:
    """The default brain; `clock` is for the statement `sleep` and for when a limit ends."""

    async def brain(request: ModelRequest) -> Answer:
        lines, limit = _due(request)
        blocks: list[Block] = []
        for line in lines:
            match line.statement:
                case Sleep(seconds):
                    await clock.sleep(seconds)
                case Fail(kind):
                    return _FAILURES.get(kind, _FAILURES[ErrorKind.API])
                case Limit(seconds):
                    return _limit(clock, seconds)
                case Hang():
                    return Reply(tuple(blocks), fault=replies.Hang()) if blocks else replies.HangBeforeHeaders()
                case Die():
                    return Reply(tuple(blocks), fault=replies.Drop())
                case _:
                    blocks.append(_block(request, line))
        # A message without content does not exist; the real model says something, if only "done".
        return Reply(tuple(blocks) or (text("done" if limit else "I have nothing to add."),))

    return brain


def _due(request: ModelRequest) -> tuple[list[Line], bool]:
    """The statements of the message that is due now, and whether it follows a tool call."""
    at = request.last_prompt_at
    if at is None:
        return [], False
    done = sum(message.get("role") == "assistant" and bool(blocks_of(message)) for message in request.messages[at + 1 :])
    groups: list[list[Line]] = [[]]
    for line in parse(request.last_prompt):
        previous = groups[-1][-1].statement if groups[-1] else None
        # The agent's program keeps what came before a cut and asks again: what is behind the cut is due then.
        if isinstance(previous, ToolStatement | Die) and not line.together:
            groups.append([])
        groups[-1].append(line)
    return (groups[done] if done < len(groups) else []), done > 0


def _limit(clock: Clock, seconds: float | None) -> HttpError:
    """A used-up subscription: 429, with the time of the reset in the headers that the agent's program reads."""
    headers = {"anthropic-ratelimit-unified-status": "rejected", "anthropic-ratelimit-unified-representative-claim": "five_hour"}
    if seconds is not None:
        headers["anthropic-ratelimit-unified-reset"] = str(math.ceil(clock.now_ms() / 1000 + seconds))
    return HttpError(429, "rate_limit_error", "This request would exceed your account's rate limit.", headers)


def _block(request: ModelRequest, line: Line) -> Block:
    match line.statement:
        case Say(words):
            return text(words)
        case Think(words):
            return Thinking(words)
        case Recall():
            return text(f"prompts before this one: {len(request.prompts) - 1}")
        case CallOurs(name, arguments):
            return ToolUse(_OURS.format(name), dict(arguments))
        case CallTool(name, arguments):
            return ToolUse(name, dict(arguments))
        case UseTool(_, seconds):
            # The agent's program refuses a bare `sleep`.
            return ToolUse("Bash", {"command": f"python3 -c 'import time; time.sleep({seconds})'", "description": "wait"})
        case Shell(command):
            return ToolUse("Bash", {"command": command, "description": "run a command"})
        case SubAgent(prompt):
            return ToolUse("Agent", {"description": "help", "prompt": prompt, "subagent_type": "general-purpose"})
        case Sleep() | Fail() | Limit() | Hang() | Die():
            raise AssertionError("handled by the brain itself")
        case _:
            assert_never(line.statement)
