"""The wait: bounds, replacement, people first, and every way in which it does not wake."""

from __future__ import annotations

import json
from pathlib import Path

from bot.runtime.ports import Accepted, WaitBounds
from storage.models import Rules
from storage.states import ContinuationState, PromptState, RunState
from tests.support.house import ADMIN, ANN, House


async def test_a_persons_message_that_comes_during_a_turn_runs_before_the_wake_that_came_due_first(tmp_path: Path) -> None:
    async with House(tmp_path) as house:
        await house.say("wait 0.05s say woken")
        await house.run(0, RunState.SUCCEEDED)
        await house.say("say busy\ntool Bash 0.4")
        await house.continuation(ContinuationState.CLAIMED)
        await house.say("say person")
        await house.run(3, RunState.SUCCEEDED)
        await house.until(lambda: len(house.words()) == 3)
        assert house.words() == ["busy", "person", "woken"]


async def test_stop_drops_the_wait_of_the_running_turn_and_posts_nothing_of_it(tmp_path: Path) -> None:
    async with House(tmp_path) as house:
        await house.say("say I wait\nwait 0.05s say woken\nhang")
        await house.until(lambda: house.results)
        await house.stop_room()
        run = await house.run(0, RunState.CANCELLED)

        assert (await house.continuation(ContinuationState.CANCELLED)).ended_why == "stopped"
        assert house.posted() == []
        await house.say("say hello")
        await house.run(1, RunState.SUCCEEDED)
        first, *_ = house.told()[1].splitlines()
        assert first == "[stopped] your last turn was stopped by a person; what it had not posted by then was withheld"
        assert await house.parts(run.id) == ()
        assert len(await house.runs()) == 2


async def test_a_second_wait_in_a_turn_takes_the_place_of_the_first(tmp_path: Path) -> None:
    async with House(tmp_path) as house:
        await house.say("wait 10m first\nwait 20m second")
        armed = await house.continuation(ContinuationState.PENDING)
        assert armed.reason == "second"
        live = await house.store.continuations.live(house.room.id)
        assert [c.id for c in live] == [armed.id]


async def test_an_armed_wait_is_named_at_every_turn_and_replaced_only_when_the_next_one_has_ended_well(tmp_path: Path) -> None:
    async with House(tmp_path) as house:
        await house.say("wait 10m first")
        first = await house.continuation(ContinuationState.PENDING)
        await house.say("wait 20m second\nfail api")
        await house.run(1, RunState.FAILED)
        assert any(line.startswith("[pending] c1 wakes at ") for line in house.told()[1].splitlines())
        live = await house.store.continuations.live(house.room.id)
        assert [c.id for c in live] == [first.id]
        assert "It takes the place of c1 when this turn has ended well." in house.results[1].text

        await house.say("wait 20m third")
        await house.run(2, RunState.SUCCEEDED)
        replaced = await house.store.continuations.by_id(first.id)
        assert replaced is not None
        assert replaced.state is ContinuationState.REPLACED
        assert "[dropped] c2 (its run ended failed: " in house.told()[2]


async def test_cancel_wait_cancels_what_is_armed_and_is_not_told_again(tmp_path: Path) -> None:
    async with House(tmp_path) as house:
        await house.say("wait 10m look")
        await house.continuation(ContinuationState.PENDING)
        await house.say("cancel_wait\nsay ok")
        await house.run(1, RunState.SUCCEEDED)
        assert house.results[-1].text == "[cancelled] c1: it will not wake you."
        await house.say("cancel_wait")
        await house.run(2, RunState.SUCCEEDED)
        assert "c1" not in house.told()[2]
        assert house.results[-1].text == "[nothing] no wait is pending."


async def test_a_delay_that_cannot_be_read_is_an_error_and_one_outside_the_bounds_is_clamped(tmp_path: Path) -> None:
    bounds = WaitBounds(min_ms=30_000, max_ms=3_600_000)
    async with House(tmp_path, config={"wait": bounds}) as house:
        await house.say("wait -5s x\nwait soon x\nwait 1s x\nwait 40d x")
        await house.run(0, RunState.SUCCEEDED)
        negative, words, short, long = house.results
        assert negative.is_error
        assert words.is_error
        assert "between 30s and 1h" in words.text
        assert "raised to 30s" in short.text
        assert "(in 1h)" in long.text
        assert "cut to 1h" in long.text


async def test_a_wake_that_could_not_run_before_its_expiry_is_dropped_and_people_are_told(tmp_path: Path) -> None:
    bounds = WaitBounds(min_ms=1, expire_after_ms=1, expire_max_ms=1)
    async with House(tmp_path, config={"wait": bounds}) as house:
        await house.say("wait 0.1s look")
        await house.continuation(ContinuationState.PENDING)
        await house.stop()
    async with House(tmp_path, chat=house.chat, config={"wait": bounds}, instance="porter-2") as again:
        await again.continuation(ContinuationState.EXPIRED)
        await again.until(lambda: any("came too late" in text for text in again.posted()))
        assert len(await again.runs()) == 1


async def test_at_the_unattended_bound_wakes_are_held_and_people_are_asked_once(tmp_path: Path) -> None:
    async with House(tmp_path, rules=Rules(unattended_runs=1, backoff_ms=1)) as house:
        await house.say("wait 0.05s look")
        await house.run(1, RunState.SUCCEEDED)
        await house.say("wait 0.05s look again\nskip not for me", addressed=False)
        await house.until(lambda: any("it waits until somebody does" in text for text in house.posted()))
        asked = [m for m in house.chat.messages if "it waits until somebody does" in m.text]
        held = await house.store.prompts.waiting(house.room.id)
        runs_before = len(await house.runs())
        (button,) = json.loads(asked[0].part.components or "[]")

        assert len(asked) == 1
        assert button["custom_id"] == f"np:continue:{house.room.id}"
        assert [p.state for p in held] == [PromptState.WAITING]
        assert (await house.runtime.status(house.room.id)).unattended.met
        await house.runtime.attend(house.room.id, ANN)
        await house.run(runs_before, RunState.SUCCEEDED)


async def test_at_the_unattended_bound_a_wait_of_a_wake_is_refused_in_its_result(tmp_path: Path) -> None:
    async with House(tmp_path, rules=Rules(unattended_runs=1)) as house:
        await house.say("wait 0.05s wait 10m again")
        await house.run(1, RunState.SUCCEEDED)
        assert house.results[-1].is_error
        assert "no further wait is taken" in house.results[-1].text


async def test_people_are_asked_when_a_wait_is_refused_and_continue_prompts_the_agent_to_go_on(tmp_path: Path) -> None:
    async with House(tmp_path, rules=Rules(unattended_runs=1)) as house:
        await house.say("wait 0.05s wait 10m see how it went")
        run = await house.run(1, RunState.SUCCEEDED)
        await house.until(lambda: any("(see how it went)" in text for text in house.posted()))
        (asked,) = [m for m in house.chat.messages if "(see how it went)" in m.text]
        (button,) = json.loads(asked.part.components or "[]")
        assert (button["label"], button["custom_id"]) == ("Continue", f"np:resume:{run.id}")
        for _ in range(2):
            await house.runtime.resume(run.id, ANN)
        await house.run(2, RunState.SUCCEEDED)
        assert "[continue] Ann lets you go on" in house.told()[-1]
        assert not (await house.runtime.status(house.room.id)).unattended.met
        assert len(await house.runs()) == 3


async def test_wake_now_wakes_at_once_and_a_stranger_to_it_may_not(tmp_path: Path) -> None:
    async with House(tmp_path) as house:
        await house.say("wait 10h say woken")
        pending = await house.continuation(ContinuationState.PENDING)
        refused = await house.runtime.wake_now(pending.id, type(ANN)(8, "Bob", admin=False))
        assert "not_yours" in str(refused)
        await house.runtime.wake_now(pending.id, ADMIN)
        await house.until(house.words)
        assert house.words() == ["woken"]


async def test_messages_since_the_wait_are_counted_in_the_wake(tmp_path: Path) -> None:
    async with House(tmp_path) as house:
        await house.say("wait 10h look")
        pending = await house.continuation(ContinuationState.PENDING)
        for number in range(2):
            assert isinstance(await house.say(f"say {number}"), Accepted)
            await house.run(number + 1, RunState.SUCCEEDED)
        await house.runtime.wake_now(pending.id, ADMIN)
        await house.run(3, RunState.SUCCEEDED)
        assert "2 messages have come since" in house.told()[3]
