from __future__ import annotations

import asyncio

import pytest

from bot.clock import Clock, ManualClock, SystemClock


async def test_nobody_wakes_before_his_time_and_everybody_at_it() -> None:
    clock = ManualClock()
    woken: list[str] = []

    async def sleeper(name: str, seconds: float) -> None:
        await clock.sleep(seconds)
        woken.append(name)

    async with asyncio.TaskGroup() as group:
        group.create_task(sleeper("late", 3))
        group.create_task(sleeper("early", 1))
        await clock.until_sleeping(2)
        clock.advance(0.999)
        await asyncio.sleep(0)
        assert woken == []
        clock.advance(0.001)
        await asyncio.sleep(0)
        assert woken == ["early"]
        clock.advance(2)
    assert woken == ["early", "late"]


async def test_sleepers_of_one_step_wake_in_the_order_of_their_deadlines() -> None:
    clock = ManualClock()
    woken: list[int] = []

    async def sleeper(seconds: int) -> None:
        await clock.sleep(seconds)
        woken.append(seconds)

    async with asyncio.TaskGroup() as group:
        for seconds in (3, 1, 2):
            group.create_task(sleeper(seconds))
        await clock.until_sleeping(3)
        clock.advance(10)
    assert woken == [1, 2, 3]


async def test_a_jump_of_the_wall_clock_wakes_nobody() -> None:
    clock = ManualClock(now_ms=1_000_000)
    task = asyncio.create_task(clock.sleep(5))
    await clock.until_sleeping()
    clock.jump_wall(3_600_000)
    await asyncio.sleep(0)
    assert not task.done()
    assert clock.now_ms() == 4_600_000
    assert clock.monotonic_s() == 0
    clock.advance(5)
    await task


async def test_a_cancelled_sleeper_is_forgotten() -> None:
    clock = ManualClock()
    task = asyncio.create_task(clock.sleep(5))
    await clock.until_sleeping()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert clock.sleeping == 0
    clock.advance(10)


async def test_a_sleep_of_nothing_gives_way_and_returns() -> None:
    await ManualClock().sleep(0)
    await SystemClock().sleep(-1)


def test_monotonic_time_cannot_be_turned_back() -> None:
    with pytest.raises(ValueError, match="jump_wall"):
        ManualClock().advance(-1)


def test_the_system_clock_counts_whole_milliseconds_since_1970() -> None:
    clock: Clock = SystemClock()
    assert isinstance(clock.now_ms(), int)
    assert clock.now_ms() > 1_700_000_000_000
    assert clock.monotonic_s() <= clock.monotonic_s()
