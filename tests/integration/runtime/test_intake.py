"""What becomes a prompt and what does not, and what people may still change about it."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

from bot.runtime.ports import Accepted, Duplicate, Offered, Reply, Withdrawn
from storage.events import Code, Refusal
from storage.models import Rules
from storage.states import PromptState, RunState
from tests.support.house import ADMIN, ANN, House

BOB = type(ANN)(8, "Bob", admin=False)


async def busy(house: House) -> None:
    """A turn that lasts until the test stops it."""
    await house.say("hang", by=ADMIN)
    await house.until(house.told)


async def test_the_eyes_come_only_after_the_commit(tmp_path: Path) -> None:
    async with House(tmp_path) as house:
        held, go_on = asyncio.Event(), asyncio.Event()

        async def hold(point: str) -> None:
            if point == "C1.before":
                held.set()
                await go_on.wait()

        house.fault = hold
        accepting = asyncio.create_task(house.say("say hello"))
        await held.wait()
        assert house.chat.seen_ids == []
        go_on.set()
        assert isinstance(await accepting, Accepted)
        await house.until(lambda: house.chat.seen_ids)


async def test_a_full_queue_takes_no_more_says_so_and_keeps_what_it_has(tmp_path: Path) -> None:
    async with House(tmp_path, rules=Rules(queue_limit=2)) as house:
        await busy(house)
        first, second = await house.say("one"), await house.say("two")
        third = house.message("three")
        assert isinstance(await house.runtime.accept(third), Withdrawn)
        notice = await house.until(lambda: next((sent for sent in house.chat.attempts if sent.reply_to_id == third.message_id), None))
        assert "/queue list" in notice.text
        assert isinstance(await house.runtime.accept(third), Duplicate)
        assert isinstance(first, Accepted)
        assert isinstance(second, Accepted)
        assert (first.position, second.position) == (1, 2)
        assert [p.text for p in await house.runtime.waiting(house.room.id)] == ["one", "two"]


async def test_a_message_older_than_the_last_stop_never_runs(tmp_path: Path) -> None:
    async with House(tmp_path) as house:
        late = house.message("say late", source="catch_up")
        await house.stop_room()
        assert isinstance(await house.runtime.accept(late), Withdrawn)
        assert await house.runs() == []


async def test_what_is_too_old_is_offered_once_and_runs_when_a_person_says_so(tmp_path: Path) -> None:
    async with House(tmp_path) as house:
        for number in range(2):
            old = house.message(f"say {number}", source="catch_up", sent_ms=house.clock.now_ms() - 2 * 3_600_000)
            assert isinstance(await house.runtime.accept(old), Offered)
        await house.runtime.caught_up(house.room.id)
        await house.runtime.caught_up(house.room.id)
        await house.until(house.posted)
        (notice,) = house.chat.messages
        assert notice.text.startswith("2 messages came while Nightporter was away")
        ids = [button["custom_id"] for button in json.loads(notice.part.components or "[]")]
        assert ids == [f"np:offer-run:{house.room.id}", f"np:offer-discard:{house.room.id}"]
        await house.runtime.choose(house.room.id, run=True, by=ANN)
        await house.run(0, RunState.SUCCEEDED)
        assert house.told() == ["Ann: say 0\nAnn: say 1"]


async def test_an_edit_of_a_waiting_message_counts_and_keeps_what_it_replies_to(tmp_path: Path) -> None:
    async with House(tmp_path) as house:
        await busy(house)
        message = house.message("fix lgoin", reply_to=Reply("Bob", "the page\nis broken"))
        await house.runtime.accept(message)
        await house.runtime.edited(message.message_id, "fix login")
        (prompt,) = await house.runtime.waiting(house.room.id)
        assert prompt.text == "[in reply to Bob: «the page is broken»]\nfix login"
        running = house.told()[0]
        assert running == "Ada: hang"


async def test_a_deleted_message_that_waits_never_runs_and_one_that_runs_is_not_undone(tmp_path: Path) -> None:
    async with House(tmp_path) as house:
        await busy(house)
        message = house.message("rm the table")
        accepted = await house.runtime.accept(message)
        await house.runtime.deleted(message.message_id)
        assert (await house.prompt_of(accepted)).state is PromptState.WITHDRAWN
        assert await house.runtime.deleted(1) == Refusal(Code.NOT_FOUND)


async def test_a_member_may_not_stop_or_remove_what_others_began(tmp_path: Path) -> None:
    async with House(tmp_path) as house:
        await busy(house)
        accepted = await house.say("wait for me")
        assert isinstance(accepted, Accepted)
        assert await house.stop_room(by=ANN) == Refusal(Code.NOT_YOURS)
        assert await house.runtime.remove_prompt(accepted.prompt_id, BOB) == Refusal(Code.NOT_YOURS)
        await house.runtime.remove_prompt(accepted.prompt_id, ANN)
        assert (await house.prompt_of(accepted)).state is PromptState.WITHDRAWN


async def test_status_shows_what_runs_waits_and_is_pending(tmp_path: Path) -> None:
    async with House(tmp_path) as house:
        await house.say("wait 10h look")
        await house.run(0, RunState.SUCCEEDED)
        await busy_again(house)
        await house.say("next")
        status = await house.runtime.status(house.room.id)
        assert status.run is not None
        assert status.run.state is RunState.DISPATCHED
        assert [p.text for p in status.waiting] == ["next"]
        assert [c.reason for c in status.continuations] == ["look"]
        assert status.session is not None
        assert not status.unattended.met


async def busy_again(house: House) -> None:
    await house.say("hang", by=ADMIN)
    await house.run(1, RunState.DISPATCHED)


async def test_two_conversations_of_one_folder_never_run_at_the_same_time(tmp_path: Path) -> None:
    async with House(tmp_path) as house:
        other = await house.bind(200)
        await house.say("tool Bash 0.2\nsay one")
        await house.until(house.told)
        await house.say("say two", room=other)
        await house.until(lambda: house.words(200))
        one, two = (await house.runs())[0], (await house.store.runs.recent(other.id, 1))[0]
        assert one.ended_ms is not None
        assert two.claimed_ms >= one.ended_ms


async def test_one_free_slot_goes_to_a_person_before_a_wake_of_another_folder(tmp_path: Path) -> None:
    async with House(tmp_path, config={"max_concurrent_runs": 1}) as house:
        other = await house.bind(200, "other")
        third = await house.bind(300, "third")
        await house.say("wait 0.05s say woken")
        await house.run(0, RunState.SUCCEEDED)
        await house.say("tool Bash 0.4\nsay slow", room=other)
        await house.until(lambda: any("slow" in told for told in house.told()))

        async def due() -> bool:
            return bool(await house.store.prompts.waiting(house.room.id))

        await house.until(due)
        await house.say("say person", room=third)
        await house.run(1, RunState.SUCCEEDED)
        order = [told.split("say ")[-1] for told in house.told()]
        assert order == ["woken", "slow", "person", "woken"]
