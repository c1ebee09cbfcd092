"""Answers the agent's calls of our tools within one run: each stores and returns, and is bound to that run and its fence."""

from __future__ import annotations

from collections.abc import Mapping

import structlog

from bot.agents.base import ToolResult
from bot.agents.tools import CANCEL_WAIT, SEND_MESSAGE, SKIP_REPLY, WAIT
from bot.runtime import notices, receipts, waits
from bot.runtime.prose import Prose
from bot.runtime.services import Services
from bot.runtime.timing import beat_within
from storage.errors import NotRead, NotStored, OutcomeUnknown, StorageError
from storage.events import Cancel, Code, Entity, NewPart, Refusal, Say, Skip, Wait
from storage.models import Conversation, Part, PartId, PartKind, Run
from storage.states import OPEN_PART, ContinuationState
from storage.store import Done

log = structlog.get_logger(__name__)

#: A message of the agent's own is for people to read, not a dump; about ten of Discord's messages.
_LONGEST_TEXT = 20_000

_REFUSALS = {
    Code.STOPPED: "[refused] a person stopped this turn; nothing was done. End your turn.",
    Code.UNATTENDED: (
        "[refused] you have worked for long without a person speaking, so no further wait is taken. "
        "End your turn and say what is open; people decide whether you go on."
    ),
}
_STALE = "[refused] this turn is no longer the current one; nothing was done. End your turn."


class TurnTools:
    """The handler of one run's tool calls."""

    def __init__(self, services: Services, conversation: Conversation, run: Run, prose: Prose) -> None:
        self._services = services
        self._conversation = conversation
        self._run = run
        self._prose = prose
        #: `skip_reply` was called: narration stays in.
        self.skipped = False
        #: Why the agent wanted to be woken, where the unattended bound did not let it.
        self.refused_wait: str | None = None
        #: `send_message` has queued something.
        self.sent = False

    async def __call__(self, name: str, arguments: Mapping[str, object]) -> ToolResult:
        """See `bot.agents.base.ToolHandler`. A database that cannot store is an error that the agent can read, never a lie."""
        try:
            match name:
                case "wait":
                    return await self._wait(arguments)
                case "cancel_wait":
                    return await self._cancel_wait()
                case "send_message":
                    return await self._send_message(arguments)
                case "skip_reply":
                    return await self._skip_reply(arguments)
                case _:
                    return _error(f"[error] there is no tool {name!r}; there are {WAIT}, {CANCEL_WAIT}, {SEND_MESSAGE} and {SKIP_REPLY}.")
        except StorageError as error:
            log.warning("tool.not_stored", tool=name, run=self._run.id, error=str(error))
            return _error("[error] Nightporter could not store this at the moment, so it does not hold. You may try once more.")

    async def _wait(self, arguments: Mapping[str, object]) -> ToolResult:
        planned = waits.plan(arguments.get("delay"), self._services.clock.now_ms(), self._services.config.wait)
        if isinstance(planned, waits.BadDelay):
            return _error(planned.says)
        reason = waits.reason_of(arguments.get("reason"))
        if reason is None:
            return _error("[error] say in `reason` what you will do when you are woken. Nothing was scheduled.")
        run = self._run
        # Read first: once the wait is stored, nothing may say that it is not.
        live = await self._services.store.continuations.live(self._conversation.id)
        armed = next((c.id for c in live if c.state in {ContinuationState.PENDING, ContinuationState.CLAIMED}), None)
        outcome = await self._do(Wait(self._services.instance, run.id, run.fence, reason, planned.due_at_ms, planned.expires_at_ms))
        if isinstance(outcome, Refusal):
            if outcome.code is Code.UNATTENDED:
                self.refused_wait = reason
            return _refused(outcome)
        (asked,) = outcome.inserted(Entity.CONTINUATION)
        return ToolResult(waits.scheduled(asked.id, planned, armed))

    async def _cancel_wait(self) -> ToolResult:
        live = await self._services.store.continuations.live(self._conversation.id)
        ended: list[str] = []
        run, why = self._run, "the agent called cancel_wait"
        for continuation in live:
            event = Cancel("agent", continuation.id, why, by_agent=True, run_id=run.id, fence=run.fence)
            outcome = await self._do(event)
            if isinstance(outcome, Done):
                ended.append(f"c{continuation.id}")
            elif outcome.code is Code.STALE_FENCE:
                return _refused(outcome)
        if not ended:
            return ToolResult("[nothing] no wait is pending.")
        return ToolResult(f"[cancelled] {', '.join(ended)}: it will not wake you.")

    async def _send_message(self, arguments: Mapping[str, object]) -> ToolResult:
        text = arguments.get("text")
        if not isinstance(text, str) or not text.strip():
            return _error("[error] `text` is empty; nothing was sent.")
        if len(text) > _LONGEST_TEXT:
            return _error(f"[error] the text has {len(text)} characters, more than {_LONGEST_TEXT}; nothing was sent. Shorten it.")
        parts = notices.words(PartKind.SENT, self._services.chat.split(text))
        queued = await self._say(parts)
        if isinstance(queued, Refusal):
            return _refused(queued)
        self.sent = True
        self._prose.sent(text)
        try:
            return ToolResult(await self._receipt(queued))
        except NotRead as error:
            log.warning("tool.receipt_not_read", run=self._run.id, error=str(error))
            return ToolResult("[sending] your message is stored and will be posted; do not repeat it")

    async def _say(self, parts: tuple[NewPart, ...]) -> list[PartId] | Refusal:
        """Queue them; their ids once they are stored, also where only a look afterwards could tell."""
        try:
            outcome = await self._services.ledger.do(Say(self._services.instance, self._run.id, self._run.fence, parts))
        except OutcomeUnknown:
            if stored := await self._services.ledger.stored([part.nonce for part in parts]):
                return stored
            raise
        return outcome if isinstance(outcome, Refusal) else [PartId(row.id) for row in outcome.inserted(Entity.PART)]

    async def _receipt(self, queued: list[PartId]) -> str:
        """The receipt once all are terminal, or what is known after the limit. Raises NotRead."""
        services = self._services
        until_s = services.clock.monotonic_s() + services.config.send_tool_wait_s
        while True:
            beat = services.ledger.parts_ended.next()
            parts = await self._parts(queued)
            left_s = until_s - services.clock.monotonic_s()
            if left_s <= 0 or not any(part.state in OPEN_PART for part in parts):
                beat.cancel()
                break
            await beat_within(beat, services.clock, left_s)
        return self._told(parts)

    async def _parts(self, queued: list[PartId]) -> list[Part]:
        found = [await self._services.store.outbox.by_id(part_id) for part_id in queued]
        return [part for part in found if part is not None]

    def _told(self, parts: list[Part]) -> str:
        channel_id = self._conversation.channel_id
        since = self._services.unreachable_since_ms(channel_id)
        if since is None and any(part.state in OPEN_PART for part in parts):
            # Nothing is known against the channel, but the limit of this call has passed.
            since = min(part.queued_ms for part in parts)
        name = self._services.chat.channel_name(channel_id)
        return "\n".join(receipts.of_parts("your message", parts, receipts.Channel(name, since)))

    async def _skip_reply(self, arguments: Mapping[str, object]) -> ToolResult:
        reason = waits.reason_of(arguments.get("reason"))
        if reason is None:
            return _error("[error] say in `reason` why nothing is posted.")
        outcome = await self._do(Skip(self._services.instance, self._run.id, self._run.fence, reason))
        if isinstance(outcome, Refusal):
            return _refused(outcome)
        self.skipped = True
        return ToolResult("[private] nothing more that you write in this turn is posted. End your turn.")

    async def _do(self, event: Wait | Cancel | Skip) -> Done | Refusal:
        try:
            return await self._services.ledger.do(event)
        except (NotStored, OutcomeUnknown):
            # These may be repeated: a second wait takes the place of the first.
            return await self._services.ledger.do(event)


def _error(text: str) -> ToolResult:
    return ToolResult(text, is_error=True)


def _refused(refusal: Refusal) -> ToolResult:
    return _error(_REFUSALS.get(refusal.code, _STALE))
