"""The loopback Messages API: a real HTTP server for the real agent program.

It answers `POST /v1/messages` with and without streaming and `POST /v1/messages/count_tokens`, and 404 to all else, as
strictly as the real one where an agent can notice: keys, required fields, roles, pairs of tool calls and results.

Left out: prompt caching and its accounting (tokens are estimated from the length), images' and documents' contents, server-side
tools, batches, files, models, rate limits of its own (a brain answers 429 where a test wants one), beta headers, TLS.
"""

from __future__ import annotations

import asyncio
import inspect
import json
from collections.abc import Collection
from typing import Self, assert_never

from aiohttp import web

from bot.clock import Clock
from bot.loopback.model import wire
from bot.loopback.model.brain import Brain, script_brain
from bot.loopback.model.log import Entry, ModelLog, ModelRequest
from bot.loopback.model.replies import (
    Answer,
    Drop,
    DropBeforeHeaders,
    ErrorEvent,
    Hang,
    HangBeforeHeaders,
    HttpError,
    Malformed,
    Reply,
    StreamFault,
    Text,
    ToolUse,
)
from bot.loopback.model.validate import problem

#: The real API's own bound on a request.
_MAX_BYTES = 32 * 1024 * 1024


class ModelApi:
    """One server on 127.0.0.1. `keys` and `brain` may be changed while it runs."""

    def __init__(self, clock: Clock, *, keys: Collection[str], brain: Brain | None = None) -> None:
        self.keys = set(keys)
        self.brain: Brain = brain or script_brain(clock)
        self.log = ModelLog(clock.now_ms)
        self._runner: web.AppRunner | None = None
        self._url = ""

    @property
    def url(self) -> str:
        """The base URL, without a slash at the end."""
        return self._url

    async def start(self, port: int = 0) -> None:
        """Listen on 127.0.0.1; port 0 takes a free one."""
        app = web.Application(client_max_size=_MAX_BYTES)
        app.router.add_post("/v1/messages", self._messages)
        app.router.add_post("/v1/messages/count_tokens", self._count_tokens)
        app.router.add_route("*", "/{rest:.*}", self._not_found)
        # Cancellation tells an answer that nobody reads any more, which is how an interrupt looks from here.
        self._runner = web.AppRunner(app, handler_cancellation=True, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", port)
        await site.start()
        bound = self._runner.addresses[0][1]
        self._url = f"http://127.0.0.1:{bound}"

    async def close(self) -> None:
        """Stop listening and end what is being answered. Idempotent."""
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def _messages(self, request: web.Request) -> web.StreamResponse:
        body = await _json(request)
        asked = ModelRequest(
            session=request.headers.get("X-Claude-Code-Session-Id"),
            subagent=request.headers.get("x-claude-code-agent-id"),
            key=_key(request),
            stream=isinstance(body, dict) and body.get("stream") is True,
            body=body if isinstance(body, dict) else {},
        )
        entry = self.log.append("request", asked, tools=asked.tool_names)
        if (refusal := self._refusal(request, body)) is not None:
            return self._error(entry, refusal)
        try:
            decided = self.brain(asked)
            answer: Answer = await decided if inspect.isawaitable(decided) else decided
            return await self._answer(request, entry, answer)
        except (asyncio.CancelledError, ConnectionError):
            self.log.append("aborted", asked, request_seq=entry.seq)
            raise

    def _refusal(self, request: web.Request, body: object) -> HttpError | None:
        key = _key(request)
        if key is None:
            return HttpError(401, "authentication_error", "x-api-key header is required")
        if key not in self.keys:
            bearer = "Authorization" in request.headers
            return HttpError(401, "authentication_error", "Invalid bearer token" if bearer else "invalid x-api-key")
        if "anthropic-version" not in request.headers:
            return HttpError(400, "invalid_request_error", "anthropic-version: header is required")
        if (wrong := problem(body)) is not None:
            return HttpError(400, "invalid_request_error", wrong)
        return None

    def _error(self, entry: Entry, error: HttpError) -> web.Response:
        self.log.append("error", entry.request, request_seq=entry.seq, status=error.status, text=error.message)
        return web.json_response(wire.error_body(error.kind, error.message), status=error.status, headers=dict(error.headers))

    async def _answer(self, request: web.Request, entry: Entry, answer: Answer) -> web.StreamResponse:
        match answer:
            case HttpError():
                return self._error(entry, answer)
            case HangBeforeHeaders():
                return await _for_ever()
            case DropBeforeHeaders():
                self.log.append("error", entry.request, request_seq=entry.seq, text="dropped")
                return _drop(request)
            case Reply():
                if answer.gate is not None:
                    await answer.gate.wait()
                if entry.request.stream:
                    return await self._stream(request, entry, answer)
                return await self._whole(request, entry, answer)
            case _:
                assert_never(answer)

    async def _whole(self, request: web.Request, entry: Entry, reply: Reply) -> web.StreamResponse:
        match reply.fault:
            case Hang():
                return await _for_ever()
            case Drop():
                return _drop(request)
            case _:
                pass
        for block in reply.blocks:
            if isinstance(block, Text):
                for gate in (piece for piece in block.pieces if isinstance(piece, asyncio.Event)):
                    await gate.wait()
        response = web.json_response(wire.whole(reply, entry.request.model))
        self._answered(entry, reply)
        return response

    async def _stream(self, request: web.Request, entry: Entry, reply: Reply) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream; charset=utf-8", "Cache-Control": "no-cache"})
        await response.prepare(request)
        for piece in wire.opening(reply, entry.request.model):
            if isinstance(piece, asyncio.Event):
                await piece.wait()
            else:
                await response.write(piece)
        if reply.fault is not None:
            return await self._break(request, entry, response, reply.fault)
        # Logged before the last bytes: who reads the answer's end must find it in the log.
        self._answered(entry, reply)
        for last in wire.closing(reply):
            await response.write(last)
        await response.write_eof()
        return response

    async def _break(self, request: web.Request, entry: Entry, response: web.StreamResponse, fault: StreamFault) -> web.StreamResponse:
        match fault:
            case Hang():
                return await _for_ever()
            case Drop():
                self.log.append("error", entry.request, request_seq=entry.seq, text="dropped")
                _drop(request)
                return response
            case Malformed():
                await response.write(b"event: content_block_delta\ndata: {this is no JSON\n\n")
            case ErrorEvent(kind, message):
                await response.write(f"event: error\ndata: {json.dumps(wire.error_body(kind, message))}\n\n".encode())
            case _:
                assert_never(fault)
        self.log.append("error", entry.request, request_seq=entry.seq, text=type(fault).__name__)
        await response.write_eof()
        return response

    def _answered(self, entry: Entry, reply: Reply) -> None:
        words = "\n".join(block.text for block in reply.blocks if isinstance(block, Text))
        tools = tuple(block.name for block in reply.blocks if isinstance(block, ToolUse))
        self.log.append("answer", entry.request, request_seq=entry.seq, status=200, text=words, tools=tools)

    async def _count_tokens(self, request: web.Request) -> web.Response:
        body = await _json(request)
        key = _key(request)
        if key is None or key not in self.keys:
            return web.json_response(wire.error_body("authentication_error", "invalid x-api-key"), status=401)
        # About four characters a token is near enough for a budget that nobody bills.
        return web.json_response({"input_tokens": len(json.dumps(body)) // 4})

    async def _not_found(self, _request: web.Request) -> web.Response:
        return web.json_response(wire.error_body("not_found_error", "Not found"), status=404)


async def _json(request: web.Request) -> object:
    try:
        return await request.json()
    except ValueError:
        return None


def _key(request: web.Request) -> str | None:
    if (key := request.headers.get("x-api-key")) is not None:
        return key
    scheme, _, token = request.headers.get("Authorization", "").partition(" ")
    return token if scheme == "Bearer" and token else None


async def _for_ever() -> web.StreamResponse:
    # Ends by cancellation only: the client goes away, or the server is closed.
    await asyncio.get_running_loop().create_future()
    raise AssertionError("unreachable")


def _drop(request: web.Request) -> web.StreamResponse:
    if request.transport is not None:
        # What was written arrives, its proper end does not.
        request.transport.close()
    return web.Response()
