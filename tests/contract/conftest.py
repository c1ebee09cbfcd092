"""The rigs: `rig` runs a test with every adapter, `claude` and `scripted` with one."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from tests.contract.harness import Rig, make_api, make_rig

ADAPTERS = [pytest.param("scripted"), pytest.param("claude", marks=pytest.mark.real_cli)]


@pytest_asyncio.fixture(params=ADAPTERS)
async def rig(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Rig]:
    async with make_api() as api:
        made = make_rig(request.param, tmp_path, api if request.param == "claude" else None)
        yield made
        await made.close()


@pytest_asyncio.fixture
async def claude(tmp_path: Path) -> AsyncIterator[Rig]:
    async with make_api() as api:
        made = make_rig("claude", tmp_path, api)
        yield made
        await made.close()


@pytest_asyncio.fixture
async def scripted(tmp_path: Path) -> AsyncIterator[Rig]:
    made = make_rig("scripted", tmp_path, None)
    yield made
    await made.close()
