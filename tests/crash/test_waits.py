"""SIGKILL on either side of C8 and C9: an armed continuation wakes once, an unsettled one is dropped and told."""

from __future__ import annotations

from pathlib import Path

import pytest

from storage.states import ContinuationState, PromptState, RunState
from tests.support.porter import Porter


@pytest.mark.ci
async def test_an_armed_wait_wakes_once_whichever_side_of_its_claim_the_kill_is_on(tmp_path: Path) -> None:
    async with Porter(tmp_path) as porter:
        await porter.start(crash="C8.before:1")
        await porter.say("wait 1s say up and about\nsay good evening")
        await porter.crashed()
        assert (waits(porter), wakes(porter)) == ([ContinuationState.PENDING], [])
        await porter.start(crash="C8.after:1", ready=False)
        await porter.crashed()
        assert (waits(porter), wakes(porter)) == ([ContinuationState.CLAIMED], [PromptState.WAITING])
        await porter.start()
        await porter.answer("up and about")
        await porter.at_rest()
        assert (waits(porter), wakes(porter)) == ([ContinuationState.DISPATCHED], [PromptState.SETTLED])
        assert [porter.said(text) for text in ("good evening", "up and about")] == [1, 1]
        await porter.stop()
        porter.assert_kept()


@pytest.mark.ci
async def test_a_wait_that_was_not_stored_is_none_and_a_stored_one_whose_run_died_is_dropped(tmp_path: Path) -> None:
    async with Porter(tmp_path) as porter:
        await porter.start(crash="C9.before:1")
        first = await porter.say("wait 1s look again\nsay good evening")
        await porter.crashed()
        assert waits(porter) == []
        await porter.start(crash="C9.after:1")
        await porter.run_of(first, RunState.INTERRUPTED)
        second = await porter.say("wait 1s look again\nsay good night")
        await porter.crashed()
        assert waits(porter) == [ContinuationState.REQUESTED]
        await porter.start()
        await porter.run_of(second, RunState.INTERRUPTED)
        await porter.answer("interrupted", times=2)
        assert waits(porter) == [ContinuationState.DROPPED]
        assert told(porter) == [False]
        await porter.run_of(await porter.say("say what happened"), RunState.SUCCEEDED)
        await porter.answer("what happened")
        await porter.at_rest()
        assert told(porter) == [True]
        assert wakes(porter) == []
        assert [porter.said(text) for text in ("good evening", "good night")] == [0, 0]
        await porter.stop()
        porter.assert_kept()


@pytest.mark.ci
@pytest.mark.real_cli
async def test_the_same_holds_for_the_real_program(tmp_path: Path) -> None:
    async with Porter(tmp_path, agent="real") as porter:
        await porter.start(crash="C9.after:1")
        # The program writes its transcript a moment later than it acts; after a whole turn there surely is one to go on with.
        await porter.run_of(await porter.say("say good morning"), RunState.SUCCEEDED)
        message = await porter.say("wait 1s look again\nsay good evening")
        await porter.crashed()
        assert waits(porter) == [ContinuationState.REQUESTED]
        # The recovery's settlement is the first one, that of the next message the second.
        await porter.start(crash="C5.before:2")
        await porter.run_of(message, RunState.INTERRUPTED)
        assert waits(porter) == [ContinuationState.DROPPED]
        message = await porter.say("wait 1s say up and about\nsay good night")
        await porter.crashed()
        assert waits(porter) == [ContinuationState.DROPPED, ContinuationState.REQUESTED]
        await porter.start()
        await porter.run_of(message, RunState.SUCCEEDED)
        await porter.answer("up and about")
        await porter.at_rest()
        assert waits(porter) == [ContinuationState.DROPPED, ContinuationState.DISPATCHED]
        assert [porter.said(text) for text in ("good evening", "good night", "up and about")] == [0, 1, 1]
        assert any("[dropped] c1" in prompt for _, prompt in porter.history().turns())
        await porter.stop()
        porter.assert_kept()


def waits(porter: Porter) -> list[ContinuationState]:
    return [row.state for row in porter.rows.continuations]


def wakes(porter: Porter) -> list[PromptState]:
    return [row.state for row in porter.rows.prompts if row.continuation_id is not None]


def told(porter: Porter) -> list[bool]:
    return [row.told for row in porter.rows.continuations]
