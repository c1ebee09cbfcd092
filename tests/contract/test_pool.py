"""The warm pool: capped, least recently used out, and never a process that missed a turn."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
import pytest_asyncio

from bot.agents.base import AgentSession, Death, Lost, SessionSpec
from bot.agents.pool import AgentPool
from tests.contract.harness import Rig, make_rig, texts, turn

IDLE_S = 600.0


@pytest_asyncio.fixture(name="rig")
async def _rig(tmp_path: Path) -> AsyncIterator[Rig]:
    rig = make_rig("scripted", tmp_path, None)
    yield rig


@pytest_asyncio.fixture(name="pool")
async def _pool(rig: Rig) -> AsyncIterator[AgentPool]:
    pool = AgentPool([rig.provider], cap=2, idle_timeout_s=IDLE_S, clock=rig.clock)
    yield pool
    await pool.aclose()


async def opened(pool: AgentPool, spec: SessionSpec) -> AgentSession:
    session = await pool.open("scripted", spec)
    assert not isinstance(session, Lost)
    return session


async def test_a_session_that_saw_the_last_turn_is_used_again(rig: Rig, pool: AgentPool) -> None:
    spec = rig.spec()
    first = await opened(pool, spec)
    await turn(first, "say one")
    pool.release(1, keep=True)
    again = await opened(pool, replace(spec, turns=1, resume=True))
    assert again.process == first.process
    assert texts(await turn(again, "recall")) == ["prompts before this one: 1"]


async def test_a_session_that_missed_a_turn_is_closed_and_opened_anew(rig: Rig, pool: AgentPool) -> None:
    spec = rig.spec()
    first = await opened(pool, spec)
    await turn(first, "say one")
    pool.release(1, keep=True)
    again = await opened(pool, replace(spec, turns=2, resume=True))
    assert again.process != first.process
    assert not first.alive
    assert await rig.provider.prove_dead(first.process) is Death.DEAD


async def test_a_session_that_was_handed_out_but_never_ran_saw_no_turn(rig: Rig, pool: AgentPool) -> None:
    spec = rig.spec()
    first = await opened(pool, spec)
    pool.release(1, keep=True)
    assert (await opened(pool, spec)).process == first.process


async def test_other_terms_need_another_process(rig: Rig, pool: AgentPool) -> None:
    spec = rig.spec()
    first = await opened(pool, spec)
    await turn(first, "say one")
    pool.release(1, keep=True)
    again = await opened(pool, replace(spec, turns=1, resume=True, env={"MORE": "1"}))
    assert again.process != first.process


async def test_a_dead_process_is_not_handed_out(rig: Rig, pool: AgentPool) -> None:
    spec = rig.spec()
    first = await opened(pool, spec)
    await turn(first, "die")
    assert await first.swept()
    pool.release(1, keep=True)
    assert pool.warm == ()
    again = await opened(pool, replace(spec, turns=1, resume=True))
    assert again.process != first.process


async def test_the_least_recently_used_goes_when_the_pool_is_full(rig: Rig, pool: AgentPool) -> None:
    specs = [rig.spec(session_id=number) for number in (1, 2, 3)]
    sessions = [await opened(pool, spec) for spec in specs]
    for number in (2, 1, 3):
        pool.release(number, keep=True)
    assert pool.warm == (1, 3)
    await pool.drop(2)
    assert [session.alive for session in sessions] == [True, False, True]


async def test_an_idle_session_is_closed_after_its_time(rig: Rig, pool: AgentPool) -> None:
    session = await opened(pool, rig.spec())
    pool.release(1, keep=True)
    await rig.clock.until_sleeping()
    rig.clock.advance(IDLE_S - 1)
    assert list(pool.warm) == [1]
    rig.clock.advance(1)
    await rig.clock.sleep(0)
    await pool.drop(1)
    assert list(pool.warm) == []
    assert not session.alive


async def test_a_session_that_is_used_again_is_not_closed_for_its_earlier_idleness(rig: Rig, pool: AgentPool) -> None:
    spec = rig.spec()
    await opened(pool, spec)
    pool.release(1, keep=True)
    await rig.clock.until_sleeping()
    session = await opened(pool, spec)
    rig.clock.advance(IDLE_S + 1)
    assert texts(await turn(session, "say hi")) == ["hi"]


async def test_one_session_is_never_handed_out_twice(rig: Rig, pool: AgentPool) -> None:
    spec = rig.spec()
    await opened(pool, spec)
    with pytest.raises(RuntimeError):
        await pool.open("scripted", spec)


async def test_a_lost_session_is_told_and_held_by_nobody(rig: Rig, pool: AgentPool) -> None:
    assert isinstance(await pool.open("scripted", rig.spec(resume=True, turns=1)), Lost)
    pool.release(1, keep=True)
    assert pool.warm == ()


async def test_closing_the_pool_ends_every_process(rig: Rig, pool: AgentPool) -> None:
    busy = await opened(pool, rig.spec(session_id=1))
    idle = await opened(pool, rig.spec(session_id=2))
    pool.release(2, keep=True)
    await pool.aclose()
    assert [session.alive for session in (busy, idle)] == [False, False]
    assert not list((rig.root / "state" / "run").iterdir())
    with pytest.raises(RuntimeError):
        await pool.open("scripted", rig.spec(session_id=3))


async def test_a_session_that_ended_while_it_was_handed_out_is_not_kept(rig: Rig, pool: AgentPool) -> None:
    session = await opened(pool, rig.spec())
    await pool.drop(1)
    pool.release(1, keep=True)
    assert pool.warm == ()
    await pool.drop(1)
    assert not session.alive


async def test_whoever_waits_for_a_session_gets_it_when_it_comes_back(rig: Rig, pool: AgentPool) -> None:
    spec = rig.spec()
    first = await opened(pool, spec)
    waiting = asyncio.ensure_future(pool.free(1))
    await asyncio.sleep(0)
    assert not waiting.done()
    pool.release(1, keep=True)
    await waiting
    assert (await opened(pool, spec)).process == first.process
