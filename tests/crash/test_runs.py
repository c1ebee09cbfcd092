"""SIGKILL on either side of C2, C3 and C5: what is left and what becomes of it is what docs/facts/durability.md, section 1, says.

One process is killed after the other on the same database, since a start costs more than all else here.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from storage.states import ContinuationState, PromptState, RunState
from tests.support.porter import Porter


@pytest.mark.ci
async def test_before_the_intent_a_killed_run_is_done_anew_by_itself(tmp_path: Path) -> None:
    async with Porter(tmp_path) as porter:
        await porter.start(crash="C2.before:1")
        message = await porter.say("say good evening")
        await porter.crashed()
        assert states(porter) == ([], [PromptState.WAITING])
        await porter.start(crash="C2.after:1", ready=False)
        await porter.crashed()
        assert states(porter) == ([RunState.CLAIMED], [PromptState.TAKEN])
        await porter.start(crash="C3.before:1", ready=False)
        await porter.crashed()
        assert states(porter) == ([RunState.RELEASED, RunState.CLAIMED], [PromptState.TAKEN])
        await porter.start()
        await porter.run_of(message, RunState.SUCCEEDED)
        await porter.answer("good evening")
        await porter.at_rest()
        assert porter.said("good evening") == 1
        assert states(porter)[0] == [RunState.RELEASED, RunState.RELEASED, RunState.SUCCEEDED]
        await porter.stop()
        porter.assert_kept()


async def test_behind_the_intent_a_run_is_never_queued_again_and_people_are_told(tmp_path: Path) -> None:
    async with Porter(tmp_path) as porter:
        await porter.start(crash="C3.after:1")
        message = await porter.say("say good evening")
        await porter.crashed()
        assert states(porter) == ([RunState.DISPATCHED], [PromptState.TAKEN])
        await porter.start()
        run = await porter.run_of(message, RunState.INTERRUPTED)
        notice = await porter.answer("interrupted")
        await porter.at_rest()
        assert porter.said("good evening") == 0
        assert states(porter) == ([RunState.INTERRUPTED], [PromptState.SETTLED])
        # One button goes on, once.
        await porter.discord.people.click(notice, porter.alice, f"np:resume:{run.id}")
        await porter.discord.people.click(notice, porter.alice, f"np:resume:{run.id}")
        await porter.until(lambda rows: next((one for one in rows.runs if one.kind == "resume" and one.ended_ms), None), "the resume ends")
        await porter.at_rest()
        assert [one.kind for one in porter.rows.prompts] == ["user", "resume"]
        await porter.stop()
        porter.assert_kept()


@pytest.mark.ci
async def test_whichever_side_of_the_settlement_the_kill_is_on_the_answer_comes_once_and_the_wait_wakes_once(tmp_path: Path) -> None:
    async with Porter(tmp_path) as porter:
        await porter.start(crash="C5.before:1")
        message = await porter.say("wait 1s say up and about\nsay good evening")
        await porter.crashed()
        assert (states(porter), waits(porter)) == (([RunState.DISPATCHED], [PromptState.TAKEN]), [ContinuationState.REQUESTED])
        # The transcript has the result, so the next process settles it, and is killed right behind that.
        await porter.start(crash="C5.after:1", ready=False)
        await porter.crashed()
        assert (states(porter), waits(porter)) == (([RunState.SUCCEEDED], [PromptState.SETTLED]), [ContinuationState.PENDING])
        assert porter.said("good evening") == 0
        await porter.start()
        await porter.answer("up and about")
        await porter.at_rest()
        assert (await porter.run_of(message)).state is RunState.SUCCEEDED
        assert waits(porter) == [ContinuationState.DISPATCHED]
        assert [porter.said(text) for text in ("good evening", "up and about")] == [1, 1]
        await porter.stop()
        porter.assert_kept()


def states(porter: Porter) -> tuple[list[RunState], list[PromptState]]:
    rows = porter.rows
    return [run.state for run in rows.runs], [prompt.state for prompt in rows.prompts]


def waits(porter: Porter) -> list[ContinuationState]:
    return [row.state for row in porter.rows.continuations]
