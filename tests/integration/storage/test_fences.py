"""A write that is based on what no longer is changes nothing, and says so."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from storage import events as e
from storage.errors import Impossible, StaleFence
from storage.events import Change, Code, Entity, Insert, Move, Refusal, Touch
from storage.models import ConversationId, Part, PromptKind, Rules, Run, RunId
from storage.snapshots import Candidate
from storage.states import PartState, PromptState, RunState
from storage.store import Done, Store
from tests.support.storage import Driver, Time

Make = Callable[[Run, Part], Change]


def settled(run: Run) -> Change:
    """Right, and goes before what is wrong: it must not stay either."""
    return Touch(Entity.RUN, run.id, {"ended_why": "half done"})


STALE: dict[str, Make] = {
    "another state": lambda run, _: Move(Entity.RUN, run.id, RunState.CLAIMED, RunState.DISPATCHED, "why"),
    "another fence": lambda run, _: Move(Entity.RUN, run.id, RunState.DISPATCHED, RunState.SUCCEEDED, "why", fence=run.fence + 1),
    "an old attempt": lambda _, part: Move(Entity.PART, part.id, PartState.SENDING, PartState.DELIVERED, "why", 0, {"message_id": 1}),
    "a touch in another state": lambda run, _: Touch(Entity.RUN, run.id, {"lease_until_ms": 1}, state=RunState.CLAIMED),
    "a touch with another fence": lambda run, _: Touch(Entity.RUN, run.id, {"lease_until_ms": 1}, fence=run.fence + 1),
    "no such row": lambda run, _: Touch(Entity.RUN, RunId(run.id + 1), {"ended_why": ""}),
}

FORBIDDEN: dict[str, Make] = {
    "a move that is not in the table": lambda run, _: Move(Entity.RUN, run.id, RunState.DISPATCHED, RunState.CLAIMED, "why"),
    "a row that begins in the middle": lambda run, _: Insert(Entity.RUN, run, "why"),
    "a row of the decision that is not there": lambda run, _: Touch(Entity.RUN, run.id, {"session_id": -5}),
    "a fence where there is none": lambda run, _: Touch(Entity.SESSION, run.session_id, {"turns": 5}, fence=1),
    "a row that the database forbids": lambda run, _: Touch(Entity.RUN, run.id, {"prompt_uuid": None}),
}


@pytest.mark.parametrize("make", STALE.values(), ids=STALE.keys())
async def test_a_stale_change_voids_the_whole_decision(driver: Driver, monkeypatch: pytest.MonkeyPatch, make: Make) -> None:
    await decided(driver, monkeypatch, make, StaleFence)


@pytest.mark.parametrize("make", FORBIDDEN.values(), ids=FORBIDDEN.keys())
async def test_a_forbidden_change_voids_the_whole_decision(driver: Driver, monkeypatch: pytest.MonkeyPatch, make: Make) -> None:
    await decided(driver, monkeypatch, make, Impossible)


async def decided(driver: Driver, monkeypatch: pytest.MonkeyPatch, make: Make, error: type[Exception]) -> None:
    conversation = await driver.bind()
    run = await driver.running(conversation.id)
    part = await driver.sending(conversation.id)
    before = await driver.everything()
    with monkeypatch.context() as patch:
        patch.setattr("storage.store.decide", lambda *_: (settled(run), make(run, part)))
        with pytest.raises(error):
            await driver.store.do(e.Attend(driver.by, conversation.id))
    assert await driver.everything() == before
    await driver.done(e.Attend(driver.by, conversation.id))


async def test_a_former_owner_changes_nothing_after_a_takeover(driver: Driver, other: Driver) -> None:
    run = await driver.running((await driver.bind()).id)
    driver.time.ms = run.lease_until_ms
    await other.done(e.TakeOver(other.by, run.id, other.host, other.time.ms + 30_000))
    before = await driver.everything()
    later = driver.time.ms + 60_000
    for event in (
        e.Renew(driver.by, run.id, run.fence, later),
        e.Say(driver.by, run.id, run.fence, (driver.part("me again"),)),
        e.Wait(driver.by, run.id, run.fence, "CI", later, later),
        e.NativeIdChanged(driver.by, run.id, run.fence, "mine"),
        driver.settle_event(run, words=("me again",)),
    ):
        assert await driver.refused(event) is Code.STALE_FENCE
    assert await driver.everything() == before
    assert (await driver.run(run.id)).fence == run.fence + 1


@pytest.fixture
async def second(store: Store, url: str, time: Time) -> AsyncIterator[Driver]:
    """Another process where the database allows one; else the same store, whose single writer is the queue."""
    if store.exclusive:
        yield Driver(store, time, by="worker-2")
        return
    opened = await Store.open(url, now=time, rules=Rules(), instance="worker-2")
    try:
        yield Driver(opened, time, by="worker-2")
    finally:
        await opened.aclose()


async def test_two_that_claim_at_once_get_different_work(driver: Driver, second: Driver) -> None:
    chosen: list[ConversationId] = []
    for number in range(6):
        conversation = await driver.bind(number, f"/srv/{number // 2}")
        chosen.append(conversation.id)
        await driver.prompt(conversation.id)
    places = [Candidate(f"/srv/{number}", chosen[number * 2]) for number in range(3)]
    outcomes = await asyncio.gather(*(d.store.claim(d.claim_event(), place) for place in places for d in (driver, second)))
    assert sum(isinstance(outcome, Done) for outcome in outcomes) == 3
    assert {outcome.code for outcome in outcomes if isinstance(outcome, Refusal)} == {Code.NOTHING}
    active = await driver.store.runs.active_all()
    assert {run.workspace for run in active} == {"/srv/0", "/srv/1", "/srv/2"}
    for run in active:
        assert {p.state for p in await driver.store.prompts.of_run(run.id)} == {PromptState.TAKEN}


async def test_one_event_that_arrives_twice_at_once_is_one_prompt(driver: Driver, second: Driver) -> None:
    """Also for two conversations, which share no lock: then the unique source key decides, and the loser looks again."""
    first, another = await driver.bind(1), await driver.bind(2)
    event: dict[str, Any] = {"kind": PromptKind.EVENT, "addressed": False, "message_id": None, "source_key": "event:1"}
    outcomes = await asyncio.gather(
        *(d.store.do(d.message(conversation.id, **event)) for _ in range(4) for conversation in (first, another) for d in (driver, second))
    )
    assert sum(isinstance(outcome, Done) for outcome in outcomes) == 1
    assert {outcome.code for outcome in outcomes if isinstance(outcome, Refusal)} == {Code.DUPLICATE}


async def test_parts_of_two_writers_stand_in_one_row(driver: Driver, second: Driver) -> None:
    conversation = await driver.bind()
    second.numbers = driver.numbers
    await asyncio.gather(*(d.queued(conversation.id, "a", "b") for _ in range(4) for d in (driver, second)))
    assert [p.seq for p in await driver.store.outbox.backlog(conversation.id)] == list(range(1, 17))
