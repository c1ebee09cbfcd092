"""Impossible rows are refused by the database itself, whoever writes them and however."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import Table, insert, select, update
from sqlalchemy.exc import DBAPIError, IntegrityError

from storage.errors import StaleFence
from storage.events import Release
from storage.models import PromptKind
from storage.schema import continuations, conversations, journal, parts, prompts, runs, sessions
from storage.snapshots import Candidate
from tests.support.storage import Driver


async def add_like(driver: Driver, table: Table, row_id: int, **changes: Any) -> None:
    """A copy of a row, with some columns changed, past the store."""
    async with driver.store._engines.write.begin() as conn:  # noqa: SLF001 - past the store on purpose
        found = (await conn.execute(select(table).where(table.c.id == row_id))).mappings().one()
        values = {name: value for name, value in found.items() if name != "id"}
        await conn.execute(insert(table).values({**values, **changes}))


async def change(driver: Driver, table: Table, row_id: int, **changes: Any) -> None:
    async with driver.store._engines.write.begin() as conn:  # noqa: SLF001 - past the store on purpose
        await conn.execute(update(table).where(table.c.id == row_id).values(changes))


async def test_a_conversation_has_one_active_run(driver: Driver) -> None:
    run = await driver.running((await driver.bind()).id)
    for state in ("claimed", "dispatched"):
        with pytest.raises(IntegrityError):
            await add_like(driver, runs, run.id, workspace="/srv/other", prompt_uuid="fresh", state=state)
    await driver.settle(run)
    await add_like(driver, runs, run.id, prompt_uuid="fresh", state="claimed")


async def test_a_workspace_has_one_active_run(driver: Driver) -> None:
    first, second = await driver.bind(1), await driver.bind(2)
    run = await driver.running(first.id)
    with pytest.raises(IntegrityError):
        await add_like(driver, runs, run.id, conversation_id=second.id, prompt_uuid="fresh")


async def test_a_shared_folder_has_one_active_run_for_each_conversation(driver: Driver) -> None:
    first, second = await driver.bind(1, shared=True), await driver.bind(2, shared=True)
    run = await driver.running(first.id)
    assert run.workspace is None
    await driver.prompt(second.id)
    (candidate,) = await driver.store.dispatch.claimable(driver.time.ms)
    assert candidate == Candidate(None, second.id)
    await driver.claim(candidate)
    with pytest.raises(IntegrityError):
        await add_like(driver, runs, run.id, prompt_uuid="fresh")


async def test_a_conversation_has_one_armed_continuation(driver: Driver) -> None:
    pending = await driver.pending((await driver.bind()).id)
    for state in ("pending", "claimed"):
        with pytest.raises(IntegrityError):
            await add_like(driver, continuations, pending.id, state=state)
    await add_like(driver, continuations, pending.id, state="cancelled")


async def test_a_run_asks_for_one_continuation(driver: Driver) -> None:
    run = await driver.running((await driver.bind()).id)
    asked = await driver.wait(run)
    with pytest.raises(IntegrityError):
        await add_like(driver, continuations, asked.id)


async def test_a_conversation_has_one_open_session(driver: Driver) -> None:
    run = await driver.running((await driver.bind()).id)
    with pytest.raises(IntegrityError):
        await add_like(driver, sessions, run.session_id)
    await add_like(driver, sessions, run.session_id, state="ended")


async def test_source_keys_uuids_nonces_and_places_are_unique(driver: Driver) -> None:
    conversation, another = await driver.bind(1), await driver.bind(2, "/srv/b")
    prompt = await driver.prompt(conversation.id)
    run = await driver.dispatch(await driver.claim())
    await driver.settle(run)
    part = (await driver.queued(conversation.id))[0]
    with pytest.raises(IntegrityError):
        await add_like(driver, prompts, prompt.id, conversation_id=another.id)
    with pytest.raises(IntegrityError):
        await add_like(driver, runs, run.id, conversation_id=another.id)
    with pytest.raises(IntegrityError):
        await add_like(driver, parts, part.id, seq=99)
    with pytest.raises(IntegrityError):
        await add_like(driver, parts, part.id, nonce="fresh")
    with pytest.raises(IntegrityError):
        await add_like(driver, conversations, conversation.id)


OUTSIDE: tuple[tuple[Table, dict[str, Any]], ...] = (
    (conversations, {"next_seq": 0}),
    (sessions, {"state": "sleeping"}),
    (prompts, {"state": "pending"}),
    (prompts, {"kind": "thought"}),
    (prompts, {"state": "taken", "run_id": None}),
    (prompts, {"kind": "wake"}),
    (runs, {"state": "waiting"}),
    (runs, {"kind": "thought"}),
    (runs, {"fence": 0}),
    (runs, {"prompt_uuid": None}),
    (runs, {"process": None}),
    (runs, {"state": "succeeded", "dispatched_ms": None}),
    (continuations, {"state": "taken"}),
    (continuations, {"expires_at_ms": 0}),
    (parts, {"state": "sent"}),
    (parts, {"kind": "joke"}),
    (parts, {"nonce": "x" * 26}),
    (parts, {"nonce": ""}),
    (parts, {"state": "delivered"}),
    (parts, {"state": "sending"}),
)


async def test_a_row_outside_the_vocabulary_is_refused(driver: Driver) -> None:
    conversation = await driver.bind()
    await driver.wait(await driver.running(conversation.id))
    await driver.queued(conversation.id)
    for table, changes in OUTSIDE:
        try:
            await change(driver, table, 1, **changes)
        except IntegrityError:
            continue
        pytest.fail(f"{table.name} took {changes}")


async def test_a_row_never_belongs_to_nothing(driver: Driver) -> None:
    prompt = await driver.prompt((await driver.bind()).id)
    for column in ("conversation_id", "session_id", "continuation_id", "run_id"):
        with pytest.raises(IntegrityError):
            await change(driver, prompts, prompt.id, **{column: 4711})


async def test_the_journal_is_append_only(driver: Driver) -> None:
    await driver.bind()
    with pytest.raises(DBAPIError, match="append-only"):
        await change(driver, journal, 1, why="I was never there")


async def test_a_claim_that_loses_to_the_index_gives_up_after_a_few_attempts(driver: Driver) -> None:
    """The query alone would let two runs start; the index is the authority."""
    first, second = await driver.bind(1), await driver.bind(2)
    await driver.running(first.id)
    await driver.prompt(second.id)
    before = await driver.everything()
    blind = Candidate(None, second.id)  # as if the folder were shared: the workspace is not looked at
    with pytest.raises(StaleFence):
        await driver.store.claim(driver.claim_event(), blind)
    assert await driver.everything() == before


async def test_people_go_first_across_a_workspace_then_the_oldest(driver: Driver) -> None:
    channels = [(await driver.bind(number)).id for number in (1, 2, 3)]
    now = driver.time.ms
    event = {"kind": PromptKind.EVENT, "addressed": False, "message_id": None}
    await driver.prompt(channels[0], ordered_ms=now - 300, **event)
    await driver.prompt(channels[1], ordered_ms=now - 100)
    await driver.prompt(channels[2], ordered_ms=now - 200)
    order = []
    for _ in range(3):
        (candidate,) = await driver.store.dispatch.claimable(driver.time.ms)
        run = await driver.claim(candidate)
        order.append(run.conversation_id)
        await driver.settle(await driver.dispatch(run))
    assert order == [channels[2], channels[1], channels[0]]


async def test_places_are_named_people_first_then_oldest_and_busy_ones_left_out(driver: Driver) -> None:
    a, b, c = [await driver.bind(number, folder) for number, folder in ((1, "/a"), (2, "/b"), (3, "/c"))]
    now = driver.time.ms
    await driver.prompt(a.id, ordered_ms=now - 900, kind=PromptKind.EVENT, addressed=False)
    await driver.prompt(b.id, ordered_ms=now - 100)
    await driver.prompt(c.id, ordered_ms=now - 200)
    places = [place.workspace for place in await driver.store.dispatch.claimable(now)]
    assert places == ["/c", "/b", "/a"]
    await driver.claim()
    assert [place.workspace for place in await driver.store.dispatch.claimable(now)] == ["/b", "/a"]
    await driver.claim(Candidate("/b", b.id))
    assert [place.workspace for place in await driver.store.dispatch.claimable(now)] == ["/a"]


async def test_a_place_that_could_not_be_opened_is_left_out_until_its_time(driver: Driver) -> None:
    conversation = await driver.bind()
    await driver.prompt(conversation.id)
    await driver.done(Release(driver.by, (await driver.claim()).id, 1, "cannot open"))
    not_before = (await driver.conversation(conversation.id)).not_before_ms
    assert not_before > driver.time.ms
    assert await driver.store.dispatch.claimable(not_before - 1) == ()
    assert len(await driver.store.dispatch.claimable(not_before)) == 1
