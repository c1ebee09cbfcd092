"""Migrations make exactly the tables of the code, all at once or not at all, and never touch what is newer."""

from __future__ import annotations

import asyncio
import dataclasses
import re
import shutil
import sqlite3
import stat
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, text

import storage.migrations
from storage.engine import Engines, open_engines
from storage.errors import StorageUnavailable
from storage.migrate import migrate
from storage.models import Rules
from storage.rows import KINDS
from storage.schema import metadata
from storage.store import Store
from tests.support.postgres import Postgres
from tests.support.storage import Driver, Time

POSTGRES_SCHEMA = (
    "SELECT table_name, column_name, data_type, is_nullable, column_default FROM information_schema.columns WHERE table_schema = 'public'",
    "SELECT tablename, indexname, indexdef FROM pg_indexes WHERE schemaname = 'public'",
    "SELECT conrelid::regclass::text, conname, pg_get_constraintdef(oid) FROM pg_constraint WHERE connamespace = 'public'::regnamespace",
    "SELECT tgrelid::regclass::text, tgname, pg_get_triggerdef(oid) FROM pg_trigger WHERE NOT tgisinternal",
    "SELECT proname, prosrc, '' FROM pg_proc WHERE pronamespace = 'public'::regnamespace",
)


def described(connection: Connection) -> set[tuple[Any, ...]]:
    """Everything the database knows about its tables, but alembic's own."""
    if connection.dialect.name == "sqlite":
        found = connection.execute(text("SELECT type, name, tbl_name, sql FROM sqlite_master WHERE name NOT LIKE 'sqlite_%'"))
        # Order and layout of table constraints are no matter of meaning.
        rows = {(kind, name, table, tuple(sorted(re.split(r",\s*\n|\n", sql)))) for kind, name, table, sql in found if sql}
        cleaned = {(k, n, t, tuple(sorted(part.strip(" \t,") for part in sql if part.strip(" \t,")))) for k, n, t, sql in rows}
        return {row for row in cleaned if row[1] != "alembic_version"}
    every = {tuple(row) for query in POSTGRES_SCHEMA for row in connection.execute(text(query))}
    return {row for row in every if row[0] != "alembic_version"}


@pytest.fixture
async def engines(empty_url: str) -> AsyncIterator[Engines]:
    opened = open_engines(empty_url)
    try:
        yield opened
    finally:
        await opened.aclose()


@pytest.fixture
def scripts(tmp_path: Path) -> Path:
    """A copy of the migrations, for a future that a test adds to them."""
    folder = tmp_path / "migrations"
    shutil.copytree(Path(storage.migrations.__file__).parent, folder, ignore=shutil.ignore_patterns("__pycache__"))
    return folder


def newest() -> str:
    """The revision of the schema as the code has it."""
    (head,) = ScriptDirectory(str(Path(storage.migrations.__file__).parent)).get_heads()
    return head


def add_script(scripts: Path, body: str) -> None:
    head = f'from alembic import op\n\nrevision = "9999"\ndown_revision = "{newest()}"\n\n\ndef upgrade():\n'
    lines = "".join(f"    {line}\n" for line in body.splitlines())
    (scripts / "versions" / "v9999_future.py").write_text(head + lines)


async def version(engines: Engines) -> str:
    async with engines.read.connect() as conn:
        return str(await conn.scalar(text("SELECT version_num FROM alembic_version")))


async def test_migrations_make_the_tables_of_the_code(engines: Engines) -> None:
    await migrate(engines)
    async with engines.write.begin() as conn:
        migrated = await conn.run_sync(described)
        differences = await conn.run_sync(lambda c: compare_metadata(MigrationContext.configure(c), metadata))
        await conn.run_sync(metadata.drop_all)
        if conn.dialect.name == "postgresql":
            await conn.execute(text("DROP FUNCTION journal_append_only"))
        await conn.run_sync(metadata.create_all)
        created = await conn.run_sync(described)
    assert differences == []
    assert migrated - created == set()
    assert created - migrated == set()
    assert len(created) > 20


def test_every_row_class_has_the_columns_of_its_table() -> None:
    for kind in KINDS.values():
        optional = {f.name for f in dataclasses.fields(kind.row) if "None" in str(f.type)}
        assert [column.name for column in kind.table.c] == [f.name for f in dataclasses.fields(kind.row)]
        assert {column.name for column in kind.table.c if column.nullable} == optional


async def test_migrating_again_changes_nothing(engines: Engines) -> None:
    await migrate(engines)
    async with engines.read.connect() as conn:
        before = await conn.run_sync(described)
    await migrate(engines)
    async with engines.read.connect() as conn:
        assert await conn.run_sync(described) == before
    if engines.file is not None:
        assert sorted(path.name for path in engines.file.parent.glob("*before*")) == []


async def test_a_newer_schema_is_refused_and_left_alone(empty_url: str, time: Time) -> None:
    await (await Store.open(empty_url, now=time, rules=Rules(), instance="old")).aclose()
    engines = open_engines(empty_url)
    async with engines.write.begin() as conn:
        await conn.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    await engines.aclose()
    with pytest.raises(StorageUnavailable, match="written by a newer Nightporter"):
        await Store.open(empty_url, now=time, rules=Rules(), instance="old")
    engines = open_engines(empty_url)  # the failed attempt has given everything back
    assert await version(engines) == "9999"
    await engines.aclose()


async def test_a_failed_migration_leaves_the_old_schema(engines: Engines, scripts: Path) -> None:
    await migrate(engines)
    async with engines.read.connect() as conn:
        before = await conn.run_sync(described)
    add_script(scripts, "op.execute('CREATE TABLE halfway (id INTEGER)')\nop.execute('DROP TABLE parts')\nraise RuntimeError('power cut')")
    with pytest.raises(RuntimeError, match="power cut"):
        await migrate(engines, migrations=str(scripts))
    async with engines.read.connect() as conn:
        assert await conn.run_sync(described) == before
    assert await version(engines) == newest()


async def test_a_migration_that_fails_the_first_time_leaves_no_table(engines: Engines, scripts: Path) -> None:
    add_script(scripts, "raise RuntimeError('power cut')")
    with pytest.raises(RuntimeError, match="power cut"):
        await migrate(engines, migrations=str(scripts))
    async with engines.read.connect() as conn:
        assert {row for row in await conn.run_sync(described) if row[0] != "plpgsql"} == set()


async def test_an_upgrade_keeps_the_rows_and_copies_the_file_first(empty_url: str, scripts: Path, time: Time) -> None:
    store = await Store.open(empty_url, now=time, rules=Rules(), instance="old")
    conversation = await Driver(store, time).bind()
    await store.aclose()
    add_script(scripts, "op.execute('CREATE TABLE future (id INTEGER)')")
    engines = open_engines(empty_url)
    try:
        await migrate(engines, migrations=str(scripts))
        assert await version(engines) == "9999"
        async with engines.read.connect() as conn:
            assert await conn.scalar(text("SELECT channel_id FROM conversations")) == conversation.channel_id
    finally:
        await engines.aclose()
    if engines.file is None:
        return
    copy = engines.file.with_name("np.db.before-9999")
    assert stat.S_IMODE(copy.stat().st_mode) == 0o600
    assert not copy.with_name("np.db.before-9999.part").exists()
    with closing(sqlite3.connect(copy)) as old:
        assert old.execute("SELECT version_num FROM alembic_version").fetchone() == (newest(),)
        assert old.execute("SELECT channel_id FROM conversations").fetchone() == (conversation.channel_id,)
        assert old.execute("SELECT count(*) FROM sqlite_master WHERE name = 'future'").fetchone() == (0,)


@pytest.mark.parametrize("lacking", [True, False])
async def test_the_two_shapes_that_the_first_schema_had_become_the_same(engines: Engines, scripts: Path, lacking: bool) -> None:
    (scripts / "versions" / "v0001_first.py").write_text(first_script(lacking=lacking))
    for later in sorted((scripts / "versions").glob("v*.py"))[1:]:
        later.unlink()
    await migrate(engines, migrations=str(scripts))
    async with engines.read.connect() as conn:
        names = {row[1] for row in await conn.run_sync(described)}
    assert {"ix_parts_delivered", "ix_parts_troubled", "ix_prompts_created"}.isdisjoint(names) == lacking
    await migrate(engines)
    async with engines.write.begin() as conn:
        differences = await conn.run_sync(lambda c: compare_metadata(MigrationContext.configure(c), metadata))
    assert differences == []


def first_script(*, lacking: bool) -> str:
    """The first migration; or as it was for an hour, without three indexes."""
    lines = (Path(storage.migrations.__file__).parent / "versions" / "v0001_first.py").read_text().splitlines(keepends=True)
    late = ("ix_parts_delivered", "ix_parts_troubled", "ix_prompts_created")
    return "".join(line for line in lines if not (lacking and any(name in line for name in late)))


@pytest.mark.postgres
async def test_three_that_start_at_once_migrate_once(postgres: Postgres, time: Time) -> None:
    url = postgres.url(postgres.new_database())
    stores = await asyncio.gather(*(Store.open(url, now=time, rules=Rules(), instance=f"worker-{number}") for number in range(3)))
    try:
        bound = await asyncio.gather(*(Driver(store, time).bind() for store in stores))
        assert len({conversation.id for conversation in bound}) == 1
        assert not any(store.exclusive for store in stores)
    finally:
        for store in stores:
            await store.aclose()
