"""Translates the SDK's messages of one turn into agent events, and its end into `RunEnded`. Pure: no clock, no process."""

from __future__ import annotations

from collections.abc import Iterator

from claude_agent_sdk import (
    AssistantMessage,
    RateLimitEvent,
    ResultMessage,
    StreamEvent,
    SystemMessage,
    TextBlock,
    ToolResultBlock,
    ToolUseBlock,
    UserMessage,
)

from bot.agents.base import (
    AgentEvent,
    EndKind,
    ErrorKind,
    MessageDone,
    Notice,
    RunEnded,
    TextDelta,
    ToolEnded,
    ToolStarted,
    Usage,
)
from bot.agents.claude import limits
from bot.agents.claude.names import shown_tool

#: What the program calls a rejected credential, in its retries and in its last message.
REJECTED_KEY = "authentication_failed"

_BY_STATUS = {
    400: ErrorKind.BAD_REQUEST,
    401: ErrorKind.AUTH,
    403: ErrorKind.AUTH,
    413: ErrorKind.BAD_REQUEST,
    429: ErrorKind.RATE_LIMIT,
    529: ErrorKind.OVERLOADED,
}
_BY_NAME = {
    REJECTED_KEY: ErrorKind.AUTH,
    "oauth_org_not_allowed": ErrorKind.AUTH,
    "billing_error": ErrorKind.AUTH,
    "rate_limit": ErrorKind.RATE_LIMIT,
    "overloaded": ErrorKind.OVERLOADED,
    "server_error": ErrorKind.API,
    "invalid_request": ErrorKind.BAD_REQUEST,
}

_SERVER_ERRORS = 500


class TurnTranslator:
    """The messages of one turn, in order. Block ids count the agent's own text blocks, as `transcript.outcome` does."""

    def __init__(self) -> None:
        self._blocks = 0
        #: Whether the growing block already showed something, and whether that has become void.
        self._shown = False
        self._void = False
        self._error: str | None = None
        self._limit: RateLimitEvent | None = None

    def limit(self, event: RateLimitEvent) -> None:
        """The account's limits changed; remembered for the end of the turn."""
        self._limit = event if event.rate_limit_info.status == "rejected" else None

    def stream(self, message: StreamEvent) -> Iterator[AgentEvent]:
        """A piece of a message that still grows."""
        if message.parent_tool_use_id is not None:
            return
        match message.event:
            case {"type": "message_start"}:
                # The request was repeated: what the interrupted attempt showed is void.
                self._void = self._shown
            case {"type": "content_block_delta", "delta": {"type": "text_delta", "text": str(text)}} if text:
                yield TextDelta(f"b{self._blocks}", text, restart=self._void)
                self._shown, self._void = True, False
            case _:
                return

    def assistant(self, message: AssistantMessage) -> Iterator[AgentEvent]:
        """One complete block of the agent or of a sub-agent."""
        if message.model == "<synthetic>":
            # The program's own words: an error, which the result brings again.
            self._error = message.error or self._error
            return
        subagent = message.parent_tool_use_id is not None
        for block in message.content:
            match block:
                case TextBlock(text=text) if text and not subagent:
                    yield MessageDone(f"b{self._blocks}", text)
                    self._blocks += 1
                    self._shown = self._void = False
                case ToolUseBlock(id=tool_id, name=name, input=arguments):
                    shown, ours, summary = shown_tool(name, arguments)
                    yield ToolStarted(tool_id, shown, summary, ours=ours, subagent=subagent)
                case _:
                    pass

    def user(self, message: UserMessage) -> Iterator[AgentEvent]:
        """Results of tools."""
        for block in message.content if isinstance(message.content, list) else ():
            if isinstance(block, ToolResultBlock):
                yield ToolEnded(block.tool_use_id, is_error=block.is_error is True)

    def system(self, message: SystemMessage) -> Iterator[AgentEvent]:
        """What the program tells about itself."""
        data = message.data
        match message.subtype:
            case "api_retry":
                status = data.get("error_status") or "no answer"
                yield Notice("retry", f"model request failed ({status}); attempt {data.get('attempt')} of {data.get('max_retries')}")
            case "model_fallback":
                yield Notice("fallback", str(data.get("message") or data.get("fallback_model") or "another model answers"))
            case "compact_boundary":
                yield Notice("other", "the conversation was summarised to fit")
            case _:
                return

    def usage(self, message: ResultMessage, cost_before_usd: float) -> Usage:
        """Tokens of the turn; the program's cost counts the session, so what it was before is taken off."""
        usage = message.usage or {}
        names = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
        tokens = sum(value for name in names if isinstance(value := usage.get(name), int))
        output = usage.get("output_tokens")
        cost = None if message.total_cost_usd is None else max(0.0, message.total_cost_usd - cost_before_usd)
        return Usage("turn", tokens, output if isinstance(output, int) else 0, cost)

    def result(self, message: ResultMessage, now_ms: int) -> RunEnded:
        """How the turn ended, as the program says at `now_ms`."""
        if message.stop_reason == "refusal":
            return RunEnded(EndKind.REFUSED, detail="The model declined to answer.")
        if not message.is_error:
            return RunEnded(EndKind.COMPLETED)
        said = " ".join((message.result or "; ".join(message.errors or ()) or message.subtype).split())
        if (message.terminal_reason or "").startswith("aborted"):
            return RunEnded(EndKind.INTERRUPTED, detail="Stopped.")
        if self._limit is not None or limits.is_limit(said):
            resets = self._limit.rate_limit_info.resets_at if self._limit is not None else None
            return RunEnded(EndKind.LIMIT, detail=said, resets_at_ms=limits.reset_ms(said, now_ms) if resets is None else resets * 1000)
        return RunEnded(EndKind.FAILED, self._kind(message), said)

    def _kind(self, message: ResultMessage) -> ErrorKind:
        if message.terminal_reason in {"prompt_too_long", "blocking_limit"}:
            return ErrorKind.PROMPT_TOO_LONG
        status = message.api_error_status
        if status is not None:
            return _BY_STATUS.get(status, ErrorKind.API if status >= _SERVER_ERRORS else ErrorKind.UNKNOWN)
        if self._error in _BY_NAME:
            return _BY_NAME[self._error]
        if "/login" in (message.result or ""):
            return ErrorKind.AUTH
        return ErrorKind.NETWORK if message.terminal_reason == "api_error" else ErrorKind.UNKNOWN
