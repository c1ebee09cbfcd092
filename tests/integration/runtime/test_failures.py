"""Turns that go wrong: people are told one sentence, the queue goes on, and nothing runs twice."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from bot.agents.base import AgentEvent, AgentProvider, AgentSession, AgentUnavailable, Lost, PromptPart, SessionSpec, ToolHandler
from storage.events import Code, Refusal
from storage.states import ContinuationState, PromptState, RunState, SessionState
from storage.store import Done
from tests.support.clock import SkippingClock
from tests.support.house import ADMIN, ANN, CHANNEL, PATIENCE_S, House


@pytest.mark.parametrize(
    ("statement", "says", "resumable"),
    [
        ("fail auth", "login was rejected", True),
        ("fail overloaded", "overloaded", True),
        ("fail prompt_too_long", "grown too long for the model. Start fresh goes on", False),
        ("die", "process ended in the middle", True),
    ],
)
async def test_people_are_told_one_sentence_and_may_resume_where_that_makes_sense(
    tmp_path: Path, statement: str, says: str, resumable: bool
) -> None:
    async with House(tmp_path) as house:
        await house.say(f"say so far\nwait 10m x\n{statement}")
        run = await house.run(0, RunState.FAILED)
        await house.until(lambda: len(house.posted()) == 2)
        answer, notice = house.chat.messages
        assert answer.text.startswith("so far\n-# nothing scheduled")
        assert says in notice.text
        buttons = [button["custom_id"] for button in json.loads(notice.part.components or "[]")]
        assert buttons == [f"np:{'resume' if resumable else 'fresh'}:{run.id}"]
        assert (await house.continuation(ContinuationState.DROPPED)).origin_run_id == run.id


async def test_after_a_failed_turn_the_queue_goes_on_and_the_agent_knows_of_it(tmp_path: Path) -> None:
    async with House(tmp_path) as house:
        await house.say("wait 10m x\nfail api")
        await house.say("say second", by=ADMIN)
        await house.run(1, RunState.SUCCEEDED)
        first, second, *_ = house.told()[1].splitlines()
        assert first.startswith("[failed] your last turn ended with an error (api: ")
        assert second.startswith("[dropped] c1 (its run ended failed: ")


async def test_resume_prompts_the_same_session_once_however_often_it_is_pressed(tmp_path: Path) -> None:
    async with House(tmp_path) as house:
        await house.say("fail overloaded")
        run = await house.run(0, RunState.FAILED)
        pressed = await asyncio.gather(*(house.runtime.resume(run.id, ANN) for _ in range(3)))
        await house.run(1, RunState.SUCCEEDED)
        assert sum(type(outcome).__name__ == "Done" for outcome in pressed) == 1
        assert len(await house.runs()) == 2
        assert house.prompts[0][0] == house.prompts[1][0]
        assert "[resume] Ann asks you to go on: your earlier turn was cut off (overloaded: " in house.told()[1]


async def test_a_turn_that_is_cut_off_each_time_it_is_resumed_is_not_offered_again_and_the_agent_knew(tmp_path: Path) -> None:
    async with House(tmp_path) as house:
        house.plays = "die"
        await house.say("break it")
        for number in range(3):
            run = await house.run(number, RunState.FAILED)
            await house.until(lambda count=number + 1: len(house.posted()) == count)
            assert f"np:resume:{run.id}" in (house.chat.messages[-1].part.components or "")
            await house.runtime.resume(run.id, ANN)
        last = await house.run(3, RunState.FAILED)
        await house.until(lambda: len(house.posted()) == 4)
        notice = house.chat.messages[-1]
        assert "not offered again; tell the agent what to do differently" in notice.text
        assert notice.part.components is None
        assert await house.runtime.resume(last.id, ANN) == Refusal(Code.TOO_OFTEN)
        told = house.told()
        assert "before and cut off each time" not in told[1]
        assert "It was resumed once before and cut off each time: do it in another way." in told[2]
        assert "It was resumed 2 times before" in told[3]
        # Another request is a new beginning.
        await house.say("break something else")
        run = await house.run(4, RunState.FAILED)
        await house.until(lambda: len(house.posted()) == 5)
        assert f"np:resume:{run.id}" in (house.chat.messages[-1].part.components or "")


async def test_a_session_that_is_no_use_any_more_is_left_for_one_that_knows_what_was_said(tmp_path: Path) -> None:
    async with House(tmp_path) as house:
        await house.say("say the tests are green\nwait 10h look")
        await house.run(0, RunState.SUCCEEDED)
        await house.until(house.words)
        await house.say("fail bad_request")
        broken = await house.run(1, RunState.FAILED)
        house.plays = "say going on"
        pressed = await asyncio.gather(*(house.runtime.start_fresh(broken.id, ANN) for _ in range(3)))
        assert sum(isinstance(outcome, Done) for outcome in pressed) == 1
        await house.until(lambda: "going on" in house.words())
        assert house.prompts[2][0] != house.prompts[0][0]
        told = house.told()[2]
        assert "asks you to go on in a new session, because the earlier one is no use any more (bad_request: " in told
        assert "Ann: say the tests are green wait 10h look\nyou: the tests are green" in told
        assert "The request was:\nAnn: fail bad_request" in told
        assert (await house.continuation(ContinuationState.FENCED)).reason == "look"


async def test_a_usage_limit_holds_the_agent_everywhere_and_what_it_cut_off_goes_on_by_itself_when_it_ends(tmp_path: Path) -> None:
    clock = SkippingClock()
    async with House(tmp_path, clock=clock) as house:
        other = await house.bind(CHANNEL + 1, "other")
        await house.say("say half\nlimit 3600")
        run = await house.run(0, RunState.FAILED)
        await house.until(lambda: len(house.posted()) == 2)
        notice = house.chat.messages[1]
        until_ms = (await house.runtime.status(other.id)).held_until_ms
        assert until_ms is not None
        ends_s = (until_ms - 5_000) // 1_000
        assert abs(ends_s - clock.now_ms() // 1_000 - 3_600) < PATIENCE_S
        assert f"usage limit is reached; it ends <t:{ends_s}:f> (<t:{ends_s}:R>). The agent goes on by itself then" in notice.text
        assert json.loads(notice.part.components or "[]") == [
            {"label": "Try now", "style": "secondary", "custom_id": f"np:try-now:{house.room.id}"}
        ]
        # Whoever writes meanwhile, there or elsewhere, is told once where nothing said it before, and waits.
        await house.say("say third")
        await house.say("say first elsewhere", room=other)
        await house.say("say second elsewhere", room=other)
        await house.until(lambda: house.posted(CHANNEL + 1))
        later = await house.bind(CHANNEL + 2, "later")
        await house.say("say in a new channel", room=later)
        await house.until(lambda: house.posted(CHANNEL + 2))
        assert len(house.posted()) == 2
        assert [len(house.posted(channel)) for channel in (CHANNEL + 1, CHANNEL + 2)] == [1, 1]
        assert "your message waits until then" in house.posted(CHANNEL + 1)[0]
        assert len(await house.runs()) == 1
        clock.skip(3_700)
        await house.until(lambda: "third" in house.words() and house.words(CHANNEL + 1) and house.words(CHANNEL + 2))
        # The session that was cut off goes on before what came later.
        told = [text for native_id, text in house.prompts if native_id == house.prompts[0][0]]
        assert "[resume] Your earlier turn was cut off by the account's usage limit" in told[1]
        assert sum("usage limit is reached" in text for text in house.posted()) == 1
        assert run.id == 1


async def test_a_limit_whose_end_is_not_known_is_tried_once_more_and_then_people_decide(tmp_path: Path) -> None:
    clock = SkippingClock()
    async with House(tmp_path, clock=clock) as house:
        house.plays = "limit"
        await house.say("whatever")
        await house.until(lambda: len(house.posted()) == 1)
        assert "It is not known until when; the agent tries again <t:" in house.posted()[0]
        clock.skip(16 * 60)
        await house.until(lambda: len(house.posted()) == 2)
        second = house.chat.messages[1]
        assert "this turn only goes on if you resume it" in second.text
        run = (await house.runs())[1]
        buttons = [button["custom_id"] for button in json.loads(second.part.components or "[]")]
        assert buttons == [f"np:resume:{run.id}", f"np:try-now:{house.room.id}"]
        clock.skip(3_600)
        await house.say("more")
        await house.until(lambda: len(house.posted()) == 3)
        assert len(await house.runs()) == 3


async def test_an_admin_has_a_parked_agent_tried_at_once(tmp_path: Path) -> None:
    async with House(tmp_path) as house:
        await house.say("say half\nlimit 3600")
        await house.until(lambda: len(house.posted()) == 2)
        await house.runtime.unpark(house.room.id, ADMIN)
        await house.run(1, RunState.SUCCEEDED)
        assert (await house.runtime.status(house.room.id)).held_until_ms is None


class Unopenable:
    """An agent whose program is missing, or comes back after so many tries."""

    def __init__(self, inner: AgentProvider, failures: int) -> None:
        self._inner = inner
        self.failures = failures

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    async def open(self, spec: SessionSpec) -> AgentSession | Lost:
        if self.failures:
            self.failures -= 1
            raise AgentUnavailable("The program is missing.")
        return await self._inner.open(spec)


async def test_an_agent_that_cannot_be_opened_three_times_fails_the_run_and_people_are_told(tmp_path: Path) -> None:
    async with House(tmp_path, provider=lambda inner: Unopenable(inner, 3)) as house:
        accepted = await house.say("say hello")
        await house.run(2, RunState.FAILED)
        await house.until(house.posted)
        assert [run.state for run in await house.runs()] == [RunState.RELEASED, RunState.RELEASED, RunState.FAILED]
        assert house.posted() == [
            "The agent could not be started: The program is missing. The message was not handed to it; write again once that is mended."
        ]
        assert (await house.prompt_of(accepted)).state is PromptState.SETTLED
        assert house.told() == []


async def test_an_agent_that_can_be_opened_at_the_third_try_answers_once(tmp_path: Path) -> None:
    async with House(tmp_path, provider=lambda inner: Unopenable(inner, 2)) as house:
        await house.say("say hello")
        await house.until(house.words)
        assert house.words() == ["hello"]
        assert len(house.told()) == 1


async def test_a_session_that_the_agent_no_longer_knows_is_replaced_once_and_people_are_told(tmp_path: Path) -> None:
    async with House(tmp_path, config={"max_concurrent_runs": 1}) as house:
        await house.say("say first\nwait 10m look")
        await house.run(0, RunState.SUCCEEDED)
        await house.until(house.words)
        await house.stop()
        shutil.rmtree(tmp_path / "scripted")
    async with House(tmp_path, chat=house.chat, instance="porter-2") as again:
        await again.say("say second")
        await again.run(1, RunState.SUCCEEDED)
        await again.until(lambda: len(again.words()) == 2)
        assert again.words() == ["first", "second"]
        assert sum("no longer knows the earlier conversation" in text for text in again.posted()) == 1
        assert (await again.continuation(ContinuationState.FENCED)).reason == "look"
        old = await again.store.sessions.by_id((await again.runs())[0].session_id)
        assert old is not None
        assert old.state is SessionState.ENDED
        assert len(again.told()) == 1


async def test_a_wake_whose_session_is_lost_is_fenced_and_never_runs_in_a_new_one(tmp_path: Path) -> None:
    async with House(tmp_path) as house:
        await house.say("wait 10h say woken")
        await house.continuation(ContinuationState.PENDING)
        await house.stop()
        shutil.rmtree(tmp_path / "scripted")
    async with House(tmp_path, chat=house.chat, instance="porter-2") as again:
        pending = await again.continuation(ContinuationState.PENDING)
        await again.runtime.wake_now(pending.id, ADMIN)
        await again.continuation(ContinuationState.FENCED)
        await again.run(1, RunState.CANCELLED)
        assert again.told() == []


async def test_reset_begins_a_new_session_and_drops_what_waited(tmp_path: Path) -> None:
    async with House(tmp_path) as house:
        await house.say("wait 10m look")
        await house.continuation(ContinuationState.PENDING)
        await house.stop_room(reset=True)
        await house.say("recall")
        await house.until(house.words)
        assert house.words() == ["prompts before this one: 0"]
        assert house.prompts[0][0] != house.prompts[1][0]
        assert house.told()[1] == "Ann: recall"


class Broken:
    """An adapter with a fault: its stream breaks the interface's rules."""

    def __init__(self, inner: AgentProvider) -> None:
        self._inner = inner
        self.breaks = True

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    async def open(self, spec: SessionSpec) -> Any:
        opened = await self._inner.open(spec)
        if not self.breaks or isinstance(opened, Lost):
            return opened
        self.breaks = False
        return BrokenSession(opened)


class BrokenSession:
    def __init__(self, inner: AgentSession) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    async def run(self, prompt_uuid: str, parts: Sequence[PromptPart], tools: ToolHandler) -> AsyncIterator[AgentEvent]:
        async for event in self._inner.run(prompt_uuid, parts, tools):
            yield event
            raise KeyError("a fault of the program")


async def test_a_fault_of_the_program_ends_its_own_turn_and_nobody_elses(tmp_path: Path) -> None:
    async with House(tmp_path, provider=Broken) as house:
        await house.say("say first")
        await house.say("say second", by=ADMIN)
        await house.run(0, RunState.INTERRUPTED)
        await house.until(house.words)
        assert house.words() == ["second"]
        assert any("Nightporter made a mistake" in text for text in house.posted())
