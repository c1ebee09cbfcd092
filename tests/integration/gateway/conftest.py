"""The hotel that the tests of this folder live in."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from bot.clock import SystemClock
from tests.support.gateway_backend import StoreBackend
from tests.support.gateway_house import Hotel, hotel_in


@pytest.fixture(scope="session")
def empty_database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database that is migrated once for all tests here: what they prove is not the migration."""
    folder = tmp_path_factory.mktemp("empty")

    async def migrate() -> None:
        await (await StoreBackend.open(folder, SystemClock())).store.aclose()

    asyncio.run(migrate())
    return folder / "np.db"


@pytest_asyncio.fixture
async def hotel(tmp_path: Path, empty_database: Path) -> AsyncIterator[Hotel]:
    shutil.copy(empty_database, tmp_path / "np.db")
    async with hotel_in(tmp_path) as made:
        yield made
