"""Posts what is queued: one sender for each channel, in order, each part at most once (design section 7).

An attempt is stored before it is made (C6) and its receipt after it (C7). In between anything may happen: the same nonce is
repeated while Discord remembers it, after that the channel's history decides, and what it cannot decide is `unknown`.
"""

from __future__ import annotations

import asyncio
from typing import assert_never

import structlog

from bot.runtime import notices, reconcile
from bot.runtime.ports import OutcomeUnknown, Paused, Rejected, SendResult, Sent, Wait
from bot.runtime.services import Services
from bot.runtime.timing import set_within
from storage.events import Absent, Event, Fail, Receipt, Refusal, Retry, Send, TakePart, Undecided
from storage.models import Part, PartId
from storage.states import PartState
from storage.store import Done
from storage.transitions import next_step

log = structlog.get_logger(__name__)

#: Channels looked at in one pass.
_HEADS = 200
#: Clocks of this machine and of the chat service differ; history is read from so long before the first attempt.
_HISTORY_SLACK_MS = 5_000


class Senders:
    """Posts the parts of all channels; owns one task for each channel that has something to send."""

    def __init__(self, reach: Reach) -> None:
        self._reach = reach
        #: Channels whose sender works.
        self._busy: set[int] = set()
        #: When a channel may be tried again, monotonic seconds.
        self._not_before_s: dict[int, float] = {}
        self._failures: dict[int, int] = {}

    async def step(self, services: Services) -> None:
        """One look at every channel's first open part, after a hint or a pause."""
        clock, ledger = services.clock, services.ledger
        await set_within(ledger.outbox, clock, services.config.sweep_s)
        ledger.outbox.clear()
        if not services.chat.ready:
            self._reach.nothing(clock.now_ms())
            return
        self._reach.everything()
        await self._take_over(services)
        for part in await services.store.outbox.sendable(clock.now_ms(), _HEADS):
            if self._not_before_s.get(part.channel_id, 0.0) <= clock.monotonic_s():
                self._spawn(services, part)

    async def _take_over(self, services: Services) -> None:
        """Parts that processes now gone were sending."""
        for part in await services.store.outbox.held_by_others(services.instance):
            event = TakePart(services.instance, part.id, self.deadline_ms(services), holder_gone=services.gone(part.holder))
            outcome = await services.ledger.do(event)
            if isinstance(outcome, Done):
                log.info("part.taken_over", part=part.id, holder=part.holder)
                self._spawn(services, part)

    def _spawn(self, services: Services, part: Part) -> None:
        if part.channel_id not in self._busy:
            self._busy.add(part.channel_id)
            services.supervisor.spawn(f"outbox.{part.channel_id}", self._channel(services, part))

    @property
    def idle(self) -> bool:
        """Whether no sender works at the moment."""
        return not self._busy

    async def _channel(self, services: Services, head: Part) -> None:
        """Bring one part as far as it goes now; the next one is found by the next look."""
        try:
            await _Attempt(self, services, head.id, head.channel_id).drive()
        finally:
            self._busy.discard(head.channel_id)
            services.ledger.outbox.set()

    # --- what the attempts tell --------------------------------------------------------------------------------------------

    def pause(self, services: Services, channel_id: int, seconds: float) -> None:
        """Leave the channel alone for so long."""
        self._not_before_s[channel_id] = services.clock.monotonic_s() + seconds

    def succeeded(self, channel_id: int) -> None:
        """Something arrived there."""
        self._failures.pop(channel_id, None)
        self._not_before_s.pop(channel_id, None)
        self._reach.reached(channel_id)

    def failed(self, services: Services, channel_id: int) -> None:
        """An outcome is not known; the next try comes a little later each time."""
        failures = self._failures.get(channel_id, 0)
        self._failures[channel_id] = failures + 1
        self._reach.not_reached(channel_id, services.clock.now_ms())
        pauses_s = services.config.send_pauses_s
        self.pause(services, channel_id, pauses_s[min(failures, len(pauses_s) - 1)])

    @staticmethod
    def deadline_ms(services: Services) -> int:
        """The hard end of an attempt that begins now."""
        return services.clock.now_ms() + round(services.config.send_deadline_s * 1_000)


class Reach:
    """Since when nothing could be posted, in all and in single channels."""

    def __init__(self) -> None:
        self._all_since_ms: int | None = None
        self._since_ms: dict[int, int] = {}

    def since_ms(self, channel_id: int) -> int | None:
        """None: nothing is known against it."""
        known = [ms for ms in (self._all_since_ms, self._since_ms.get(channel_id)) if ms is not None]
        return min(known, default=None)

    def nothing(self, now_ms: int) -> None:
        """The chat side is not ready."""
        self._all_since_ms = now_ms if self._all_since_ms is None else self._all_since_ms

    def everything(self) -> None:
        """The chat side is ready."""
        self._all_since_ms = None

    def not_reached(self, channel_id: int, now_ms: int) -> None:
        """An attempt got no answer."""
        self._since_ms.setdefault(channel_id, now_ms)

    def reached(self, channel_id: int) -> None:
        """An attempt arrived."""
        self._since_ms.pop(channel_id, None)


class _Attempt:
    """One part, driven until it is terminal or has to wait."""

    def __init__(self, senders: Senders, services: Services, part_id: PartId, channel_id: int) -> None:
        self._senders = senders
        self._services = services
        self._part_id = part_id
        self._channel_id = channel_id

    async def drive(self) -> None:
        part = await self._begin()
        while part is not None:
            match next_step(part, self._services.clock.now_ms(), self._services.store.rules):
                case "wait":
                    self._senders.pause(self._services, self._channel_id, self._services.config.sweep_s)
                    return
                case "post":
                    part = await self._post(part)
                case "history":
                    part = await self._look(part)

    async def _begin(self) -> Part | None:
        """The part in `sending`, held by this process; C6 for one that is ready."""
        part = await self._read()
        if part is None or part.state is PartState.SENDING:
            return part if part is not None and part.holder == self._services.instance else None
        if part.state is not PartState.READY or not self._services.chat.ready:
            return None
        deadline_ms, notice = self._senders.deadline_ms(self._services), notices.too_late(part.queued_ms)
        await self._do(Send(self._services.instance, part.id, deadline_ms, notice))
        part = await self._read()
        if part is not None and part.state is PartState.EXPIRED:
            log.warning("part.expired", part=part.id)
        held = part is not None and part.state is PartState.SENDING and part.holder == self._services.instance
        return part if held else None

    async def _post(self, part: Part) -> Part | None:
        services = self._services
        left_ms = (part.deadline_ms or 0) - services.clock.now_ms()
        # A wall clock that jumped must not make an attempt longer.
        left_s = min(left_ms / 1_000, services.config.send_deadline_s)
        if left_s <= 0:
            return await self._again(part)
        result = await self._bounded(part, left_s)
        return await self._result(part, result)

    async def _bounded(self, part: Part, deadline_s: float) -> SendResult:
        """The attempt; the deadline holds even if the chat side forgets it. Its end is the end of every request."""
        services = self._services
        sending = asyncio.ensure_future(services.chat.send(part, deadline_s))
        late = asyncio.ensure_future(services.clock.sleep(deadline_s))
        try:
            await asyncio.wait({sending, late}, return_when=asyncio.FIRST_COMPLETED)
            return sending.result() if sending.done() else OutcomeUnknown("no answer before the deadline")
        finally:
            late.cancel()
            sending.cancel()
            await asyncio.gather(sending, late, return_exceptions=True)

    async def _result(self, part: Part, result: SendResult) -> Part | None:
        services, by = self._services, self._services.instance
        match result:
            case Sent(message_id):
                self._senders.succeeded(self._channel_id)
                await self._do(Receipt(by, part.id, message_id, part.attempt))
                log.info("part.delivered", part=part.id, run=part.run_id, message=message_id)
                return None
            case Rejected(why):
                self._senders.succeeded(self._channel_id)
                await self._do(Fail(by, part.id, part.attempt, why))
                log.warning("part.failed", part=part.id, run=part.run_id, kind=part.kind.value, why=why)
                return None
            case Wait(seconds):
                log.info("part.told_to_wait", part=part.id, seconds=seconds)
                self._senders.pause(services, self._channel_id, seconds)
            case OutcomeUnknown(why):
                log.warning("part.outcome_unknown", part=part.id, attempt=part.attempt, why=why)
                self._senders.failed(services, self._channel_id)
            case Paused(why):
                log.info("part.paused", part=part.id, why=why)
                self._senders.pause(services, self._channel_id, services.config.sweep_s)
            case _:
                assert_never(result)
        return await self._again(part)

    async def _again(self, part: Part) -> Part | None:
        """Back to ready while the window is open; else it stays, and history decides once no request is in flight."""
        await self._do(Retry(self._services.instance, part.id, part.attempt))
        return None

    async def _look(self, part: Part) -> Part | None:
        """Ask the channel's history, after window and deadline."""
        services, by = self._services, self._services.instance
        if not services.chat.ready:
            return None
        before = await services.ledger.keep_reading(lambda: services.store.outbox.posted_before(part.conversation_id, part.seq))
        after_id = await self._older_than(part, before)
        after_ms = (part.first_attempt_ms or part.queued_ms) - _HISTORY_SLACK_MS
        history = await services.chat.history(self._channel_id, after_id, after_ms)
        if history is None and services.clock.now_ms() - part.queued_ms <= services.store.rules.words_expire_ms:
            # An outage: what the history will say once it can be read decides, and later parts wait as they do for an answer.
            self._senders.failed(services, self._channel_id)
            return None
        if history is None or isinstance(history, Rejected):
            why = "" if history is None else f": {history.why}"
            await self._do(Undecided(by, part.id, part.attempt, f"no answer, and the channel's history cannot be read{why}"))
            log.warning("part.unknown", part=part.id, run=part.run_id)
            return None
        first = 0 if before is None else before.seq
        known = await services.ledger.keep_reading(lambda: services.store.outbox.posted_from(part.conversation_id, first))
        match reconcile.look(part, history, known):
            case reconcile.Found(message_id):
                await self._do(Receipt(by, part.id, message_id))
                log.info("part.found_in_history", part=part.id, message=message_id)
                return None
            case reconcile.Ambiguous():
                await self._do(Undecided(by, part.id, part.attempt, "no answer, and several messages in the channel could be it"))
                log.warning("part.unknown", part=part.id, run=part.run_id)
                return None
            case reconcile.Missing():
                nonce, deadline_ms = notices.new_nonce(), self._senders.deadline_ms(services)
                outcome = await self._do(Absent(by, part.id, part.attempt, nonce, deadline_ms))
                log.info("part.not_in_history", part=part.id, refused=isinstance(outcome, Refusal))
                part_now = await self._read()
                return part_now if part_now is not None and part_now.state is PartState.SENDING and isinstance(outcome, Done) else None

    async def _older_than(self, part: Part, before: Part | None) -> int:
        """The newest message that is surely older than the part; 0 if none is known.

        Clocks are no measure: ours may be hours off the chat service's, and then a look since our time of the first attempt
        would miss a message that is there, and post it twice.
        """
        services, run_id = self._services, part.run_id
        answered = () if run_id is None else await services.ledger.keep_reading(lambda: services.store.prompts.of_run(run_id))
        known = [part.reply_to_id or 0, *(prompt.message_id or 0 for prompt in answered)]
        return max(known if before is None else [before.message_id or 0, *known])

    async def _read(self) -> Part | None:
        services = self._services
        return await services.ledger.keep_reading(lambda: services.store.outbox.by_id(self._part_id))

    async def _do(self, event: Event) -> Done | Refusal:
        """What is known about an attempt must not be lost while the process lives."""
        return await self._services.ledger.keep_trying(event)
