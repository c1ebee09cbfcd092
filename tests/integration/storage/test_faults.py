"""Faults of the disk, the file and the server: state stays right, the error says what is wrong, work goes on when it is mended."""

from __future__ import annotations

import asyncio
import resource
import sqlite3
from collections.abc import AsyncIterator, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.pool import NullPool

from storage.errors import NotRead, NotStored, OutcomeUnknown, StorageUnavailable
from storage.events import Arrive, Code, Refusal
from storage.models import Rules
from storage.store import Done, Store
from tests.support.postgres import Postgres
from tests.support.storage import Driver, Time

#: How long a writer waits for others in these tests.
BUSY_S = 0.2


@pytest.fixture
async def on_file(sqlite_url: str, time: Time) -> AsyncIterator[Driver]:
    opened = await Store.open(sqlite_url, now=time, rules=Rules(), instance="worker-1", busy_s=BUSY_S)
    try:
        yield Driver(opened, time)
    finally:
        await opened.aclose()


@pytest.fixture
async def on_server(postgres: Postgres, postgres_migrated: str, time: Time) -> AsyncIterator[Driver]:
    postgres.empty(postgres_migrated, "conversations, journal")
    opened = await Store.open(postgres.url(postgres_migrated), now=time, rules=Rules(), instance="worker-1", busy_s=BUSY_S)
    try:
        yield Driver(opened, time)
    finally:
        await opened.aclose()


async def pragma(driver: Driver, statement: str) -> int | None:
    """On the one connection that writes."""
    async with driver.store._engines.write.connect() as conn:  # noqa: SLF001 - to make the fault
        await conn.execution_options(sqlite_begin="DEFERRED")  # a read-only connection cannot begin to write
        found = await conn.exec_driver_sql(f"PRAGMA {statement}")
        return int(found.scalar_one()) if found.returns_rows else None


async def goes_on(driver: Driver, event: Arrive) -> None:
    assert isinstance(await driver.store.do(event), Done)
    assert await driver.store.prompts.by_source_key(event.source_key) is not None


async def refused_by_the_fault(driver: Driver, event: Arrive, sentence: str) -> None:
    before = await driver.everything()
    with pytest.raises(NotStored, match=sentence):
        await driver.store.do(event)
    assert await driver.everything() == before


async def test_a_full_disk_stores_nothing_and_says_so(on_file: Driver) -> None:
    conversation = await on_file.bind()
    event = on_file.message(conversation.id, text="x" * 1_000_000)
    await pragma(on_file, "max_page_count = 1")  # SQLite takes the pages that there are
    await refused_by_the_fault(on_file, event, "Nothing was stored: the disk is full")
    await pragma(on_file, "max_page_count = 1073741823")
    await goes_on(on_file, event)


async def test_a_file_that_became_read_only_stores_nothing_and_says_so(on_file: Driver) -> None:
    event = on_file.message((await on_file.bind()).id)
    await pragma(on_file, "query_only = ON")
    await refused_by_the_fault(on_file, event, "Nothing was stored: the database file is read-only")
    await pragma(on_file, "query_only = OFF")
    await goes_on(on_file, event)


@contextmanager
def file_size_limit(limit: int) -> Iterator[None]:
    """Python ignores SIGXFSZ, so a write beyond the limit fails like one to a broken disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


async def test_a_disk_that_fails_during_the_commit_leaves_all_or_nothing(on_file: Driver) -> None:
    event = on_file.message((await on_file.bind()).id, text="x" * 1_000_000)
    file = on_file.store._engines.file  # noqa: SLF001 - where it is
    assert file is not None
    before = await on_file.everything()
    with file_size_limit(file.with_name("np.db-wal").stat().st_size + 4096), pytest.raises((NotStored, OutcomeUnknown), match="disk"):
        await on_file.store.do(event)
    assert await on_file.everything() == before
    await goes_on(on_file, event)
    with closing(sqlite3.connect(file)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)


async def test_a_file_locked_by_another_program_is_waited_for_without_stopping_the_loop(on_file: Driver) -> None:
    event = on_file.message((await on_file.bind()).id)
    file = on_file.store._engines.file  # noqa: SLF001 - where it is
    assert file is not None
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            await asyncio.sleep(BUSY_S / 20)
            ticks += 1

    ticking = asyncio.create_task(tick())
    with closing(sqlite3.connect(file, isolation_level=None)) as backup:
        backup.execute("BEGIN IMMEDIATE")
        await refused_by_the_fault(on_file, event, "another program holds the database file's lock")
        assert await on_file.store.conversations.all_bound()  # readers are not held up
        backup.execute("ROLLBACK")
    ticking.cancel()
    assert ticks > 0
    await goes_on(on_file, event)


async def test_what_waits_for_a_lock_is_stored_when_it_is_given_back(sqlite_url: str, time: Time) -> None:
    store = await Store.open(sqlite_url, now=time, rules=Rules(), instance="worker-1")
    try:
        driver = Driver(store, time)
        event = driver.message((await driver.bind()).id)
        file = store._engines.file  # noqa: SLF001 - where it is
        assert file is not None
        with closing(sqlite3.connect(file, isolation_level=None)) as backup:
            backup.execute("BEGIN IMMEDIATE")
            waiting = asyncio.create_task(store.do(event))
            await asyncio.sleep(0)
            backup.execute("COMMIT")
        assert isinstance(await waiting, Done)
    finally:
        await store.aclose()


async def test_a_damaged_file_is_not_opened(tmp_path: Path, time: Time) -> None:
    (tmp_path / "np.db").write_bytes(b"this is no database, " * 400)
    with pytest.raises(StorageUnavailable, match="the database file is not a database"):
        await Store.open(f"sqlite:///{tmp_path}/np.db", now=time, rules=Rules(), instance="worker-1")


async def test_a_folder_in_place_of_the_file_is_not_opened(tmp_path: Path, time: Time) -> None:
    (tmp_path / "np.db").mkdir()
    with pytest.raises(StorageUnavailable, match=r"np\.db cannot be opened for writing: Is a directory"):
        await Store.open(f"sqlite:///{tmp_path}/np.db", now=time, rules=Rules(), instance="worker-1")


# --- PostgreSQL


async def kill_connections(url: str) -> None:
    """End every other connection to the database, as a restart of the server does."""
    engine = create_async_engine(url, poolclass=NullPool)
    try:
        async with engine.connect() as conn:
            mine = "datname = current_database() AND pid <> pg_backend_pid()"
            await conn.execute(text(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {mine}"))  # noqa: S608 - no input
    finally:
        await engine.dispose()


@pytest.mark.postgres
async def test_connections_lost_between_calls_are_replaced_unseen(on_server: Driver) -> None:
    conversation = await on_server.bind()
    await asyncio.gather(*(on_server.store.conversations.all_bound() for _ in range(4)))
    await kill_connections(str(on_server.store._engines.write.url))  # noqa: SLF001 - where it is
    assert len(await asyncio.gather(*(on_server.store.conversations.all_bound() for _ in range(4)))) == 4
    await goes_on(on_server, on_server.message(conversation.id))


@pytest.mark.postgres
async def test_a_connection_lost_before_the_commit_is_an_unknown_outcome_and_repeating_is_right(
    postgres: Postgres, postgres_migrated: str, time: Time
) -> None:
    url = postgres.url(postgres_migrated)
    postgres.empty(postgres_migrated, "conversations, journal")
    cut = asyncio.Event()

    async def lose(name: str) -> None:
        if name == "C1.before" and not cut.is_set():
            cut.set()
            await kill_connections(url)

    store = await Store.open(url, now=time, rules=Rules(), instance="worker-1", fault=lose)
    try:
        driver = Driver(store, time)
        event = driver.message((await driver.bind()).id)
        before = await driver.everything()
        with pytest.raises(OutcomeUnknown, match="may be repeated"):
            await store.do(event)
        assert await driver.everything() == before
        await goes_on(driver, event)
        assert await store.do(event) == Refusal(Code.DUPLICATE)
    finally:
        await store.aclose()


@pytest.mark.postgres
async def test_a_row_locked_by_another_program_is_waited_for_and_then_named(on_server: Driver) -> None:
    conversation = await on_server.bind()
    event = on_server.message(conversation.id)
    engine = create_async_engine(on_server.store._engines.write.url, poolclass=NullPool)  # noqa: SLF001 - where it is
    try:
        async with engine.begin() as conn:
            await conn.execute(text("SELECT id FROM conversations FOR UPDATE"))
            await refused_by_the_fault(on_server, event, "another program holds a lock in the database")
    finally:
        await engine.dispose()
    await goes_on(on_server, event)


@pytest.mark.postgres
async def test_a_server_that_is_not_there_is_one_clear_sentence(tmp_path: Path, time: Time) -> None:
    with pytest.raises(StorageUnavailable, match="the database cannot be reached"):
        await Store.open(f"postgresql://postgres@/np?host={tmp_path}", now=time, rules=Rules(), instance="worker-1")


@pytest.mark.postgres
async def test_a_database_that_does_not_exist_is_one_clear_sentence(postgres: Postgres, time: Time) -> None:
    with pytest.raises(StorageUnavailable, match="the database does not exist on the server"):
        await Store.open(postgres.url("nowhere"), now=time, rules=Rules(), instance="worker-1")


async def test_a_query_that_cannot_be_answered_is_an_error_of_ours(on_file: Driver) -> None:
    async with on_file.store._engines.write.begin() as conn:  # noqa: SLF001 - to make the fault
        await conn.execute(text("DROP TABLE parts"))
    with pytest.raises(NotRead, match="The database could not be read"):
        await on_file.store.outbox.sendable(on_file.time.ms, 10)


async def test_the_read_side_cannot_write(on_file: Driver) -> None:
    with pytest.raises(Exception, match="readonly"):
        async with on_file.store._engines.read.begin() as conn:  # noqa: SLF001 - to try it
            await conn.execute(text("DELETE FROM conversations"))
