"""What belongs together is stored together, in order, and comes back as it was stored."""

from __future__ import annotations

import pytest

from storage import events as e
from storage.events import Code, Entity
from storage.models import PromptKind
from storage.snapshots import Candidate
from storage.states import ContinuationState, PartState, PromptState, RunState, SessionState
from tests.support.storage import Driver


async def test_a_claim_takes_the_prompts_and_begins_the_session(driver: Driver) -> None:
    conversation = await driver.bind()
    prompts = [await driver.prompt(conversation.id) for _ in range(3)]
    run = await driver.claim()
    session = await driver.store.sessions.open_of(conversation.id)
    assert session is not None
    assert (run.session_id, session.state, run.workspace) == (session.id, SessionState.OPEN, "/srv/a")
    taken = await driver.store.prompts.of_run(run.id)
    assert [p.id for p in taken] == [p.id for p in prompts]
    assert {p.state for p in taken} == {PromptState.TAKEN}


async def test_a_claim_where_nothing_waits_is_refused(driver: Driver) -> None:
    conversation = await driver.bind()
    assert await driver.store.claim(driver.claim_event(), Candidate("/srv/a", conversation.id)) == e.Refusal(Code.NOTHING)


async def test_a_claim_needs_a_candidate(driver: Driver) -> None:
    with pytest.raises(TypeError, match=r"use Store\.claim"):
        await driver.store.do(driver.claim_event())


async def test_settlement_arms_the_wait_and_its_due_time_queues_one_prompt(driver: Driver) -> None:
    conversation = await driver.bind()
    pending = await driver.pending(conversation.id)
    assert pending.state is ContinuationState.PENDING
    assert await driver.store.continuations.next_due_ms() == pending.due_at_ms
    assert await driver.store.continuations.due(pending.due_at_ms - 1, 10) == ()
    driver.time.ms = pending.due_at_ms
    assert await driver.store.continuations.due(driver.time.ms, 10) == (pending.id,)
    await driver.done(e.Due(driver.by, pending.id))
    assert await driver.refused(e.Due(driver.by, pending.id)) is Code.ENDED
    (wake,) = await driver.store.prompts.waiting(conversation.id)
    assert (wake.kind, wake.continuation_id, wake.session_id) == (PromptKind.WAKE, pending.id, pending.session_id)


async def test_what_belongs_together_ends_together(driver: Driver) -> None:
    """Cancelling a claimed continuation withdraws its taken prompt and cancels its claimed run."""
    woken = await driver.woken((await driver.bind()).id)
    run = await driver.claim()
    await driver.done(e.Cancel("user:7", woken.id, "not needed"))
    prompt = await driver.store.prompts.by_source_key(f"continuation:{woken.id}")
    assert prompt is not None
    states = ((await driver.continuation(woken.id)).state, prompt.state, (await driver.run(run.id)).state)
    assert states == (ContinuationState.CANCELLED, PromptState.WITHDRAWN, RunState.CANCELLED)


async def test_parts_keep_the_order_of_their_channel(driver: Driver) -> None:
    conversation = await driver.bind()
    first, second = await driver.queued(conversation.id, "one", "two")
    await driver.queued(conversation.id, "three")
    assert [p.seq for p in await driver.store.outbox.backlog(conversation.id)] == [1, 2, 3]
    assert [p.id for p in await driver.store.outbox.sendable(driver.time.ms, 10)] == [first.id]
    await driver.done(e.Send(driver.by, first.id, driver.time.ms + 20_000))
    assert await driver.store.outbox.sendable(driver.time.ms, 10) == ()
    await driver.done(e.Receipt(driver.by, first.id, 4711, attempt=1))
    assert [p.id for p in await driver.store.outbox.sendable(driver.time.ms, 10)] == [second.id]
    assert (await driver.get_part(first.id)).state is PartState.DELIVERED


async def test_stop_withdraws_the_words_that_are_not_out_and_keeps_notices(driver: Driver) -> None:
    conversation = await driver.bind()
    run = await driver.running(conversation.id)
    first, second, third = (driver.part(text) for text in ("one", "two", "three"))
    await driver.done(e.Say(driver.by, run.id, 1, (first, second, third)))
    await driver.queued(conversation.id, "a notice")
    sending = (await driver.store.outbox.of_run(run.id))[0]
    await driver.done(e.Send(driver.by, sending.id, driver.time.ms + 20_000))
    await driver.done(e.Stop("user:7", conversation.id, stop_id=999))
    assert [part.state for part in await driver.store.outbox.of_run(run.id)] == [
        PartState.SENDING,
        PartState.WITHDRAWN,
        PartState.WITHDRAWN,
    ]
    assert [part.text for part in await driver.store.outbox.backlog(conversation.id)] == ["one", "a notice"]
    assert (await driver.get_part(sending.id)).withdraw


async def test_one_authors_messages_in_a_row_are_claimed_together_up_to_the_bound(driver: Driver) -> None:
    conversation = await driver.bind()
    prompts = [await driver.prompt(conversation.id) for _ in range(driver.store.rules.batch_prompts + 2)]
    run = await driver.claim()
    taken = await driver.store.prompts.of_run(run.id)
    assert [p.id for p in taken] == [p.id for p in prompts[: driver.store.rules.batch_prompts]]


async def test_characters_that_no_database_takes_are_replaced_and_the_message_is_kept(driver: Driver) -> None:
    conversation = await driver.bind()
    stored = await driver.prompt(conversation.id, text="a\x00b\ud800c")
    assert stored.text == "a\ufffdb\ufffdc"
    assert await driver.store.prompts.by_id(stored.id) == stored


async def test_what_is_returned_is_what_is_stored(driver: Driver) -> None:
    run = await driver.running((await driver.bind()).id)
    done = await driver.settle(run, words=("one",))
    (part,) = done.inserted(Entity.PART)
    assert await driver.store.outbox.of_run(run.id) == (part,)


async def test_a_channel_is_bound_once(driver: Driver) -> None:
    first = await driver.bind(100, "/srv/a")
    assert await driver.bind(100, "/srv/other") == first
    assert await driver.store.conversations.all_bound() == (first,)
