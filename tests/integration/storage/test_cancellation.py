"""A cancelled call is not a rolled-back one: what was begun is stored, and the store goes on working."""

from __future__ import annotations

import asyncio

import pytest

from storage.events import Arrive
from storage.guard import in_transaction, refuse_in_transaction
from storage.models import Rules
from storage.store import Done, Store
from tests.support.storage import Driver, Time


async def cancelled_after(driver: Driver, event: Arrive, turns: int) -> bool:
    """Cancel the call after so many turns of the loop; whether it had ended by itself."""
    task = asyncio.create_task(driver.store.do(event))
    for _ in range(turns):
        await asyncio.sleep(0)
    ended = task.done()
    task.cancel()
    if ended:
        assert isinstance(await task, Done)
    else:
        with pytest.raises(asyncio.CancelledError):
            await task
    return ended


async def test_whatever_the_moment_of_cancellation_the_call_that_began_is_stored(driver: Driver) -> None:
    conversation = await driver.bind()
    turns, ended = 0, False
    while not ended:
        event = driver.message(conversation.id, text=f"after {turns}")
        ended = await cancelled_after(driver, event, turns)
        stored = await driver.store.prompts.by_source_key(event.source_key)
        # Not even the first turn: the call did not begin.
        assert (stored is not None) == (turns > 0), turns
        turns = turns + 1 if turns < 8 else turns * 2


@pytest.mark.parametrize("point", ["C1.before", "C1.after"])
async def test_cancelled_at_the_commit_it_is_stored_and_the_caller_waits_for_it(url: str, time: Time, point: str) -> None:
    reached, go = asyncio.Event(), asyncio.Event()

    async def pause(name: str) -> None:
        if name == point:
            reached.set()
            await go.wait()

    store = await Store.open(url, now=time, rules=Rules(), instance="worker-1", fault=pause)
    try:
        driver = Driver(store, time)
        event = driver.message((await driver.bind()).id)
        task = asyncio.create_task(store.do(event))
        await reached.wait()
        for _ in range(3):
            task.cancel()
            await asyncio.sleep(0)
        assert not task.done()
        go.set()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await store.prompts.by_source_key(event.source_key) is not None
    finally:
        go.set()
        await store.aclose()


async def test_cancelled_readers_leave_the_pool_whole(driver: Driver) -> None:
    conversation = await driver.bind()
    for turns in range(25):
        task = asyncio.create_task(driver.store.conversations.all_bound())
        for _ in range(turns):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait({task})
    found = await asyncio.gather(*(driver.store.conversations.by_id(conversation.id) for _ in range(12)))
    assert {row.id for row in found if row is not None} == {conversation.id}


async def test_closing_waits_for_what_is_being_stored(url: str, time: Time) -> None:
    store = await Store.open(url, now=time, rules=Rules(), instance="worker-1")
    driver = Driver(store, time)
    event = driver.message((await driver.bind()).id)
    task = asyncio.create_task(store.do(event))
    await asyncio.sleep(0)
    await store.aclose()
    assert isinstance(await task, Done)


async def test_inside_a_transaction_the_world_outside_is_refused(url: str, time: Time) -> None:
    inside: dict[str, bool] = {}

    async def look(name: str) -> None:
        inside[name] = in_transaction.get()
        if name == "C1.before":
            with pytest.raises(RuntimeError, match="a network call was called inside a database transaction"):
                refuse_in_transaction("a network call")

    store = await Store.open(url, now=time, rules=Rules(), instance="worker-1", fault=look)
    try:
        driver = Driver(store, time)
        await driver.prompt((await driver.bind()).id)
    finally:
        await store.aclose()
    assert inside == {"bind.before": True, "bind.after": False, "C1.before": True, "C1.after": False}
    refuse_in_transaction("a network call")
