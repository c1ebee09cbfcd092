"""Turns a reply into the wire format of the Messages API: one JSON message, or its server-sent events."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Iterator, Mapping
from typing import assert_never

from bot.loopback.model.replies import Block, Reply, Text, Thinking, ToolUse

_ids = itertools.count(1)

#: What a stream is made of: the bytes of an event, or a gate to wait for.
Piece = bytes | asyncio.Event


def new_message_id() -> str:
    """An id as the API makes them; the agent's program keys its blocks on it."""
    return f"msg_{next(_ids):024d}"


def event(name: str, data: Mapping[str, object]) -> bytes:
    """One server-sent event."""
    return f"event: {name}\ndata: {json.dumps({'type': name, **data})}\n\n".encode()


def whole(reply: Reply, model: str) -> dict[str, object]:
    """The answer without streaming."""
    return {
        **_head(model, reply),
        "content": [_whole_block(block) for block in reply.blocks],
        "stop_reason": reply.natural_stop,
        "usage": {**_usage(reply), "output_tokens": reply.output_tokens},
    }


def opening(reply: Reply, model: str) -> Iterator[Piece]:
    """The events from message_start to the last block's end."""
    yield event("message_start", {"message": {**_head(model, reply), "content": []}})
    yield event("ping", {})
    for index, block in enumerate(reply.blocks):
        yield event("content_block_start", {"index": index, "content_block": _empty_block(block)})
        yield from _deltas(index, block)
        yield event("content_block_stop", {"index": index})


def closing(reply: Reply) -> Iterator[bytes]:
    """The events that end a message properly."""
    delta = {"stop_reason": reply.natural_stop, "stop_sequence": None}
    yield event("message_delta", {"delta": delta, "usage": {"output_tokens": reply.output_tokens}})
    yield event("message_stop", {})


def error_body(kind: str, message: str) -> dict[str, object]:
    """The JSON of an error, in a response or in a stream."""
    return {"type": "error", "error": {"type": kind, "message": message}, "request_id": f"req_{next(_ids):024d}"}


def _head(model: str, reply: Reply) -> dict[str, object]:
    return {
        "id": new_message_id(),
        "type": "message",
        "role": "assistant",
        "model": model,
        "stop_reason": None,
        "stop_sequence": None,
        "usage": _usage(reply),
    }


def _usage(reply: Reply) -> dict[str, object]:
    return {
        "input_tokens": reply.input_tokens,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": 0,
        "output_tokens": 1,
        "service_tier": "standard",
    }


def _whole_block(block: Block) -> dict[str, object]:
    match block:
        case Text():
            return {"type": "text", "text": block.text}
        case Thinking():
            return {"type": "thinking", "thinking": block.text, "signature": "loopback"}
        case ToolUse():
            return {"type": "tool_use", "id": block.id, "name": block.name, "input": dict(block.input)}
        case _:
            assert_never(block)


def _empty_block(block: Block) -> dict[str, object]:
    match block:
        case Text():
            return {"type": "text", "text": ""}
        case Thinking():
            return {"type": "thinking", "thinking": "", "signature": ""}
        case ToolUse():
            return {"type": "tool_use", "id": block.id, "name": block.name, "input": {}}
        case _:
            assert_never(block)


def _deltas(index: int, block: Block) -> Iterator[Piece]:
    def delta(kind: str, name: str, value: str) -> bytes:
        return event("content_block_delta", {"index": index, "delta": {"type": kind, name: value}})

    match block:
        case Text():
            for piece in block.pieces:
                yield delta("text_delta", "text", piece) if isinstance(piece, str) else piece
        case Thinking():
            yield delta("thinking_delta", "thinking", block.text)
            yield delta("signature_delta", "signature", "loopback")
        case ToolUse():
            yield delta("input_json_delta", "partial_json", json.dumps(dict(block.input)))
        case _:
            assert_never(block)
