"""An owner that is unsure of its lease ends its agent before the lease ends, and changes nothing after it lost it."""

from __future__ import annotations

import asyncio
from pathlib import Path

from bot.clock import ManualClock
from bot.runtime.lease import Lease
from bot.runtime.ledger import Ledger
from bot.runtime.ports import RuntimeConfig
from bot.runtime.supervisor import Supervisor
from storage.events import TakeOver
from storage.models import RunId
from storage.states import RunState
from storage.store import Done
from tests.support.clock import SkippingClock
from tests.support.house import House


async def test_an_owner_that_cannot_renew_ends_its_agent_although_the_database_does_not_answer(tmp_path: Path) -> None:
    clock = SkippingClock()
    async with House(tmp_path, clock=clock, config={"lease_s": 600, "heartbeat_s": 200, "margin_s": 100}) as house:
        held, go_on = asyncio.Event(), asyncio.Event()

        async def hang(point: str) -> None:
            if point == "renew.before":
                held.set()
                await go_on.wait()

        house.fault = hang
        await house.say("say so far\nhang")
        await house.until(house.told)
        clock.skip(200)
        await held.wait()
        assert house.sessions[0].alive
        clock.skip(300)
        await house.until(lambda: not house.sessions[0].alive)
        go_on.set()
        await house.run(0, RunState.INTERRUPTED)
        await house.until(lambda: any("could not reach its database" in text for text in house.posted()))


async def test_a_former_owner_ends_its_agent_and_settles_nothing(tmp_path: Path) -> None:
    async with House(tmp_path, config={"lease_s": 5.0, "heartbeat_s": 0.1, "margin_s": 1.0}) as house:
        await house.say("say stale words\nhang")
        run = await house.run(0, RunState.DISPATCHED)
        taken = await house.store.do(TakeOver("porter-9", run.id, house.config.host, house.clock.now_ms() + 60_000, holder_gone=True))
        assert isinstance(taken, Done)
        await house.until(lambda: not house.sessions[0].alive)
        await house.stop()
    async with House(tmp_path, chat=house.chat, instance="porter-2") as again:
        interrupted = await again.run(0, RunState.INTERRUPTED)
        await again.until(again.posted)
        assert interrupted.fence > 2
        assert again.words() == []


async def test_a_jump_of_the_wall_clock_does_not_end_a_lease(tmp_path: Path) -> None:
    house = House(tmp_path)
    await house.open()
    clock = ManualClock()
    config = RuntimeConfig(host="here", lease_s=30, heartbeat_s=10, margin_s=5)
    lease = Lease(Ledger(house.store, clock), clock, config, Supervisor(clock), clock.monotonic_s())
    clock.jump_wall(3_600_000)
    held = [lease.held]
    for step_s in (24.9, 0.1):
        clock.advance(step_s)
        held.append(lease.held)
    assert held == [True, True, False]
    await house.stop(0)


async def test_a_refused_renewal_is_the_end_of_the_lease(tmp_path: Path) -> None:
    house = House(tmp_path)
    await house.open()
    clock = ManualClock()
    config = RuntimeConfig(host="here", lease_s=30, heartbeat_s=10, margin_s=5)
    supervisor = Supervisor(clock)
    lease = Lease(Ledger(house.store, clock), clock, config, supervisor, clock.monotonic_s())
    keeping = asyncio.create_task(lease.keep(RunId(99), 1))
    await clock.until_sleeping()
    clock.advance(10)
    await asyncio.wait_for(lease.lost.wait(), 20)
    assert not lease.held
    await keeping
    await house.stop(0)
