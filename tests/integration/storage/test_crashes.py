"""SIGKILL right before and right after each COMMIT: what is there afterwards is what the table of commit points says."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import pytest

from storage import events as e
from storage.events import Code
from storage.models import Continuation, Conversation, Part, Prompt, Rules, Run
from storage.snapshots import Candidate
from storage.states import ContinuationState, PartState, PromptState, RunState
from storage.store import Store
from tests.support.postgres import Postgres
from tests.support.storage import START_MS, Driver, Ended, Time

CHANNELS = count(1)


@pytest.fixture(scope="module")
def zygote() -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [sys.executable, "-m", "tests.support.crash_zygote"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    ) as process:
        try:
            yield process
        finally:
            process.kill()


@dataclass
class After:
    """What the next process finds."""

    driver: Driver
    channel: int

    @property
    def store(self) -> Store:
        return self.driver.store

    async def conversation(self) -> Conversation:
        found = await self.store.conversations.by_channel(self.channel)
        assert found is not None
        return found

    async def prompt(self) -> Prompt | None:
        return await self.store.prompts.by_source_key(f"message:{self.channel}")

    async def waiting(self) -> int:
        return len(await self.store.prompts.waiting((await self.conversation()).id))

    async def run(self) -> Run | None:
        found = await self.store.runs.recent((await self.conversation()).id, 10)
        assert len(found) <= 1
        return found[0] if found else None

    async def the_run(self) -> Run:
        found = await self.run()
        assert found is not None
        return found

    async def live(self) -> Continuation | None:
        found = await self.store.continuations.live((await self.conversation()).id)
        assert len(found) <= 1
        return found[0] if found else None

    async def parts(self) -> tuple[Part, ...]:
        return await self.store.outbox.of_run((await self.the_run()).id)

    async def take_over(self) -> Run:
        """As recovery does: the fence first; the agent is proven dead after it."""
        run = await self.the_run()
        self.driver.time.ms = max(self.driver.time.ms, run.lease_until_ms)
        await self.driver.done(e.TakeOver(self.driver.by, run.id, run.host, self.driver.time.ms + 30_000))
        return await self.the_run()

    async def settle(self, run: Run, outcome: Ended, evidence: e.Evidence) -> None:
        parts = (self.driver.part("the answer"),) if outcome is RunState.SUCCEEDED else ()
        await self.driver.done(e.Settle(self.driver.by, run.id, run.fence, outcome, e.Proof.DEAD, evidence, "recovered", parts))


@pytest.fixture
def place(request: pytest.FixtureRequest, tmp_path: Path, database: str) -> str:
    """The URL of a migrated database. On PostgreSQL all tests share it, each in a channel of its own."""
    if database == "sqlite":
        shutil.copy(request.getfixturevalue("sqlite_template"), tmp_path / "np.db")
        return f"sqlite:///{tmp_path}/np.db"
    server: Postgres = request.getfixturevalue("postgres")
    return server.url(request.getfixturevalue("postgres_migrated"))


@pytest.fixture
async def after(zygote: subprocess.Popen[str], place: str, point: str) -> AsyncIterator[After]:
    channel = next(CHANNELS)
    assert zygote.stdin is not None
    assert zygote.stdout is not None
    zygote.stdin.write(json.dumps({"url": place, "channel": channel, "point": point}) + "\n")
    zygote.stdin.flush()
    assert zygote.stdout.readline().strip() == str(int(signal.SIGKILL)), "the process did not die at the point"
    time = Time(START_MS)
    store = await Store.open(place, now=time, rules=Rules(), instance="worker-2")
    try:
        yield After(Driver(store, time, by="worker-2", numbers=count(channel * 1000 + 500)), channel)
    finally:
        await store.aclose()


pytestmark = pytest.mark.parametrize("database", ["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])


def dies(point: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("point", [point])


@dies("C1.before")
async def test_before_c1_the_message_is_unknown_and_stored_when_it_is_seen_again(after: After) -> None:
    assert await after.prompt() is None
    assert (await after.conversation()).last_seen_id == 0
    await after.driver.done(after.driver.message((await after.conversation()).id, source_key=f"message:{after.channel}"))
    assert await after.waiting() == 1


@dies("C1.after")
async def test_after_c1_it_waits_its_turn_and_seen_again_it_is_a_duplicate(after: After) -> None:
    assert await after.waiting() == 1
    again = after.driver.message((await after.conversation()).id, source_key=f"message:{after.channel}", message_id=None)
    assert await after.driver.refused(again) is Code.DUPLICATE


@dies("C2.before")
async def test_before_c2_the_prompts_still_wait(after: After) -> None:
    assert await after.waiting() == 1
    assert await after.run() is None
    assert await after.store.sessions.open_of((await after.conversation()).id) is None


async def released_when_the_lease_ends(after: After) -> None:
    run = await after.the_run()
    assert (run.state, run.holder, run.fence, run.process) == (RunState.CLAIMED, "worker-1", 1, None)
    assert await after.driver.refused(e.LeaseEnded(after.driver.by, run.id)) is Code.LEASE_HELD
    after.driver.time.ms = run.lease_until_ms
    await after.driver.done(e.LeaseEnded(after.driver.by, run.id))
    assert (await after.the_run()).state is RunState.RELEASED
    prompt = await after.prompt()
    assert prompt is not None
    assert (prompt.state, prompt.tries, prompt.run_id) == (PromptState.WAITING, 1, None)
    conversation = await after.conversation()
    after.driver.time.ms = conversation.not_before_ms
    again = await after.driver.claim(Candidate(conversation.workspace, conversation.id))
    assert [p.id for p in await after.store.prompts.of_run(again.id)] == [prompt.id]


@dies("C2.after")
async def test_after_c2_the_lease_ends_and_the_prompts_wait_again(after: After) -> None:
    await released_when_the_lease_ends(after)


@dies("C3.before")
async def test_before_c3_it_is_as_after_c2(after: After) -> None:
    await released_when_the_lease_ends(after)


@dies("C3.after")
async def test_after_c3_it_is_never_queued_again_and_ends_interrupted_or_harvested(after: After) -> None:
    run = await after.the_run()
    assert run.state is RunState.DISPATCHED
    assert run.prompt_uuid is not None
    assert run.process is not None
    after.driver.time.ms = run.lease_until_ms
    assert await after.driver.refused(e.LeaseEnded(after.driver.by, run.id, holder_gone=True)) is Code.STALE_FENCE
    taken = await after.take_over()
    assert taken.fence == 2
    await after.settle(taken, RunState.INTERRUPTED, e.Evidence.NONE)
    prompt = await after.prompt()
    assert prompt is not None
    assert ((await after.the_run()).state, prompt.state) == (RunState.INTERRUPTED, PromptState.SETTLED)
    assert await after.waiting() == 0


@dies("C9.before")
async def test_before_c9_no_wait_is_stored(after: After) -> None:
    assert await after.live() is None
    assert (await after.the_run()).state is RunState.DISPATCHED


@dies("C9.after")
async def test_after_c9_the_wait_is_dropped_with_its_run_and_told(after: After) -> None:
    asked = await after.live()
    assert asked is not None
    assert asked.state is ContinuationState.REQUESTED
    after.driver.time.ms = asked.due_at_ms
    assert await after.store.continuations.due(after.driver.time.ms, 10) == ()
    await after.settle(await after.take_over(), RunState.INTERRUPTED, e.Evidence.NONE)
    assert (await after.driver.continuation(asked.id)).state is ContinuationState.DROPPED
    assert [c.id for c in await after.store.continuations.untold(asked.conversation_id)] == [asked.id]


@dies("C5.before")
async def test_before_c5_the_transcript_has_the_result(after: After) -> None:
    asked = await after.live()
    assert asked is not None
    assert asked.state is ContinuationState.REQUESTED
    assert ((await after.the_run()).state, await after.parts()) == (RunState.DISPATCHED, ())
    await after.settle(await after.take_over(), RunState.SUCCEEDED, e.Evidence.TRANSCRIPT)
    assert (await after.driver.continuation(asked.id)).state is ContinuationState.PENDING
    assert [part.state for part in await after.parts()] == [PartState.READY]


@dies("C5.after")
async def test_after_c5_everything_is_settled_and_the_outbox_has_the_answer(after: After) -> None:
    run, prompt, armed = await after.the_run(), await after.prompt(), await after.live()
    assert prompt is not None
    assert armed is not None
    states = (run.state, prompt.state, armed.state)
    assert states == (RunState.SUCCEEDED, PromptState.SETTLED, ContinuationState.PENDING)
    (part,) = await after.parts()
    assert (part.state, part.text) == (PartState.READY, "the answer")
    assert part.id in {head.id for head in await after.store.outbox.sendable(after.driver.time.ms, 10**6)}


@dies("C6.before")
async def test_before_c6_the_part_is_still_ready(after: After) -> None:
    (part,) = await after.parts()
    assert (part.state, part.attempt) == (PartState.READY, 0)


@dies("C6.after")
async def test_after_c6_the_attempt_is_known_and_taken_over_with_the_same_nonce(after: After) -> None:
    (part,) = await after.parts()
    assert (part.state, part.attempt, part.holder, part.first_attempt_ms) == (PartState.SENDING, 1, "worker-1", START_MS)
    assert part.id in {held.id for held in await after.store.outbox.held_by_others("worker-2")}
    await after.driver.done(e.TakePart(after.driver.by, part.id, after.driver.time.ms + 20_000, holder_gone=True))
    taken = await after.driver.get_part(part.id)
    assert (taken.nonce, taken.attempt, taken.holder) == (part.nonce, 2, "worker-2")


@dies("C7.before")
async def test_before_c7_the_receipt_is_missing_and_its_echo_completes_it(after: After) -> None:
    (part,) = await after.parts()
    assert part.state is PartState.SENDING
    await after.driver.done(e.Receipt(after.driver.by, part.id, 4711))
    assert (await after.driver.get_part(part.id)).state is PartState.DELIVERED


@dies("C7.after")
async def test_after_c7_it_is_done(after: After) -> None:
    (part,) = await after.parts()
    assert (part.state, part.message_id) == (PartState.DELIVERED, 4711)


async def wakes_once(after: After) -> None:
    armed = await after.live()
    assert armed is not None
    after.driver.time.ms = armed.due_at_ms
    for _ in range(2):
        await after.store.do(e.Due(after.driver.by, armed.id))
    assert (await after.driver.continuation(armed.id)).state is ContinuationState.CLAIMED
    (wake,) = await after.store.prompts.waiting(armed.conversation_id)
    assert wake.continuation_id == armed.id


@dies("C8.before")
async def test_before_c8_it_is_pending_and_wakes_when_the_process_is_back(after: After) -> None:
    armed = await after.live()
    assert armed is not None
    assert (armed.state, await after.waiting()) == (ContinuationState.PENDING, 0)
    await wakes_once(after)


@dies("C8.after")
async def test_after_c8_there_is_exactly_one_prompt(after: After) -> None:
    assert await after.waiting() == 1
    await wakes_once(after)
