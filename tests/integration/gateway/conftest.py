"""The hotel that the tests of this folder live in."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest_asyncio

from tests.support.gateway_house import Hotel, hotel_in


@pytest_asyncio.fixture
async def hotel(tmp_path: Path) -> AsyncIterator[Hotel]:
    async with hotel_in(tmp_path) as made:
        yield made
