"""One suite, two databases: every test that takes `url` or `store` runs on SQLite and on PostgreSQL."""

from __future__ import annotations

import asyncio
import shutil
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from storage.models import Rules
from storage.schema import metadata
from storage.store import Store
from tests.support.postgres import Postgres, running_postgres
from tests.support.storage import Driver, Time


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    if sys.version_info >= (3, 15):
        pytest.skip("the PostgreSQL wheel does not exist for this Python")
    with running_postgres() as server:
        yield server


DATABASES = ["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)]


@pytest.fixture(params=DATABASES)
def empty_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A database that nothing has opened yet."""
    if request.param == "sqlite":
        return f"sqlite+aiosqlite:///{tmp_path}/state/np.db"
    server: Postgres = request.getfixturevalue("postgres")
    return server.url(server.new_database())


async def _migrated(url: str) -> None:
    await (await Store.open(url, now=Time(), rules=Rules(), instance="template")).aclose()


@pytest.fixture(scope="session")
def sqlite_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A migrated file; to copy it is quicker than to migrate for each test."""
    file = tmp_path_factory.mktemp("template") / "np.db"
    asyncio.run(_migrated(f"sqlite:///{file}"))
    return file


@pytest.fixture(scope="session")
def postgres_migrated(postgres: Postgres) -> str:
    """A migrated database. It is emptied for each test: that is ten times quicker than a new one."""
    name = postgres.new_database()
    asyncio.run(_migrated(postgres.url(name)))
    return name


@pytest.fixture(params=DATABASES)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A migrated database without rows."""
    if request.param == "sqlite":
        return str(request.getfixturevalue("sqlite_url"))
    server: Postgres = request.getfixturevalue("postgres")
    name: str = request.getfixturevalue("postgres_migrated")
    server.empty(name, ", ".join(metadata.tables))
    return server.url(name)


@pytest.fixture
def sqlite_url(tmp_path: Path, sqlite_template: Path) -> str:
    (tmp_path / "state").mkdir(mode=0o700)
    shutil.copy(sqlite_template, tmp_path / "state" / "np.db")
    return f"sqlite+aiosqlite:///{tmp_path}/state/np.db"


@pytest.fixture
def time() -> Time:
    return Time()


@pytest.fixture
async def store(url: str, time: Time) -> AsyncIterator[Store]:
    opened = await Store.open(url, now=time, rules=Rules(), instance="worker-1")
    try:
        yield opened
    finally:
        await opened.aclose()


@pytest.fixture
def driver(store: Store, time: Time) -> Driver:
    return Driver(store, time)


@pytest.fixture
def other(driver: Driver) -> Driver:
    """Another process, on the same database and the same host."""
    return Driver(driver.store, driver.time, by="worker-2", numbers=driver.numbers)
