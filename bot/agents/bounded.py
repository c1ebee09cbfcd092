"""Waiting with a limit, on the clock that is handed in."""

from __future__ import annotations

import asyncio
from typing import Any

from bot.clock import Clock


async def done_within(clock: Clock, task: asyncio.Future[Any], limit_s: float) -> bool:
    """Whether `task` is done after at most `limit_s` seconds. It is left running, and its outcome is not looked at."""
    limit = asyncio.ensure_future(clock.sleep(limit_s))
    try:
        await asyncio.wait({task, limit}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        limit.cancel()
    return task.done()
