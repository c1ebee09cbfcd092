"""Takes messages in: stored one after the other in each channel, acknowledged only once they are on disk."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from typing import Literal

import structlog

from bot.runtime import notices, prompting
from bot.runtime.ports import Accepted, AcceptResult, Duplicate, Incoming, Offered, Refused, Withdrawn
from bot.runtime.services import Services
from storage.events import Arrive, Code, Edit, Entity, Notify, Refusal, Remove, Seen
from storage.models import ConversationId, Prompt, PromptKind
from storage.states import PromptState
from storage.store import Done

log = structlog.get_logger(__name__)

#: A usage limit that ends sooner is not worth a notice; so is the pause after an agent that could not be opened.
_WORTH_TELLING_MS = 60_000


def source_key(message_id: int) -> str:
    """What makes a message's prompt unique."""
    return f"message:{message_id}"


class Intake:
    """Serial for each conversation: a message is stored before the next one of that channel is looked at."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._serial: defaultdict[ConversationId, asyncio.Lock] = defaultdict(asyncio.Lock)
        #: Conversations with messages that people have not been asked about by this process.
        self._to_offer: set[ConversationId] = set()
        self._asked: set[ConversationId] = set()

    async def accept(self, msg: Incoming) -> AcceptResult:
        """C1. Raises StorageError if it could not be stored; the gateway reads it again."""
        async with self._serial[msg.conversation_id]:
            outcome = await self._services.ledger.do(self._arrival(msg))
            result = await self._result(msg, outcome)
        log.info("prompt.arrived", message=msg.message_id, conversation=msg.conversation_id, result=type(result).__name__)
        if isinstance(result, Accepted | Offered):
            # Only now it is on disk, so only now it may look accepted.
            self._services.supervisor.spawn("intake.mark", self._services.chat.seen(msg.channel_id, msg.message_id))
        return result

    async def seen(self, conversation_id: ConversationId, message_id: int, source: Literal["live", "catch_up"], *, caught_up: bool) -> None:
        """A message that is no prompt: only the mark of what was seen may move."""
        async with self._serial[conversation_id]:
            await self._services.ledger.do(Seen(self._services.instance, conversation_id, message_id, source, caught_up))

    async def caught_up(self, conversation_id: ConversationId) -> None:
        """Catch-up is complete: ask once about what was too old, and once more after each restart while it is open."""
        fresh = conversation_id in self._to_offer
        if conversation_id in self._asked and not fresh:
            return
        offered = await self._services.store.prompts.offered(conversation_id)
        if offered:
            notice = notices.offered(conversation_id, len(offered))
            await self._services.ledger.do(Notify(self._services.instance, conversation_id, (notice,)))
        self._to_offer.discard(conversation_id)
        self._asked.add(conversation_id)

    async def edited(self, message_id: int, text: str) -> Done | Refusal:
        """A prompt that still waits runs with its new text."""
        prompt = await self._services.store.prompts.by_source_key(source_key(message_id))
        if prompt is None:
            return Refusal(Code.NOT_FOUND)
        event = Edit(f"user:{prompt.author_id}", prompt.id, prompting.edited_text(prompt.text, text))
        return await self._services.ledger.do(event)

    async def deleted(self, message_id: int) -> Done | Refusal:
        """A prompt that still waits is withdrawn."""
        prompt = await self._services.store.prompts.by_source_key(source_key(message_id))
        if prompt is None:
            return Refusal(Code.NOT_FOUND)
        return await self._services.ledger.do(Remove(f"user:{prompt.author_id}", prompt.id, "its message was deleted"))

    def _arrival(self, msg: Incoming) -> Arrive:
        return Arrive(
            by=f"user:{msg.author_id}",
            conversation_id=msg.conversation_id,
            kind=PromptKind.USER,
            ordered_ms=msg.sent_ms,
            author_id=msg.author_id,
            author_name=msg.author_name,
            text=prompting.message_text(msg.text, msg.reply_to),
            source_key=source_key(msg.message_id),
            addressed=msg.addressed,
            message_id=msg.message_id,
            source=msg.source,
            caught_up=msg.caught_up,
            if_full=notices.queue_full(msg.message_id),
        )

    async def _say_parked(self, conversation_id: ConversationId) -> None:
        """The first message that waits for the end of a usage limit is told so; lost with a crash, as nothing hangs on it."""
        services = self._services
        conversation = await services.ledger.keep_reading(lambda: services.store.conversations.by_id(conversation_id))
        until_ms = 0 if conversation is None else conversation.not_before_ms
        if until_ms >= services.clock.now_ms() + _WORTH_TELLING_MS:
            await services.ledger.keep_trying(Notify(services.instance, conversation_id, (notices.parked(until_ms),)))

    async def _result(self, msg: Incoming, outcome: Done | Refusal) -> AcceptResult:
        if isinstance(outcome, Refusal):
            if outcome.code is Code.DUPLICATE:
                return Duplicate()
            return Refused(outcome.code)
        stored = next((row for row in outcome.inserted(Entity.PROMPT) if isinstance(row, Prompt)), None)
        if stored is None:
            return Duplicate()
        match stored.state:
            case PromptState.OFFERED:
                self._to_offer.add(msg.conversation_id)
                return Offered()
            case PromptState.WITHDRAWN:
                return Withdrawn()
            case _:
                waiting = await self._services.ledger.keep_reading(lambda: self._services.store.prompts.waiting(msg.conversation_id))
                place = next((n for n, prompt in enumerate(waiting, 1) if prompt.id == stored.id), 1)
                if place == 1:
                    await self._say_parked(msg.conversation_id)
                return Accepted(stored.id, place)
