"""What the model says about indexes and transactions, on a real SQLite file: with them it is refused, without them it happens."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncConnection

from storage import events as e
from storage.apply import Writer
from storage.engine import Engines, open_engines
from storage.events import Change, Entity, Event, Refusal
from storage.loaders import Loader
from storage.models import ConversationId, PromptKind, Rules, RunId
from storage.snapshots import Candidate
from storage.states import ContinuationState, RunState
from storage.store import Store
from storage.transitions import decide
from tests.support.storage import Driver, Time

RULES = Rules()
Load = Callable[[Loader], Awaitable[Any]]


class Died(Exception):
    """The process is gone."""


class Process:
    """Does what the store does, but in two steps: decide on what was read, and commit that at any later time."""

    def __init__(self, url: str, time: Time) -> None:
        self.url = url
        self.time = time
        self._engines: Engines | None = None

    @property
    def engines(self) -> Engines:
        """Opened when it is first needed: one process at a time has the file."""
        if self._engines is None:
            self._engines = open_engines(self.url)
        return self._engines

    async def aclose(self) -> None:
        if self._engines is not None:
            await self._engines.aclose()

    async def decide(self, event: Event, load: Load) -> tuple[Change, ...]:
        async with self.engines.write.connect() as conn:
            snapshot = await load(Loader(conn, RULES))
        changes = decide(snapshot, event, self.time(), RULES)
        assert not isinstance(changes, Refusal), changes
        return changes

    async def commit(self, changes: tuple[Change, ...]) -> tuple[Change, ...]:
        async with self.engines.write.begin() as conn:
            return await Writer(conn, "twin", self.time()).apply(changes)

    async def do(self, event: Event) -> tuple[Change, ...]:
        return await self.commit(await self.decide(event, lambda loader: loader.event(event)))

    async def decide_claim(self, by: str, candidate: Candidate) -> tuple[Change, ...]:
        event = e.Claim(by, "host", self.time() + 30_000, "native", "standing")
        return await self.decide(event, lambda loader: loader.claim(candidate))

    async def claim(self, by: str, candidate: Candidate) -> int:
        written = await self.commit(await self.decide_claim(by, candidate))
        return next(c.row.id for c in written if isinstance(c, e.Insert) and c.entity is Entity.RUN)

    async def sql(self, statement: str) -> list[Any]:
        async with self.engines.write.begin() as conn:
            result = await conn.execute(text(statement))
            return list(result.all()) if result.returns_rows else []


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite+aiosqlite:///{tmp_path}/np.db"


@pytest.fixture
async def driver(url: str) -> Driver:
    """Makes the world as it should be; every test closes its store, since one process at a time has the file."""
    time = Time()
    return Driver(await Store.open(url, now=time, rules=RULES, instance="worker-1"), time)


@pytest.fixture
async def process(url: str, driver: Driver) -> AsyncIterator[Process]:
    """Used after the test has closed the driver's store."""
    made = Process(url, driver.time)
    yield made
    await made.aclose()


async def _two_runs_in_a_folder(driver: Driver, process: Process) -> None:
    """The counterexample of the model: a claim is decided, others come first, then it is committed."""
    one, two = await driver.bind(100), await driver.bind(200)
    for conversation in (one, two):
        # Both have a session already: a first claim that is too late is refused by the session's index, too.
        await driver.settle(await driver.running(conversation.id))
    await driver.prompt(one.id)
    await driver.prompt(two.id)
    await driver.store.aclose()
    folder = Candidate("/srv/a", one.id)
    stale = await process.decide_claim("worker-2", folder)
    run = await process.claim("worker-1", folder)
    await process.do(e.Release("worker-1", RunId(run), 1, "cannot be opened"))
    await process.claim("worker-1", folder)
    await process.commit(stale)


async def test_the_workspace_index_refuses_a_second_run(driver: Driver, process: Process) -> None:
    with pytest.raises(IntegrityError, match=r"runs\.workspace"):
        await _two_runs_in_a_folder(driver, process)


async def test_without_the_workspace_index_two_runs_work_in_a_folder(driver: Driver, process: Process) -> None:
    await _drop(driver, "DROP INDEX uq_runs_active_workspace")
    await _two_runs_in_a_folder(driver, process)
    active = await process.sql("SELECT workspace FROM runs WHERE state = 'claimed'")
    assert [row[0] for row in active] == ["/srv/a", "/srv/a"]


async def _two_runs_in_a_conversation(driver: Driver, process: Process) -> None:
    """In a shared folder: the claim of a wake is decided, a person writes and is claimed, then the first is committed."""
    conversation = await driver.bind(100, shared=True)
    await driver.woken(conversation.id)
    await driver.store.aclose()
    place = Candidate(None, conversation.id)
    stale = await process.decide_claim("worker-2", place)
    await process.do(driver.message(conversation.id))
    await process.claim("worker-1", place)
    await process.commit(stale)


async def test_the_conversation_index_refuses_a_second_run_in_a_shared_folder(driver: Driver, process: Process) -> None:
    with pytest.raises(IntegrityError, match=r"runs\.conversation_id"):
        await _two_runs_in_a_conversation(driver, process)


async def test_without_the_conversation_index_two_runs_share_a_conversation(driver: Driver, process: Process) -> None:
    await _drop(driver, "DROP INDEX uq_runs_active_conversation")
    await _two_runs_in_a_conversation(driver, process)
    active = await process.sql("SELECT kind FROM runs WHERE state = 'claimed' ORDER BY kind")
    assert [row[0] for row in active] == [PromptKind.USER.value, PromptKind.WAKE.value]


async def _one_message_twice(driver: Driver, process: Process) -> ConversationId:
    conversation = await driver.bind()
    message = driver.message(conversation.id, 7)
    await driver.store.aclose()
    first = await process.decide(message, lambda loader: loader.event(message))
    second = await process.decide(message, lambda loader: loader.event(message))
    await process.commit(first)
    await process.commit(second)
    return conversation.id


async def test_the_source_key_refuses_a_message_that_two_processes_heard(driver: Driver, process: Process) -> None:
    with pytest.raises(IntegrityError, match=r"prompts\.source_key"):
        await _one_message_twice(driver, process)


async def test_without_the_source_key_a_message_becomes_two_prompts(driver: Driver, process: Process) -> None:
    await _without_source_key(driver)
    conversation_id = await _one_message_twice(driver, process)
    rows = await process.sql(f"SELECT source_key FROM prompts WHERE conversation_id = {conversation_id}")  # noqa: S608 - a number
    assert len(rows) == 2
    assert len(set(rows)) == 1


async def test_stop_in_two_transactions_leaves_a_wake_behind_when_the_process_dies(driver: Driver, process: Process) -> None:
    conversation = await driver.bind()
    continuation = await driver.pending(conversation.id)
    await driver.prompt(conversation.id)
    await driver.store.aclose()
    stop = e.Stop("user:1", conversation.id, 2**62)
    changes = await process.decide(stop, lambda loader: loader.event(stop))
    await process.commit(tuple(c for c in changes if c.entity is not Entity.CONTINUATION))
    # It dies here; the rest of /stop is gone.
    assert await process.sql("SELECT count(*) FROM prompts WHERE state = 'waiting'") == [(0,)]
    driver.time.ms = continuation.due_at_ms
    await process.do(e.Due("worker-1", continuation.id))
    run = await process.claim("worker-1", Candidate("/srv/a", conversation.id))
    kinds = await process.sql(f"SELECT kind FROM runs WHERE id = {run}")  # noqa: S608 - a number
    assert kinds == [("wake",)], "a wake that was stopped runs"


@pytest.mark.parametrize("point", ["stop.before", "stop.after"])
async def test_stop_is_whole_or_not_at_all_whenever_the_process_dies(url: str, point: str) -> None:
    time = Time()

    async def dies(at: str) -> None:
        if at == point:
            raise Died

    store = await Store.open(url, now=time, rules=RULES, instance="worker-1", fault=dies)
    driver = Driver(store, time)
    conversation = await driver.bind()
    continuation = await driver.pending(conversation.id)
    await driver.prompt(conversation.id)
    run = await driver.claim()
    with pytest.raises(Died):
        await store.do(e.Stop("user:1", conversation.id, 2**62))
    after = (await driver.continuation(continuation.id)).state, (await driver.run(run.id)).state
    await store.aclose()
    whole = ContinuationState.CANCELLED, RunState.CANCELLED
    assert after == (whole if point == "stop.after" else (ContinuationState.PENDING, RunState.CLAIMED))


async def _drop(driver: Driver, statement: str) -> None:
    async with _writing(driver) as conn:
        await conn.execute(text(statement))
        await conn.commit()


def _writing(driver: Driver) -> Any:
    return driver.store._engines.write.connect()  # noqa: SLF001 - the schema is broken behind the store's back


async def _without_source_key(driver: Driver) -> None:
    """SQLite cannot drop a constraint: the table is made anew without it."""
    async with _writing(driver) as conn:
        connection: AsyncConnection = conn
        made = (await connection.execute(text("SELECT sql FROM sqlite_master WHERE name = 'prompts'"))).scalar_one()
        kept = [line for line in made.splitlines() if "uq_prompts_source_key" not in line]
        assert len(kept) == len(made.splitlines()) - 1
        await connection.execute(text("DROP TABLE prompts"))
        await connection.execute(text("\n".join(kept)))
        await connection.commit()
