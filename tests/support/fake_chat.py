"""A strict chat in memory behind `bot.runtime.ports.Chat`: refuses what Discord refuses, and can misbehave when told to.

Nonces are unique for a window: within it the same nonce brings back the same message and makes no new one. The history shows
no nonces. Every post wakes whoever waits in `until`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from bot.clock import Clock
from bot.gateway.render import split
from bot.runtime.ports import OutcomeUnknown, Paused, Posted, Rejected, SendResult, Sent, Wait
from storage.guard import refuse_in_transaction
from storage.models import Part

_LONGEST = 2_000
_LONGEST_NONCE = 25
#: Ids grow with time: what the bot posts is newer than what it answers.
_FIRST_ID = 1_000_000_000_000
#: "The past few minutes" (developer docs, Create Message).
NONCE_WINDOW_S = 180.0


@dataclass
class Message:
    """One message of the bot in a channel."""

    id: int
    channel_id: int
    text: str
    nonce: str
    part: Part
    at_s: float
    created_ms: int


@dataclass
class FakeChat:
    """Knows every channel it is asked about."""

    clock: Clock
    ready: bool = True
    messages: list[Message] = field(default_factory=list)
    attempts: list[Part] = field(default_factory=list)
    seen_ids: list[int] = field(default_factory=list)
    typed: int = 0
    #: Answers for the next attempts; None posts. "lost" posts and loses the response, "gone" loses the request.
    faults: list[SendResult | str | None] = field(default_factory=list)
    #: The same by the part that is attempted, asked when the list is empty.
    fault_of: Callable[[Part], SendResult | str | None] = lambda _part: None
    history_unreadable: bool = False
    #: So many readings of a history fail before one succeeds.
    history_outage: int = 0
    #: Held attempts wait here until the test lets them go.
    hold: asyncio.Event | None = None
    changed: Callable[[], None] = lambda: None

    def texts(self, channel_id: int) -> list[str]:
        return [message.text for message in self.messages if message.channel_id == channel_id]

    async def send(self, part: Part, deadline_s: float) -> SendResult:
        refuse_in_transaction("posting")
        assert deadline_s > 0
        if not self.ready:
            return Paused("not connected")
        if not part.text.strip() or len(part.text) > _LONGEST:
            return Rejected(f"bad content ({len(part.text)} characters)")
        if not 0 < len(part.nonce) <= _LONGEST_NONCE:
            return Rejected("bad nonce")
        self.attempts.append(part)
        fault = self.faults.pop(0) if self.faults else self.fault_of(part)
        if isinstance(fault, Wait | Rejected | OutcomeUnknown | Paused | Sent):
            self.changed()
            return fault
        if fault == "gone":
            self.changed()
            return OutcomeUnknown("no answer in time")
        if self.hold is not None:
            await self.hold.wait()
        message = self._post(part)
        self.changed()
        return OutcomeUnknown("the connection broke") if fault == "lost" else Sent(message.id)

    def _post(self, part: Part) -> Message:
        now_s = self.clock.monotonic_s()
        for known in self.messages:
            if known.nonce == part.nonce and known.channel_id == part.channel_id and now_s - known.at_s < NONCE_WINDOW_S:
                return known
        made = Message(_FIRST_ID + len(self.messages), part.channel_id, part.text.strip(), part.nonce, part, now_s, self.clock.now_ms())
        self.messages.append(made)
        return made

    async def history(self, channel_id: int, after_id: int, after_ms: int = 0) -> tuple[Posted, ...] | Rejected | None:
        refuse_in_transaction("reading a channel")
        if self.history_unreadable:
            return Rejected(f"no access to {self.channel_name(channel_id)}")
        if self.history_outage:
            self.history_outage -= 1
            self.changed()
            return None
        return tuple(
            Posted(m.id, m.text, m.part.reply_to_id, m.created_ms)
            for m in self.messages
            if m.channel_id == channel_id and (m.id > after_id if after_id else m.created_ms >= after_ms)
        )

    async def typing(self, channel_id: int) -> None:
        self.typed += 1

    async def seen(self, channel_id: int, message_id: int) -> None:
        self.seen_ids.append(message_id)
        self.changed()

    def split(self, text: str) -> list[str]:
        return split(text)

    def channel_name(self, channel_id: int) -> str:
        return f"#channel-{channel_id}"
