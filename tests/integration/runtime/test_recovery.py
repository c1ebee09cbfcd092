"""The next process on the same state: nothing lost, nothing run twice, and what is not known is said."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

from bot.agents.base import AgentProcess, AgentProvider, Death, Ended, SessionSpec, Unknown
from storage.errors import NotStored, OutcomeUnknown
from storage.events import Code, Refusal
from storage.states import ContinuationState, PartState, RunState
from storage.store import Done
from tests.support.house import ADMIN, ANN, House


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


async def cut_off(folder: Path) -> House:
    """A process that ended in the middle of a turn."""
    house = House(folder)
    await house.open()
    await house.runtime.start()
    await house.say("say so far\nhang")
    await house.until(house.told)
    await house.run(0, RunState.DISPATCHED)
    await house.abandon()
    return house


async def test_a_takeover_whose_commit_was_in_doubt_is_brought_to_its_end_all_the_same(tmp_path: Path) -> None:
    await cut_off(tmp_path)
    doubts = ["takeover.after"]

    async def lose_the_answer(passed: str) -> None:
        if passed in doubts:
            doubts.remove(passed)
            raise OutcomeUnknown(passed)

    again = House(tmp_path, instance="porter-2")
    again.fault = lose_the_answer
    async with again:
        run = await again.run(0, RunState.INTERRUPTED)
        assert run.fence == 3


class Undying:
    """An agent whose death cannot be proven for a while, and whose transcript may be beyond reading."""

    def __init__(self, inner: AgentProvider) -> None:
        self._inner = inner
        self.dead = False
        self.readable = True

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    async def prove_dead(self, process: AgentProcess) -> Death:
        return await self._inner.prove_dead(process) if self.dead else Death.ALIVE

    async def outcome(self, spec: SessionSpec, prompt_uuid: str) -> Ended | Unknown:
        if not self.readable:
            raise KeyError("a fault of the program")
        return await self._inner.outcome(spec, prompt_uuid)


async def test_a_recovery_that_lost_its_lease_is_taken_up_again_by_the_same_process(tmp_path: Path) -> None:
    await cut_off(tmp_path)
    again = House(tmp_path, instance="porter-2", provider=Undying, config={"lease_s": 0.4, "heartbeat_s": 0.1, "margin_s": 0.2})
    refusals: list[str] = []

    async def refuse(passed: str) -> None:
        if passed == "renew.before":
            refusals.append(passed)
            raise NotStored(passed)
        if passed == "takeover.after" and refusals:
            assert isinstance(again.provider, Undying)
            again.provider.dead = True

    again.fault = refuse
    async with again:
        run = await again.run(0, RunState.INTERRUPTED)
        assert run.fence > 2


async def test_a_transcript_that_cannot_be_read_interrupts_its_run_and_harms_nobody_else(tmp_path: Path) -> None:
    await cut_off(tmp_path)
    again = House(tmp_path, instance="porter-2", provider=Undying)
    await again.open()
    assert isinstance(again.provider, Undying)
    again.provider.dead, again.provider.readable = True, False
    await again.runtime.start()
    await again.run(0, RunState.INTERRUPTED)
    await again.say("say going on")
    await again.until(again.words)
    assert again.words() == ["going on"]
    await again.stop()


async def test_a_run_that_cannot_be_brought_to_its_end_is_told_to_people_once(tmp_path: Path) -> None:
    await cut_off(tmp_path)
    again = House(tmp_path, instance="porter-2")
    await again.open()
    again.pool._providers.clear()  # noqa: SLF001 - a configuration without that agent
    await again.runtime.start()
    await again.until(again.posted)
    fence = (await again.run(0, RunState.DISPATCHED)).fence
    for _ in range(3):
        seen = len(again.points)
        await again.say("say waiting")
        await again.until(lambda seen=seen: len(again.points) > seen)
    (told,) = again.chat.messages
    assert told.text.startswith(
        "An earlier turn of the agent cannot be ended: the configuration has no agent 'scripted'. Nothing runs here"
    )
    stuck = await again.run(0, RunState.DISPATCHED)
    assert (stuck.fence, json.loads(told.part.components or "[]")[0]["custom_id"]) == (fence, f"np:give-up:{stuck.id}")
    # An admin who knows better ends it, and may have it resumed.
    assert isinstance(await again.runtime.give_up(stuck.id, ADMIN), Done)
    assert await again.runtime.give_up(stuck.id, ADMIN) == Refusal(Code.ENDED)
    await again.until(lambda: len(again.posted()) >= 2)
    assert "The agent's turn was interrupted: given up by Ada, as its process cannot be reached." in again.posted()[1]
    assert f"np:resume:{stuck.id}" in (again.chat.messages[1].part.components or "")
    await again.run(1)
    await again.stop()
