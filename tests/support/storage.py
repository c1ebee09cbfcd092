"""Drives a store through a run's life in few words; every step asserts that it was done."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import count
from typing import Any, Literal, TypeVar

from sqlalchemy import select

from storage import events as e
from storage.conversations import NewConversation
from storage.events import Entity, Event, Refusal
from storage.models import (
    Continuation,
    ContinuationId,
    Conversation,
    ConversationId,
    Part,
    PartId,
    PartKind,
    Prompt,
    PromptKind,
    Run,
    RunId,
)
from storage.schema import metadata
from storage.snapshots import Candidate
from storage.states import RunState
from storage.store import Done, Store

Ended = Literal[RunState.SUCCEEDED, RunState.FAILED, RunState.INTERRUPTED]
T = TypeVar("T")

START_MS = 1_800_000_000_000


@dataclass
class Time:
    """A clock that only a test moves."""

    ms: int = START_MS

    def __call__(self) -> int:
        return self.ms


def one(found: tuple[Any, ...], kind: type[T]) -> T:
    """The only one, of this type."""
    (row,) = found
    assert isinstance(row, kind)
    return row


@dataclass
class Driver:
    """One process's way to use the store."""

    store: Store
    time: Time
    by: str = "worker-1"
    host: str = "host-1"
    numbers: Any = field(default_factory=lambda: count(1))

    async def done(self, event: Event) -> Done:
        outcome = await self.store.do(event)
        assert isinstance(outcome, Done), outcome
        return outcome

    async def refused(self, event: Event) -> e.Code:
        outcome = await self.store.do(event)
        assert isinstance(outcome, Refusal), outcome
        return outcome.code

    async def bind(self, channel_id: int = 100, folder: str = "/srv/a", *, shared: bool = False) -> Conversation:
        return await self.store.bind(NewConversation(channel_id, 1, "project", "scripted", folder, shared, last_seen_id=0))

    def message(self, conversation_id: ConversationId, number: int | None = None, **more: Any) -> e.Arrive:
        number = number or next(self.numbers)
        values: dict[str, Any] = {
            "kind": PromptKind.USER,
            "ordered_ms": self.time.ms + number,
            "author_id": 7,
            "author_name": "ann",
            "text": f"text {number}",
            "source_key": f"message:{number}",
            "addressed": True,
            "message_id": number,
            "caught_up": True,
        }
        return e.Arrive(self.by, conversation_id, **{**values, **more})

    async def prompt(self, conversation_id: ConversationId, **more: Any) -> Prompt:
        return one((await self.done(self.message(conversation_id, **more))).inserted(Entity.PROMPT), Prompt)

    def claim_event(self) -> e.Claim:
        native = f"native-{next(self.numbers)}"
        return e.Claim(self.by, self.host, self.time.ms + 30_000, native_id=native, standing="be good")

    async def claim(self, candidate: Candidate | None = None) -> Run:
        if candidate is None:
            candidate = (await self.store.dispatch.claimable(self.time.ms))[0]
        outcome = await self.store.claim(self.claim_event(), candidate)
        assert isinstance(outcome, Done), outcome
        return one(outcome.inserted(Entity.RUN), Run)

    async def dispatch(self, run: Run) -> Run:
        await self.done(e.Dispatch(self.by, run.id, run.fence, f"uuid-{next(self.numbers)}", process="{}"))
        return await self.run(run.id)

    async def running(self, conversation_id: ConversationId, **more: Any) -> Run:
        """A dispatched run for one new message."""
        await self.prompt(conversation_id, **more)
        return await self.dispatch(await self.claim())

    def settle_event(self, run: Run, outcome: Ended = RunState.SUCCEEDED, words: tuple[str, ...] = ()) -> e.Settle:
        parts = tuple(self.part(text) for text in words)
        return e.Settle(self.by, run.id, run.fence, outcome, e.Proof.SWEPT, e.Evidence.STREAM, "the turn ended", parts=parts)

    async def settle(self, run: Run, outcome: Ended = RunState.SUCCEEDED, words: tuple[str, ...] = ()) -> Done:
        return await self.done(self.settle_event(run, outcome, words))

    def part(self, text: str, kind: PartKind = PartKind.ANSWER) -> e.NewPart:
        return e.NewPart(kind, text, nonce=f"nonce-{next(self.numbers)}")

    def notice(self, text: str = "notice") -> e.NewPart:
        return self.part(text, PartKind.NOTICE)

    async def wait(self, run: Run, delay_ms: int = 60_000) -> Continuation:
        due = self.time.ms + delay_ms
        event = e.Wait(self.by, run.id, run.fence, "CI", due_at_ms=due, expires_at_ms=due + 3_600_000)
        return one((await self.done(event)).inserted(Entity.CONTINUATION), Continuation)

    async def pending(self, conversation_id: ConversationId) -> Continuation:
        """An armed continuation."""
        run = await self.running(conversation_id)
        asked = await self.wait(run)
        await self.settle(run)
        return await self.continuation(asked.id)

    async def woken(self, conversation_id: ConversationId) -> Continuation:
        """A claimed continuation, its prompt waiting."""
        pending = await self.pending(conversation_id)
        self.time.ms = pending.due_at_ms
        await self.done(e.Due(self.by, pending.id))
        return await self.continuation(pending.id)

    async def queued(self, conversation_id: ConversationId, *words: str) -> tuple[Part, ...]:
        """Notices in the outbox."""
        notices = tuple(self.notice(text) for text in words or ("one",))
        inserted = (await self.done(e.Notify(self.by, conversation_id, notices))).inserted(Entity.PART)
        return tuple(row for row in inserted if isinstance(row, Part))

    async def sending(self, conversation_id: ConversationId) -> Part:
        (part,) = await self.queued(conversation_id)
        await self.done(e.Send(self.by, part.id, self.time.ms + 20_000))
        return await self.get_part(part.id)

    async def everything(self) -> dict[str, list[tuple[Any, ...]]]:
        """All rows of all tables, heavy columns included."""
        found: dict[str, list[tuple[Any, ...]]] = {}
        async with self.store._engines.read.connect() as conn:  # noqa: SLF001 - a look behind the store's back
            for table in metadata.sorted_tables:
                found[table.name] = [tuple(row) for row in await conn.execute(select(table).order_by(*table.primary_key))]
        return found

    async def run(self, run_id: RunId) -> Run:
        found = await self.store.runs.by_id(run_id)
        assert found is not None
        return found

    async def continuation(self, continuation_id: ContinuationId) -> Continuation:
        found = await self.store.continuations.by_id(continuation_id)
        assert found is not None
        return found

    async def get_part(self, part_id: PartId) -> Part:
        found = await self.store.outbox.by_id(part_id)
        assert found is not None
        return found

    async def conversation(self, conversation_id: ConversationId) -> Conversation:
        found = await self.store.conversations.by_id(conversation_id)
        assert found is not None
        return found
