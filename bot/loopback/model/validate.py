"""What the real Messages API refuses with 400, as far as an agent's program can run into it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from bot.loopback.model.log import Wire, blocks_of

_BLOCKS = {
    "user": {"text", "image", "document", "tool_result", "search_result"},
    "assistant": {"text", "thinking", "redacted_thinking", "tool_use", "server_tool_use", "web_search_tool_result"},
    "system": {"text"},
}


def problem(body: object) -> str | None:
    """None if the request is acceptable, else the real API's kind of sentence, with the path of the field."""
    if not isinstance(body, dict):
        return "Input should be a valid dictionary"
    return _fields(body) or _tools(body.get("tools")) or _messages(body["messages"])


def _fields(body: Mapping[str, object]) -> str | None:
    for name in ("model", "max_tokens", "messages"):
        if name not in body:
            return f"{name}: Field required"
    if not isinstance(body["model"], str) or not body["model"]:
        return "model: Input should be a valid string"
    limit = body["max_tokens"]
    if not isinstance(limit, int) or isinstance(limit, bool):
        return "max_tokens: Input should be a valid integer"
    if limit < 1:
        return "max_tokens: must be greater than or equal to 1"
    if not isinstance(body["messages"], list):
        return "messages: Input should be a valid list"
    if not body["messages"]:
        return "messages: at least one message is required"
    if not isinstance(body.get("stream", False), bool):
        return "stream: Input should be a valid boolean"
    if not isinstance(body.get("system", ""), str | list):
        return "system: Input should be a valid string or list"
    return None


def _tools(tools: object) -> str | None:
    if tools is None:
        return None
    if not isinstance(tools, list):
        return "tools: Input should be a valid list"
    seen: set[str] = set()
    for at, tool in enumerate(tools):
        name = tool.get("name") if isinstance(tool, dict) else None
        if not isinstance(name, str) or not name:
            return f"tools.{at}.name: Field required"
        # Server-side tools are known by their type and bring no schema.
        if tool.get("type", "custom") == "custom" and not isinstance(tool.get("input_schema"), dict):
            return f"tools.{at}.custom.input_schema: Field required"
        if name in seen:
            return "tools: Tool names must be unique."
        seen.add(name)
    return None


def _messages(messages: Sequence[object]) -> str | None:
    open_calls: list[str] = []
    for at, message in enumerate(messages):
        if not isinstance(message, dict):
            return f"messages.{at}: Input should be a valid dictionary"
        role = message.get("role")
        if role not in _BLOCKS or (role == "system" and at == 0):
            return f"messages.{at}.role: Input should be 'user' or 'assistant'"
        if at == 0 and role != "user":
            return 'messages: first message must use the "user" role'
        if (wrong := _content(at, str(role), message)) is not None:
            return wrong
        if role == "system":
            continue
        if (wrong := _pairs(at, str(role), message, open_calls)) is not None:
            return wrong
        open_calls = [str(block["id"]) for block in blocks_of(message) if block.get("type") == "tool_use"]
    return _unanswered(len(messages) - 1, open_calls) if open_calls else None


def _unanswered(at: int, calls: Sequence[str]) -> str:
    return f"messages.{at}: `tool_use` ids were found without `tool_result` blocks immediately after: {', '.join(calls)}"


def _content(at: int, role: str, message: Wire) -> str | None:
    content = message.get("content")
    if isinstance(content, str):
        return None if content else f"messages.{at}: {role} messages must have non-empty content"
    if not isinstance(content, list):
        return f"messages.{at}.content: Input should be a valid string or list"
    if not content:
        return f"messages.{at}: {role} messages must have non-empty content"
    for number, block in enumerate(content):
        kind = block.get("type") if isinstance(block, dict) else None
        if kind not in _BLOCKS[role]:
            return f"messages.{at}.content.{number}: Input tag {kind!r} found using 'type' does not match any of the expected tags"
        if kind == "text" and not str(block.get("text", "")).strip():
            return "messages: text content blocks must be non-empty"
        if kind == "tool_use" and not (isinstance(block.get("id"), str) and isinstance(block.get("input"), dict)):
            return f"messages.{at}.content.{number}.tool_use: id and input are required"
    return None


def _pairs(at: int, role: str, message: Wire, open_calls: Sequence[str]) -> str | None:
    """Each tool_use of an assistant message is answered once, in the very next message, and nothing else is."""
    results = [str(block.get("tool_use_id")) for block in blocks_of(message) if block.get("type") == "tool_result"]
    if role == "user":
        for result in results:
            if result not in open_calls:
                return f"messages.{at}.content: unexpected `tool_use_id` found in `tool_result` blocks: {result}"
        if len(set(results)) != len(results):
            return f"messages.{at}.content: each tool_use must have a single result"
    missing = [call for call in open_calls if call not in results]
    return _unanswered(at - 1, missing) if missing else None
