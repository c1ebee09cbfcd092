"""The runtime as the gateway sees it, over the real store: it writes down what it was asked, and runs nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

from bot.clock import Clock
from bot.runtime.ports import Accepted, AcceptResult, Duplicate, Incoming, Offered, Person, Refused, Withdrawn
from bot.runtime.views import Budget, Status
from storage.conversations import NewConversation
from storage.errors import StorageError
from storage.events import (
    Arrive,
    Attend,
    Cancel,
    Choose,
    Edit,
    Entity,
    Event,
    GiveUp,
    Rebind,
    Refusal,
    Remove,
    Resume,
    Seen,
    Stop,
    Unpark,
    WakeNow,
)
from storage.events.changes import Code
from storage.models import Continuation, ContinuationId, Conversation, ConversationId, Prompt, PromptId, PromptKind, Rules, RunId
from storage.states import PromptState
from storage.store import Done, Store


class StoreBackend:
    """See `bot.gateway.backend.Backend`. `calls` has everything in order; `accepted` the messages that became prompts."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.calls: list[tuple[str, Any]] = []
        self.accepted: list[Incoming] = []
        self.echoes: list[tuple[str, int, int]] = []
        #: Raised by the next writes, one each.
        self.failures: list[StorageError] = []
        self.on_accept: Callable[[Incoming], None] = lambda _: None
        self._changed = asyncio.Condition()

    @classmethod
    async def open(cls, folder: Path, clock: Clock, rules: Rules | None = None) -> StoreBackend:
        url = f"sqlite+aiosqlite:///{folder / 'np.db'}"
        return cls(await Store.open(url, now=clock.now_ms, rules=rules or Rules(), instance="test"))

    async def until(self, true: Callable[[], bool], timeout_s: float = 10) -> None:
        """Wait until something that this records has come true."""
        async with asyncio.timeout(timeout_s), self._changed:
            await self._changed.wait_for(true)

    async def note(self, name: str, what: Any) -> None:
        self.calls.append((name, what))
        async with self._changed:
            self._changed.notify_all()

    def named(self, name: str) -> list[Any]:
        return [what for called, what in self.calls if called == name]

    async def _do(self, event: Event) -> Done | Refusal:
        if self.failures:
            raise self.failures.pop(0)
        return await self.store.do(event)

    async def conversation(self, channel_id: int) -> Conversation | None:
        return await self.store.conversations.by_channel(channel_id)

    async def conversation_by_id(self, conversation_id: ConversationId) -> Conversation | None:
        return await self.store.conversations.by_id(conversation_id)

    async def bound(self) -> tuple[Conversation, ...]:
        return await self.store.conversations.all_bound()

    async def bind(
        self, *, channel_id: int, guild_id: int | None, project: str, agent: str, folder: str, shared: bool, last_seen_id: int
    ) -> Conversation:
        bound = await self.store.bind(NewConversation(channel_id, guild_id, project, agent, folder, shared, last_seen_id))
        await self._do(Rebind("test", bound.id, project, agent, folder, shared))
        await self.note("bind", bound)
        return bound

    async def accept(self, msg: Incoming) -> AcceptResult:
        self.on_accept(msg)
        done = await self._do(
            Arrive(
                by=f"user:{msg.author_id}",
                conversation_id=msg.conversation_id,
                kind=PromptKind.USER,
                ordered_ms=msg.sent_ms,
                author_id=msg.author_id,
                author_name=msg.author_name,
                text=msg.text,
                source_key=f"message:{msg.message_id}",
                addressed=msg.addressed,
                message_id=msg.message_id,
                source=msg.source,
                caught_up=msg.caught_up,
            )
        )
        result = self._result(done)
        if not isinstance(result, Duplicate):
            self.accepted.append(msg)
        await self.note("accept", (msg.text, type(result).__name__))
        return result

    def _result(self, done: Done | Refusal) -> AcceptResult:
        if isinstance(done, Refusal):
            return Duplicate() if done.code is Code.DUPLICATE else Refused(done.code)
        for row in done.inserted(Entity.PROMPT):
            assert isinstance(row, Prompt)
            match row.state:
                case PromptState.OFFERED:
                    return Offered()
                case PromptState.WITHDRAWN:
                    return Withdrawn()
                case _:
                    return Accepted(row.id, 1)
        return Duplicate()

    async def seen(self, conversation_id: ConversationId, message_id: int, source: Literal["live", "catch_up"], caught_up: bool) -> None:
        await self._do(Seen("test", conversation_id, message_id, source, caught_up))
        await self.note("seen", (message_id, source, caught_up))

    async def caught_up(self, conversation_id: ConversationId) -> None:
        await self.note("caught_up", conversation_id)

    async def edited(self, message_id: int, text: str) -> Done | Refusal:
        found = await self.store.prompts.by_source_key(f"message:{message_id}")
        outcome = Refusal(Code.NOT_FOUND) if found is None else await self._do(Edit("test", found.id, text))
        await self.note("edited", (message_id, text, outcome))
        return outcome

    async def deleted(self, message_id: int) -> Done | Refusal:
        found = await self.store.prompts.by_source_key(f"message:{message_id}")
        outcome = Refusal(Code.NOT_FOUND) if found is None else await self._do(Remove("test", found.id, "deleted"))
        await self.note("deleted", (message_id, outcome))
        return outcome

    async def echo(self, nonce: str, message_id: int, channel_id: int) -> None:
        self.echoes.append((nonce, message_id, channel_id))
        await self.note("echo", nonce)

    async def stop_conversation(self, conversation_id: ConversationId, *, stop_id: int, by: Person, reset: bool = False) -> Done | Refusal:
        outcome = await self._do(Stop(by.by, conversation_id, stop_id, reset, by.only_own))
        await self.note("stop", (conversation_id, stop_id, by, reset, outcome))
        return outcome

    async def cancel(self, continuation_id: ContinuationId, by: Person) -> Done | Refusal:
        outcome = await self._do(Cancel(by.by, continuation_id, "cancelled by a person", by.only_own))
        await self.note("cancel", (continuation_id, by, outcome))
        return outcome

    async def wake_now(self, continuation_id: ContinuationId, by: Person) -> Done | Refusal:
        outcome = await self._do(WakeNow(by.by, continuation_id, by.only_own))
        await self.note("wake_now", (continuation_id, by, outcome))
        return outcome

    async def remove_prompt(self, prompt_id: PromptId, by: Person) -> Done | Refusal:
        outcome = await self._do(Remove(by.by, prompt_id, "removed", by.only_own))
        await self.note("remove_prompt", (prompt_id, by, outcome))
        return outcome

    async def choose(self, conversation_id: ConversationId, run: bool, by: Person) -> Done | Refusal:
        outcome = await self._do(Choose(by.by, conversation_id, run))
        await self.note("choose", (conversation_id, run, by, outcome))
        return outcome

    async def attend(self, conversation_id: ConversationId, by: Person) -> Done | Refusal:
        outcome = await self._do(Attend(by.by, conversation_id))
        await self.note("attend", (conversation_id, by))
        return outcome

    async def unpark(self, conversation_id: ConversationId, by: Person) -> Done | Refusal:
        outcome = await self._do(Unpark(by.by, conversation_id))
        await self.note("unpark", (conversation_id, by, outcome))
        return outcome

    async def start_fresh(self, run_id: RunId, by: Person) -> Done | Refusal:
        outcome = await self._do(Resume(by.by, run_id, by.id, by.name, "go on afresh", fresh=True))
        await self.note("start_fresh", (run_id, by, outcome))
        return outcome

    async def give_up(self, run_id: RunId, by: Person) -> Done | Refusal:
        outcome = await self._do(GiveUp(by.by, run_id, "given up"))
        await self.note("give_up", (run_id, by, outcome))
        return outcome

    async def resume(self, run_id: RunId, by: Person) -> Done | Refusal:
        outcome = await self._do(Resume(by.by, run_id, by.id, by.name, "go on"))
        await self.note("resume", (run_id, by, outcome))
        return outcome

    async def status(self, conversation_id: ConversationId) -> Status:
        conversation = await self.store.conversations.by_id(conversation_id)
        assert conversation is not None
        return Status(
            conversation=conversation,
            run=await self.store.runs.active(conversation_id),
            waiting=await self.waiting(conversation_id),
            offered=await self.store.prompts.offered(conversation_id),
            continuations=await self.store.continuations.live(conversation_id),
            unsent=await self.store.outbox.backlog(conversation_id),
            troubled=(),
            session=await self.store.sessions.open_of(conversation_id),
            unattended=Budget(conversation.unattended_runs, self.store.rules.unattended_runs, 0, met=False),
            recent=await self.store.runs.recent(conversation_id, 5),
            held_until_ms=None,
            unreachable_since_ms=None,
        )

    async def live_continuations(self, guild_id: int) -> tuple[Continuation, ...]:
        return await self.store.continuations.live_in_guild(guild_id)

    async def continuation(self, continuation_id: ContinuationId) -> Continuation | None:
        return await self.store.continuations.by_id(continuation_id)

    async def origin_message(self, run_id: RunId) -> int | None:
        return next((p.message_id for p in await self.store.prompts.of_run(run_id) if p.message_id), None)

    async def waiting(self, conversation_id: ConversationId) -> tuple[Prompt, ...]:
        return await self.store.prompts.waiting(conversation_id)

    async def prompt(self, prompt_id: PromptId) -> Prompt | None:
        return await self.store.prompts.by_id(prompt_id)

    async def run_conversation(self, run_id: RunId) -> Conversation | None:
        run = await self.store.runs.by_id(run_id)
        return None if run is None else await self.store.conversations.by_id(run.conversation_id)
