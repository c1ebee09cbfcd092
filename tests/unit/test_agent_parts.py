"""The parts that adapters share or translate with: tool calls of one run, and Claude's messages as events."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import pytest
from claude_agent_sdk import AssistantMessage, ResultMessage, StreamEvent, TextBlock, ToolUseBlock

from bot.agents.base import AgentEvent, EndKind, ErrorKind, MessageDone, TextDelta, ToolResult, ToolStarted
from bot.agents.calls import NO_TURN, ToolCalls
from bot.agents.claude.events import TurnTranslator


async def test_unanswered_calls_are_cancelled_at_the_end_and_later_ones_refused() -> None:
    began, cancelled = asyncio.Event(), asyncio.Event()

    async def handler(_name: str, _arguments: Mapping[str, object]) -> ToolResult:
        began.set()
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            cancelled.set()
        raise AssertionError("unreachable")

    calls = ToolCalls(handler)
    calling = asyncio.create_task(calls.call("wait", {}))
    await began.wait()
    await calls.end()
    assert cancelled.is_set()
    assert (await calling).is_error
    assert await calls.call("wait", {}) == NO_TURN


async def test_a_handler_that_fails_tells_the_agent_nothing_of_its_fault() -> None:
    async def handler(_name: str, _arguments: Mapping[str, object]) -> ToolResult:
        raise ValueError("private detail")

    result = await ToolCalls(handler).call("wait", {})
    assert result.is_error
    assert "private" not in result.text


def stream(event: dict[str, object], parent: str | None = None) -> StreamEvent:
    return StreamEvent(uuid="u", session_id="s", event=event, parent_tool_use_id=parent)


def delta(text: str) -> dict[str, object]:
    return {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}}


def test_what_an_attempt_showed_that_was_repeated_is_void() -> None:
    translator = TurnTranslator()
    start: dict[str, object] = {"type": "message_start", "message": {}}
    seen: list[AgentEvent] = []
    for event in (start, delta("lost"), start, delta("ke"), delta("pt")):
        seen += translator.stream(stream(event))
    seen += translator.assistant(AssistantMessage([TextBlock("kept")], "m"))
    seen += translator.stream(stream(start))
    seen += translator.stream(stream(delta("next")))
    assert seen == [
        TextDelta("b0", "lost"),
        TextDelta("b0", "ke", restart=True),
        TextDelta("b0", "pt"),
        MessageDone("b0", "kept"),
        TextDelta("b1", "next"),
    ]


def test_a_sub_agents_words_are_not_the_agents_and_its_calls_are_marked() -> None:
    translator = TurnTranslator()
    message = AssistantMessage([TextBlock("below"), ToolUseBlock("t", "Bash", {"command": "ls"})], "m", parent_tool_use_id="a")
    assert list(translator.assistant(message)) == [ToolStarted("t", "Bash", "ls", ours=False, subagent=True)]
    assert list(translator.stream(stream(delta("below"), parent="a"))) == []


@pytest.mark.parametrize(
    ("fields", "end", "error"),
    [
        ({"is_error": False}, EndKind.COMPLETED, None),
        ({"is_error": False, "stop_reason": "refusal"}, EndKind.REFUSED, None),
        ({"terminal_reason": "aborted_tools"}, EndKind.INTERRUPTED, None),
        ({"result": "You've hit your limit - resets 4am (Asia/Dhaka)"}, EndKind.LIMIT, None),
        ({"api_error_status": 529}, EndKind.FAILED, ErrorKind.OVERLOADED),
        ({"api_error_status": 502}, EndKind.FAILED, ErrorKind.API),
        ({"terminal_reason": "blocking_limit"}, EndKind.FAILED, ErrorKind.PROMPT_TOO_LONG),
        ({"terminal_reason": "api_error"}, EndKind.FAILED, ErrorKind.NETWORK),
        ({"result": "Not logged in · Please run /login"}, EndKind.FAILED, ErrorKind.AUTH),
        ({}, EndKind.FAILED, ErrorKind.UNKNOWN),
    ],
)
def test_every_result_has_its_end(fields: dict[str, object], end: EndKind, error: ErrorKind | None) -> None:
    values: dict[str, object] = {
        "subtype": "success",
        "duration_ms": 1,
        "duration_api_ms": 1,
        "is_error": True,
        "num_turns": 1,
        "session_id": "s",
        **fields,
    }
    told = TurnTranslator().result(ResultMessage(**values), 0)  # type: ignore[arg-type]
    assert (told.end, told.error) == (end, error)
