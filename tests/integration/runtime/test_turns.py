"""A message's way through the whole runtime: stored, run, answered, once and in order."""

from __future__ import annotations

import asyncio
from pathlib import Path

from bot.runtime.ports import Accepted, Duplicate
from storage.models import PartKind, Rules
from storage.states import ContinuationState, PartState, RunState
from tests.support.house import ANN, House


async def test_a_message_is_answered_once_as_a_reply_to_it(tmp_path: Path) -> None:
    async with House(tmp_path) as house:
        message = house.message("say good evening")
        assert isinstance(await house.runtime.accept(message), Accepted)
        await house.run(0, RunState.SUCCEEDED)
        await house.until(house.words)

        assert house.words() == ["good evening"]
        (posted,) = house.chat.messages
        assert posted.part.reply_to_id == message.message_id
        assert posted.text.endswith("-# nothing scheduled")
        assert house.chat.seen_ids == [message.message_id]


async def test_the_same_message_again_is_no_second_prompt(tmp_path: Path) -> None:
    async with House(tmp_path) as house:
        message = house.message("say once")
        await house.runtime.accept(message)
        assert isinstance(await house.runtime.accept(message), Duplicate)
        await house.run(0, RunState.SUCCEEDED)
        await house.until(house.words)
        assert house.words() == ["once"]
        assert len(await house.runs()) == 1


async def test_a_wait_wakes_the_same_session_and_its_prompt_begins_with_the_receipt(tmp_path: Path) -> None:
    async with House(tmp_path) as house:
        await house.say("say I look again\nwait 0.3s say woken")
        await house.continuation(ContinuationState.PENDING)
        await house.run(1, RunState.SUCCEEDED)
        await house.until(lambda: len(house.words()) == 2)

        assert house.words() == ["I look again", "woken"]
        assert "-# wakes <t:" in house.posted()[0]
        (first_session, _), (second_session, wake) = house.prompts
        assert first_session == second_session
        lines = wake.splitlines()
        assert lines[0].startswith("[delivered] your reply → #channel-100 (1 message, ")
        assert any(line.startswith("[wake] c1, asked for at ") for line in lines)
        assert "Your reason: say woken" in lines
        done = await house.continuation(ContinuationState.DISPATCHED)
        runs = await house.runs()
        assert runs[1].dispatched_ms is not None
        assert runs[1].dispatched_ms >= done.due_at_ms


async def test_a_cancelled_wait_never_wakes_and_the_agent_is_told_at_its_next_turn(tmp_path: Path) -> None:
    async with House(tmp_path) as house:
        await house.say("wait 10m look at CI")
        pending = await house.continuation(ContinuationState.PENDING)
        await house.runtime.cancel(pending.id, ANN)
        await house.say("say hello")
        await house.run(1, RunState.SUCCEEDED)

        assert "[cancelled] c1 by a person (cancelled by Ann): it will not wake you; its reason was «look at CI»" in house.told()[1]
        await house.say("say again")
        await house.run(2, RunState.SUCCEEDED)
        assert "c1" not in house.told()[2]


async def test_skip_reply_keeps_all_prose_private_and_the_receipt_says_so(tmp_path: Path) -> None:
    async with House(tmp_path) as house:
        await house.say("say secret thoughts\nskip not addressed to me\nsay more of them", addressed=False)
        run = await house.run(0, RunState.SUCCEEDED)
        await house.say("say hello")
        await house.run(1, RunState.SUCCEEDED)
        await house.until(house.words)

        assert await house.parts(run.id) == ()
        assert house.words() == ["hello"]
        assert house.told()[1].startswith("[delivered] nothing: kept private (skip_reply: not addressed to me)\n")


async def test_text_between_foreign_tools_is_narration_and_the_rest_is_the_answer(tmp_path: Path) -> None:
    async with House(tmp_path) as house:
        await house.say("say a\ntool Bash 0\nsay b\nwait 10m r\nsay c")
        run = await house.run(0, RunState.SUCCEEDED)
        await house.until(lambda: len(house.words()) == 2)

        assert house.words() == ["a", "b\n\nc"]
        assert [part.kind for part in await house.parts(run.id)] == [PartKind.NARRATION, PartKind.ANSWER]


async def test_text_before_a_last_foreign_tool_is_the_answer_where_nothing_follows(tmp_path: Path) -> None:
    async with House(tmp_path) as house:
        await house.say("say a\ntool Bash 0\nwait 10m r")
        run = await house.run(0, RunState.SUCCEEDED)
        await house.until(house.words)

        assert house.words() == ["a"]
        assert [part.kind for part in await house.parts(run.id)] == [PartKind.ANSWER]


async def test_what_send_message_posted_is_not_posted_again_as_the_answer(tmp_path: Path) -> None:
    async with House(tmp_path) as house:
        await house.say("send all is  green\nsay all is green")
        run = await house.run(0, RunState.SUCCEEDED)
        parts = await house.parts(run.id)
        assert [(part.kind, part.state) for part in parts] == [(PartKind.SENT, PartState.DELIVERED)]


async def test_a_turn_without_a_word_is_told_in_a_small_notice(tmp_path: Path) -> None:
    async with House(tmp_path) as house:
        await house.say("tool Bash 0")
        await house.run(0, RunState.SUCCEEDED)
        await house.until(house.posted)
        assert house.posted() == ["-# The agent ended its turn without an answer · nothing scheduled"]


async def test_messages_of_one_author_in_a_row_are_one_turn_and_another_author_is_the_next(tmp_path: Path) -> None:
    async with House(tmp_path) as house:
        await house.say("say busy\ntool Bash 0.2")
        await house.until(house.told)
        for text in ("first", "second"):
            await house.say(text)
        await house.say("third", by=type(ANN)(8, "Bob", admin=False))
        await house.run(2, RunState.SUCCEEDED)
        assert house.told()[1].endswith("Ann: first\nAnn: second")
        assert house.told()[2].endswith("\n\nBob: third")


async def test_a_long_piece_waits_for_its_continuation(tmp_path: Path) -> None:
    async with House(tmp_path, rules=Rules(piece_wait_ms=60_000)) as house:
        piece = "x" * 1_950
        await house.say(piece)
        await house.say("the end of it")
        await house.run(0, RunState.SUCCEEDED)
        assert house.told() == [f"Ann: {piece}\nAnn: the end of it"]


async def test_a_run_waits_for_the_session_that_a_stopped_one_has_not_given_back(tmp_path: Path) -> None:
    async with House(tmp_path, config={"receipt_wait_s": 0.3}) as house:
        house.chat.hold = asyncio.Event()
        await house.say("say first")
        await house.run(0, RunState.SUCCEEDED)
        await house.say("say stopped")
        await house.run(1, RunState.CLAIMED)
        while not house.pool._busy:  # noqa: ASYNC110, SLF001 - it prepares its prompt, the agent in its hands
            await asyncio.sleep(0)
        await house.stop_room()
        accepted = await house.say("say third")
        run = await house.run(2, RunState.SUCCEEDED, RunState.RELEASED)
        assert run.state is RunState.SUCCEEDED
        assert (await house.prompt_of(accepted)).tries == 0
        house.chat.hold.set()
