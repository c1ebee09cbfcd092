"""The loopback model API refuses what the real one refuses, and goes wrong in exactly the ways that are asked for."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator

import aiohttp
import pytest
import pytest_asyncio

from bot.clock import SystemClock
from bot.loopback.model import ModelApi
from bot.loopback.model.replies import (
    Answer,
    Drop,
    DropBeforeHeaders,
    ErrorEvent,
    HangBeforeHeaders,
    HttpError,
    Malformed,
    Reply,
    Thinking,
    ToolUse,
    say,
    text,
)

HEADERS = {"x-api-key": "key", "anthropic-version": "2023-06-01", "X-Claude-Code-Session-Id": "s1"}
USER = {"role": "user", "content": "say hi"}
CALL = {"role": "assistant", "content": [{"type": "tool_use", "id": "t1", "name": "Bash", "input": {}}]}
RESULT = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "ok"}]}


def body(*messages: object, **more: object) -> dict[str, object]:
    return {"model": "m", "max_tokens": 100, "messages": list(messages) or [USER], **more}


@pytest_asyncio.fixture(name="api")
async def _api() -> AsyncIterator[ModelApi]:
    async with ModelApi(SystemClock(), keys=["key"]) as api:
        yield api


@pytest_asyncio.fixture(name="http")
async def _http() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as http:
        yield http


async def post(http: aiohttp.ClientSession, api: ModelApi, what: object, headers: dict[str, str] = HEADERS) -> tuple[int, str]:
    async with http.post(f"{api.url}/v1/messages", json=what, headers=headers) as response:
        return response.status, await response.text()


def events(stream: str) -> list[dict[str, object]]:
    return [json.loads(line.removeprefix("data: ")) for line in stream.splitlines() if line.startswith("data: ")]


async def test_a_message_is_answered_whole_or_streamed(api: ModelApi, http: aiohttp.ClientSession) -> None:
    api.brain = lambda _: Reply((Thinking("hm"), text("a", "b"), ToolUse("Bash", {"command": "ls"}, id="t1")))
    status, whole = await post(http, api, body())
    message = json.loads(whole)
    assert (status, message["stop_reason"]) == (200, "tool_use")
    assert [block["type"] for block in message["content"]] == ["thinking", "text", "tool_use"]
    assert message["content"][1]["text"] == "ab"

    _, stream = await post(http, api, body(stream=True))
    kinds = [event["type"] for event in events(stream)]
    assert kinds[:2] == ["message_start", "ping"]
    assert kinds[-2:] == ["message_delta", "message_stop"]
    assert kinds.count("content_block_start") == kinds.count("content_block_stop") == 3


@pytest.mark.parametrize(
    ("what", "sentence"),
    [
        ([], "valid dictionary"),
        ({"max_tokens": 1, "messages": [USER]}, "model: Field required"),
        ({"model": "m", "messages": [USER]}, "max_tokens: Field required"),
        (body(max_tokens=0), "greater than or equal to 1"),
        (body(max_tokens="many"), "valid integer"),
        ({"model": "m", "max_tokens": 1, "messages": []}, "at least one message"),
        (body(CALL), 'first message must use the "user" role'),
        (body({"role": "system", "content": "x"}), "messages.0.role"),
        (body({"role": "robot", "content": "x"}), "messages.0.role"),
        (body({"role": "user", "content": ""}), "non-empty content"),
        (body({"role": "user", "content": []}), "non-empty content"),
        (body({"role": "user", "content": [{"type": "text", "text": " "}]}), "must be non-empty"),
        (body({"role": "user", "content": [{"type": "nonsense"}]}), "Input tag 'nonsense'"),
        (body(USER, CALL), "without `tool_result` blocks immediately after: t1"),
        (body(USER, CALL, USER), "without `tool_result` blocks immediately after: t1"),
        (body(USER, RESULT), "unexpected `tool_use_id`"),
        (body(USER, CALL, RESULT, RESULT), "unexpected `tool_use_id`"),
        (body(tools=[{"name": "a"}]), "input_schema: Field required"),
        (body(tools=[{"name": "a", "input_schema": {}}, {"name": "a", "input_schema": {}}]), "must be unique"),
        (body(stream="yes"), "valid boolean"),
    ],
)
async def test_a_wrong_request_is_refused_like_the_real_one(
    api: ModelApi, http: aiohttp.ClientSession, what: object, sentence: str
) -> None:
    status, answer = await post(http, api, what)
    error = json.loads(answer)
    assert (status, error["type"], error["error"]["type"]) == (400, "error", "invalid_request_error")
    assert sentence in error["error"]["message"]


async def test_a_conversation_with_tools_and_a_system_entry_in_the_middle_is_accepted(api: ModelApi, http: aiohttp.ClientSession) -> None:
    status, _ = await post(http, api, body(USER, {"role": "system", "content": "x"}, CALL, RESULT))
    assert status == 200


@pytest.mark.parametrize(
    "headers", [{}, {"x-api-key": "other"}, {"Authorization": "Bearer other"}, {"Authorization": "Basic key"}, {"Authorization": "Bearer"}]
)
async def test_a_missing_or_unknown_key_is_401(api: ModelApi, http: aiohttp.ClientSession, headers: dict[str, str]) -> None:
    status, answer = await post(http, api, body(), {**headers, "anthropic-version": "2023-06-01"})
    assert (status, json.loads(answer)["error"]["type"]) == (401, "authentication_error")


async def test_a_bearer_token_is_a_key_too(api: ModelApi, http: aiohttp.ClientSession) -> None:
    status, _ = await post(http, api, body(), {"Authorization": "Bearer key", "anthropic-version": "2023-06-01"})
    assert status == 200


async def test_other_addresses_are_404_and_tokens_can_be_counted(api: ModelApi, http: aiohttp.ClientSession) -> None:
    async with http.get(f"{api.url}/v1/models", headers=HEADERS) as response:
        assert response.status == 404
        assert (await response.json())["error"]["type"] == "not_found_error"
    async with http.post(f"{api.url}/v1/messages/count_tokens", json=body(), headers=HEADERS) as response:
        assert (await response.json())["input_tokens"] > 0


async def test_an_error_has_its_status_its_headers_and_its_json(api: ModelApi, http: aiohttp.ClientSession) -> None:
    api.brain = lambda _: HttpError(529, "overloaded_error", "Overloaded", {"retry-after": "7"})
    async with http.post(f"{api.url}/v1/messages", json=body(), headers=HEADERS) as response:
        assert (response.status, response.headers["retry-after"]) == (529, "7")
        assert (await response.json())["error"] == {"type": "overloaded_error", "message": "Overloaded"}


async def test_a_gate_holds_the_stream_until_it_is_opened(api: ModelApi, http: aiohttp.ClientSession) -> None:
    gate = asyncio.Event()
    api.brain = lambda _: say(text("before", gate, "after"))
    async with http.post(f"{api.url}/v1/messages", json=body(stream=True), headers=HEADERS) as response:
        got = b""
        while b"before" not in got:
            got += await response.content.readany()
        assert b"after" not in got
        gate.set()
        assert b"after" in await response.content.read()


async def test_a_client_that_gives_up_is_seen(api: ModelApi, http: aiohttp.ClientSession) -> None:
    api.brain = lambda _: HangBeforeHeaders()
    asking = asyncio.create_task(post(http, api, body()))
    await api.log.wait_kind("request")
    asking.cancel()
    await asyncio.wait({asking})
    assert (await api.log.wait_kind("aborted")).request_seq == 0


@pytest.mark.parametrize("answer", [Reply((text("part"),), fault=Drop()), DropBeforeHeaders()])
async def test_a_dropped_connection_has_no_end(api: ModelApi, http: aiohttp.ClientSession, answer: Answer) -> None:
    api.brain = lambda _: answer
    with pytest.raises(aiohttp.ClientError):
        await post(http, api, body(stream=True))


@pytest.mark.parametrize(("fault", "shows"), [(Malformed(), "{this is no JSON"), (ErrorEvent(), "overloaded_error")])
async def test_a_broken_stream_has_no_message_stop(
    api: ModelApi, http: aiohttp.ClientSession, fault: Malformed | ErrorEvent, shows: str
) -> None:
    api.brain = lambda _: Reply((text("part"),), fault=fault)
    status, stream = await post(http, api, body(stream=True))
    assert status == 200
    assert shows in stream
    assert "message_stop" not in stream


async def test_the_default_brain_plays_the_script_and_a_repeated_request_gets_the_same_answer(
    api: ModelApi, http: aiohttp.ClientSession
) -> None:
    prompt = {"role": "user", "content": "say one\nwait 20m ci\n+ shell ls\nsay two"}
    first = [json.loads((await post(http, api, body(prompt)))[1])["content"] for _ in range(2)]
    assert [[block.get("name") or block["text"] for block in content] for content in first] == [
        ["one", "mcp__nightporter__wait", "Bash"]
    ] * 2
    calls = first[0][1:]
    results = [{"type": "tool_result", "tool_use_id": call["id"], "content": "ok"} for call in calls]
    after = body(prompt, {"role": "assistant", "content": first[0]}, {"role": "user", "content": results})
    second = json.loads((await post(http, api, after))[1])
    assert (second["content"], second["stop_reason"]) == ([{"type": "text", "text": "two"}], "end_turn")


async def test_the_log_shows_every_request_and_its_answer_and_never_a_key(api: ModelApi, http: aiohttp.ClientSession) -> None:
    seen: list[str] = []
    stop = api.log.subscribe(lambda entry: seen.append(entry.kind))
    await post(http, api, body())
    await post(http, api, {})
    stop()
    await post(http, api, body())
    assert seen == ["request", "answer", "request", "error"]
    assert [entry.status for entry in api.log] == [None, 200, None, 400, None, 200]
    assert [request.session for request in api.log.requests()] == ["s1"] * 3
    assert not any('"key"' in entry.to_json() for entry in api.log)


async def test_what_comes_behind_a_cut_is_due_once_the_program_has_kept_what_came_before_it(
    api: ModelApi, http: aiohttp.ClientSession
) -> None:
    asked = {"role": "user", "content": "say before the cut\ndie\nsay behind it"}
    kept = {"role": "assistant", "content": [{"type": "text", "text": "before the cut"}]}
    with pytest.raises(aiohttp.ClientError):
        await post(http, api, body(asked, stream=True))
    status, whole = await post(http, api, body(asked, kept))
    assert (status, [block["text"] for block in json.loads(whole)["content"]]) == (200, ["behind it"])
