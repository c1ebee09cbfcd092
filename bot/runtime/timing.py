"""Waiting for the first of several things, on the program's own clock."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from bot.clock import Clock

T = TypeVar("T")


class Pulse:
    """Wakes everybody who waits at the moment of a beat; a beat that nobody waits for is gone."""

    def __init__(self) -> None:
        self._waiting: set[asyncio.Future[None]] = set()

    def beat(self) -> None:
        """Wake all who wait."""
        for future in self._waiting:
            if not future.done():
                future.set_result(None)
        self._waiting.clear()

    def next(self) -> asyncio.Future[None]:
        """The next beat. Take it before looking at the state that the beat is about, so that none is missed."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.add(future)
        future.add_done_callback(self._waiting.discard)
        return future


async def set_within(event: asyncio.Event, clock: Clock, seconds: float) -> bool:
    """Wait for an event, but no longer than that; whether it is set."""
    if not event.is_set():
        await first_of(event.wait(), clock.sleep(seconds))
    return event.is_set()


async def any_set(*events: asyncio.Event) -> None:
    """Wait until one of the events is set."""
    if not any(event.is_set() for event in events):
        await first_of(*(event.wait() for event in events))


async def first_of(*work: Coroutine[Any, Any, object]) -> None:
    """Run all until one has ended, then end the others. For waits only: what is cancelled must let go at once."""
    tasks = [asyncio.ensure_future(each) for each in work]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def beat_within(beat: asyncio.Future[None], clock: Clock, seconds: float) -> bool:
    """Wait for a beat, but no longer than that; whether it came."""
    if not beat.done():
        sleeping = asyncio.ensure_future(clock.sleep(seconds))
        try:
            await asyncio.wait({beat, sleeping}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            sleeping.cancel()
            await asyncio.gather(sleeping, return_exceptions=True)
    came = beat.done() and not beat.cancelled()
    beat.cancel()
    return came
