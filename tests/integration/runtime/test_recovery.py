"""The next process on the same state: nothing lost, nothing run twice, and what is not known is said."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

from storage.states import ContinuationState, PartState, RunState
from tests.support.house import ANN, House


async def begun(folder: Path, point: str) -> House:
    """A process that will hang for ever at a commit point."""

    async def hang(passed: str) -> None:
        if passed == point:
            await asyncio.get_running_loop().create_future()

    house = House(folder)
    house.fault = hang
    await house.open()
    await house.runtime.start()
    return house


async def ended_at(house: House, point: str) -> None:
    """End the process while it hangs there: the transaction is rolled back."""
    await house.until(lambda: point in house.points)
    await house.kill()


async def test_a_pending_wait_wakes_once_after_a_restart_in_the_same_session(tmp_path: Path) -> None:
    async with House(tmp_path) as house:
        await house.say("wait 0.3s say woken")
        await house.continuation(ContinuationState.PENDING)
        await house.abandon()
    async with House(tmp_path, chat=house.chat, instance="porter-2") as again:
        await again.until(again.words)
        await again.continuation(ContinuationState.DISPATCHED)
        assert again.words() == ["woken"]
        assert again.prompts[0][0] == house.prompts[0][0]
        assert len(await again.runs()) == 2


async def test_a_run_that_was_cut_off_is_interrupted_with_two_buttons_and_resumes_on_a_press(tmp_path: Path) -> None:
    async with House(tmp_path) as house:
        await house.say("wait 0.1s say woken\nhang")
        await house.until(lambda: house.results)
        await house.abandon()
    async with House(tmp_path, chat=house.chat, instance="porter-2") as again:
        run = await again.run(0, RunState.INTERRUPTED)
        await again.until(again.posted)
        (notice,) = again.chat.messages
        labels = {b["label"]: b["custom_id"] for b in json.loads(notice.part.components or "[]")}
        assert labels == {"Resume": f"np:resume:{run.id}", "Discard": f"np:discard:{run.id}"}
        assert "not known how far it got" in notice.text
        assert run.fence == 2
        assert (await again.continuation(ContinuationState.DROPPED)).origin_run_id == run.id

        await again.runtime.resume(run.id, ANN)
        await again.run(1, RunState.SUCCEEDED)
        assert again.prompts[0][0] == house.prompts[0][0]
        assert again.told()[0].startswith("[interrupted] your last turn was cut off (")
        assert "[dropped] c1 (its run ended interrupted" in again.told()[0]


async def test_a_turn_that_had_ended_before_the_cut_is_answered_from_the_transcript_and_not_run_again(tmp_path: Path) -> None:
    house = await begun(tmp_path, "C5.before")
    await house.say("say a\ntool Bash 0\nsay answer\nwait 10h look")
    await ended_at(house, "C5.before")
    async with House(tmp_path, chat=house.chat, instance="porter-2") as again:
        run = await again.run(0, RunState.SUCCEEDED)
        await again.until(lambda: len(again.words()) == 2)
        assert again.words() == ["a", "answer"]
        assert run.fence == 2
        assert again.told() == []
        await again.continuation(ContinuationState.PENDING)


async def test_a_claimed_run_is_given_back_and_runs_once(tmp_path: Path) -> None:
    house = await begun(tmp_path, "C3.before")
    await house.say("say once")
    await ended_at(house, "C3.before")
    assert house.told() == []
    async with House(tmp_path, chat=house.chat, instance="porter-2") as again:
        await again.until(again.words)
        assert again.words() == ["once"]
        assert [run.state for run in await again.runs()] == [RunState.RELEASED, RunState.SUCCEEDED]


async def test_a_part_that_a_former_process_was_sending_arrives_once(tmp_path: Path) -> None:
    house = await begun(tmp_path, "C7.before")
    await house.say("say once")
    await ended_at(house, "C7.before")
    async with House(tmp_path, chat=house.chat, instance="porter-2") as again:
        run = await again.run(0, RunState.SUCCEEDED)

        async def delivered() -> bool:
            return all(part.state is PartState.DELIVERED for part in await again.parts(run.id))

        await again.until(delivered)
        assert again.words() == ["once"]
        assert len(again.chat.attempts) == 2
        assert len({part.nonce for part in again.chat.attempts}) == 1


async def test_a_stopped_run_that_was_cut_off_is_cancelled_without_a_word(tmp_path: Path) -> None:
    house = await begun(tmp_path, "C5.before")
    await house.say("say private\nhang")
    await house.until(house.told)
    await house.run(0, RunState.DISPATCHED)
    await house.stop_room()
    await ended_at(house, "C5.before")
    async with House(tmp_path, chat=house.chat, instance="porter-2") as again:
        await again.run(0, RunState.CANCELLED)
        assert again.posted() == []
