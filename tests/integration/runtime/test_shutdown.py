"""SIGTERM: nothing new begins, running turns may finish, the rest is cut off with a notice and can be resumed."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from bot.agents.base import AgentProvider, AgentSession, Lost, SessionSpec
from storage.errors import NotRead
from storage.states import PromptState, RunState
from tests.support.house import ADMIN, House


async def test_a_running_turn_finishes_and_its_answer_is_posted_before_the_end(tmp_path: Path) -> None:
    async with House(tmp_path) as house:
        await house.say("tool Bash 0.2\nsay finished")
        await house.say("say later", by=ADMIN)
        await house.until(house.told)
        await house.stop(drain_s=20)
        assert house.words() == ["finished"]
        assert len(house.told()) == 1
    async with House(tmp_path, chat=house.chat, instance="porter-2") as again:
        await again.until(lambda: len(again.words()) == 2)
        assert again.words() == ["finished", "later"]


async def test_a_turn_that_does_not_finish_in_time_is_interrupted_and_people_are_told(tmp_path: Path) -> None:
    async with House(tmp_path) as house:
        await house.say("say so far\nhang")
        await house.until(house.told)
        await house.run(0, RunState.DISPATCHED)
        await house.stop(drain_s=0)
        assert house.words() == ["so far"]
        assert "interrupted: Nightporter was shut down" in house.posted()[1]
    async with House(tmp_path, chat=house.chat, instance="porter-2") as again:
        run = await again.run(0, RunState.INTERRUPTED)
        assert run.fence == 1


class Slow:
    """An agent that takes for ever to open."""

    def __init__(self, inner: AgentProvider) -> None:
        self._inner = inner
        self.opening = asyncio.Event()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    async def open(self, spec: SessionSpec) -> AgentSession | Lost:
        self.opening.set()
        await asyncio.get_running_loop().create_future()
        raise AssertionError("unreachable")


async def test_a_run_whose_agent_was_not_called_is_given_back_without_counting_a_try(tmp_path: Path) -> None:
    async with House(tmp_path, provider=Slow) as house:
        accepted = await house.say("say once")
        assert isinstance(house.provider, Slow)
        await house.provider.opening.wait()
        await house.runtime.stop(20)
        prompt = await house.prompt_of(accepted)
        assert (prompt.state, prompt.tries) == (PromptState.WAITING, 0)
        await house.abandon()
    async with House(tmp_path, chat=house.chat, instance="porter-2") as again:
        await again.until(again.words)
        assert again.words() == ["once"]


async def test_a_claim_that_was_under_way_when_the_shutdown_began_is_given_back(tmp_path: Path) -> None:
    async with House(tmp_path) as house:
        claiming, go_on = asyncio.Event(), asyncio.Event()

        async def hang(point: str) -> None:
            if point == "C2.before":
                claiming.set()
                await go_on.wait()

        house.fault = hang
        accepted = await house.say("say once")
        await claiming.wait()
        stopping = asyncio.create_task(house.runtime.stop(20))
        await asyncio.sleep(0)
        go_on.set()
        await stopping
        prompt = await house.prompt_of(accepted)
        assert (prompt.state, prompt.tries) == (PromptState.WAITING, 0)
        assert house.told() == []
        await house.abandon()


async def test_a_shutdown_does_not_wait_for_a_database_that_does_not_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with House(tmp_path) as house:

        async def unanswered(*_: object) -> tuple[()]:
            raise NotRead("the connection to the database was lost")

        monkeypatch.setattr(house.store.outbox, "sendable", unanswered)
        async with asyncio.timeout(15):
            await house.runtime.stop(20)
        await house.abandon()
