"""Whatever is spawned has an owner: a death is told, trouble with the database is waited out, nothing is left at the end."""

from __future__ import annotations

import asyncio

from bot.clock import ManualClock
from bot.runtime.supervisor import Supervisor
from storage.errors import NotStored


async def test_a_loop_that_dies_is_told_by_its_name() -> None:
    supervisor = Supervisor(ManualClock())

    async def step() -> None:
        raise KeyError("a fault")

    supervisor.loop("alarm", step)
    assert await asyncio.wait_for(supervisor.died(), 20) == "alarm"


async def test_a_database_that_cannot_be_used_pauses_a_loop_and_does_not_end_it() -> None:
    clock = ManualClock()
    supervisor = Supervisor(clock)
    steps, went_on = 0, asyncio.Event()

    async def step() -> None:
        nonlocal steps
        steps += 1
        if steps == 1:
            raise NotStored("the disk is full")
        went_on.set()
        await asyncio.get_running_loop().create_future()

    supervisor.loop("outbox", step)
    await clock.until_sleeping()
    assert steps == 1
    clock.advance(1)
    await asyncio.wait_for(went_on.wait(), 20)
    await supervisor.stop(1)


async def test_a_fault_of_one_unit_is_cleaned_up_and_ends_nothing_else() -> None:
    supervisor = Supervisor(ManualClock())
    cleaned = asyncio.Event()

    async def work() -> None:
        raise KeyError("a fault")

    async def clean_up() -> None:
        cleaned.set()

    await supervisor.contained("turn.1", work(), clean_up)
    assert cleaned.is_set()


async def test_stop_ends_everything_also_what_never_began() -> None:
    supervisor = Supervisor(ManualClock())
    ended = asyncio.Event()

    async def forever() -> None:
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            ended.set()

    began = supervisor.spawn("began", forever())
    await asyncio.sleep(0)
    never = supervisor.spawn("never", forever())
    await supervisor.stop(1)
    assert ended.is_set()
    assert began.done()
    assert never.done()


async def test_a_loop_that_meets_a_cancellation_of_something_else_does_not_end_in_silence() -> None:
    supervisor = Supervisor(ManualClock())

    async def step() -> None:
        raise asyncio.CancelledError

    supervisor.loop("quiet", step)
    assert await asyncio.wait_for(supervisor.died(), 5) == "quiet"
