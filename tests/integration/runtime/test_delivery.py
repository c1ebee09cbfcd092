"""The outbox under a chat that loses, delays, refuses and forgets: each message once, in order, or known as not delivered."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from bot.clock import SystemClock
from bot.runtime.notices import LONGEST_MESSAGE, not_started
from bot.runtime.ports import Paused, Rejected, Wait
from storage.errors import NotRead, OutcomeUnknown
from storage.events import Notify
from storage.models import Part, PartId, PartKind, Rules
from storage.states import PartState, RunState
from tests.support.fake_chat import FakeChat
from tests.support.house import ADMIN, House

LONG = "\n".join(f"line {number} " + "x" * 90 for number in range(60))
#: The second try comes when the window is closed and no request can be in flight any more.
LATE: dict[str, Any] = {"send_deadline_s": 0.1, "send_pauses_s": (0.5,)}
SHORT_WINDOW = Rules(nonce_window_ms=300)


def answering(text: str) -> str:
    """A prompt that makes the agent say a text of several messages."""
    return "say " + text.replace("\n", " ")


async def test_a_lost_response_is_repeated_with_the_same_nonce_and_makes_one_message(tmp_path: Path) -> None:
    async with House(tmp_path) as house:
        house.chat.faults = ["lost"]
        await house.say("say once")
        run = await house.run(0, RunState.SUCCEEDED)
        await house.until(lambda: len(house.chat.attempts) == 2)
        await _ended(house, run.id)
        assert house.words() == ["once"]
        assert len({part.nonce for part in house.chat.attempts}) == 1


async def test_a_rate_limit_in_the_middle_keeps_all_parts_in_order_and_once(tmp_path: Path) -> None:
    async with House(tmp_path) as house:
        house.chat.faults = [None, Wait(0.02), "lost", None]
        await house.say(answering(LONG))
        run = await house.run(0, RunState.SUCCEEDED)
        parts = await _ended(house, run.id)
        assert len(parts) >= 3
        assert house.posted() == [part.text.strip() for part in parts]


async def test_a_part_that_is_refused_fails_alone_and_the_agent_is_told(tmp_path: Path) -> None:
    async with House(tmp_path) as house:
        house.chat.faults = [Rejected("missing permission in #backend")]
        await house.say("say poison")
        first = await house.run(0, RunState.SUCCEEDED)
        parts = await _ended(house, first.id)
        await house.say("say fine")
        await house.until(house.words)
        assert [part.state for part in parts] == [PartState.FAILED]
        assert house.words() == ["fine"]
        assert house.told()[1].startswith(f"[not delivered] missing permission in #backend; the full text is kept as o{parts[0].id}\n")
        assert [part.id for part in (await house.runtime.status(house.room.id)).troubled] == [parts[0].id]


async def test_after_the_window_the_history_shows_that_it_arrived_and_nothing_is_posted_again(tmp_path: Path) -> None:
    async with House(tmp_path, rules=SHORT_WINDOW, config=LATE) as house:
        house.chat.faults = ["lost"]
        await house.say("say once")
        run = await house.run(0, RunState.SUCCEEDED)
        parts = await _ended(house, run.id)
        assert [part.state for part in parts] == [PartState.DELIVERED]
        assert len(house.chat.attempts) == 1
        assert house.words() == ["once"]


class _Ahead(SystemClock):
    """A machine whose clock is three hours fast."""

    def now_ms(self) -> int:
        return super().now_ms() + 3 * 3_600_000


async def test_a_clock_far_ahead_of_the_chats_does_not_hide_what_was_posted(tmp_path: Path) -> None:
    chat = FakeChat(SystemClock())
    async with House(tmp_path, rules=SHORT_WINDOW, config=LATE, clock=_Ahead(), chat=chat) as house:
        chat.faults = ["lost"]
        await house.say("say once")
        run = await house.run(0, RunState.SUCCEEDED)
        (part,) = await _ended(house, run.id)
        assert part.state is PartState.DELIVERED
        assert house.words() == ["once"]


async def test_after_the_window_what_the_history_does_not_show_is_posted_with_a_new_nonce(tmp_path: Path) -> None:
    async with House(tmp_path, rules=SHORT_WINDOW, config=LATE) as house:
        house.chat.fault_of = lambda part: "gone" if part.generation == 1 else None
        await house.say("say once")
        run = await house.run(0, RunState.SUCCEEDED)
        (part,) = await _ended(house, run.id)
        assert part.state is PartState.DELIVERED
        assert part.generation > 1
        assert house.words() == ["once"]
        assert len({attempt.nonce for attempt in house.chat.attempts}) > 1


async def test_what_nobody_can_tell_is_unknown_and_told_as_such(tmp_path: Path) -> None:
    async with House(tmp_path, rules=SHORT_WINDOW, config=LATE) as house:
        house.chat.faults, house.chat.history_unreadable = ["lost"], True
        await house.say("say perhaps")
        run = await house.run(0, RunState.SUCCEEDED)
        (part,) = await _ended(house, run.id)
        assert part.state is PartState.UNKNOWN
        await house.say("say next")
        await house.run(1, RunState.SUCCEEDED)
        assert house.told()[1].startswith("[unknown] your reply got no answer and may be in the channel; check before you repeat it\n")


async def test_an_outage_that_outlasts_the_window_is_waited_for_and_the_history_decides_after_it(tmp_path: Path) -> None:
    async with House(tmp_path, rules=SHORT_WINDOW, config={**LATE, "send_pauses_s": (0.5, 0.01)}) as house:
        house.chat.faults, house.chat.history_outage = ["gone"], 20
        await house.say("say once")
        run = await house.run(0, RunState.SUCCEEDED)
        (part,) = await _ended(house, run.id)
        assert part.state is PartState.DELIVERED
        assert house.words() == ["once"]


async def test_a_reply_that_was_told_as_waiting_is_told_again_when_its_fate_is_known(tmp_path: Path) -> None:
    async with House(tmp_path, chat=FakeChat(SystemClock(), ready=False)) as house:
        await house.say("say first")
        first = await house.run(0, RunState.SUCCEEDED)
        await house.say("say second")
        await house.run(1, RunState.SUCCEEDED)
        house.chat.faults = [Rejected("missing permission in #backend")]
        house.chat.ready = True
        await house.until(lambda: house.words() == ["second"])
        await house.say("say third")
        await house.run(2, RunState.SUCCEEDED)
        await house.say("say fourth")
        await house.run(3, RunState.SUCCEEDED)
        (part,) = await house.parts(first.id)
        lost = f"[not delivered] missing permission in #backend; the full text is kept as o{part.id}"
        assert house.told()[1].startswith("[delayed] your reply waits: ")
        assert house.told()[2].splitlines()[0] == lost
        assert "[delivered] your reply → " in house.told()[2].splitlines()[1]
        assert lost not in house.told()[3]


async def test_a_message_whose_commit_was_in_doubt_is_not_said_to_be_lost(tmp_path: Path) -> None:
    async with House(tmp_path) as house:
        doubts = ["C4.after"]

        async def lose_the_answer(point: str) -> None:
            if point in doubts:
                doubts.remove(point)
                raise OutcomeUnknown(point)

        house.fault = lose_the_answer
        await house.say("send half way")
        await house.run(0, RunState.SUCCEEDED)
        await house.until(house.words)
        assert house.results[0].text.startswith("[delivered] your message → ")
        assert house.words() == ["half way"]


async def test_a_message_that_is_stored_is_not_said_to_be_lost_when_its_receipt_cannot_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with House(tmp_path) as house:
        read, failing = house.store.outbox.by_id, [True]

        async def unread(part_id: PartId) -> Part | None:
            if failing and len(house.told()) > 0 and not house.results:
                failing.clear()
                raise NotRead("the connection to the database was lost")
            return await read(part_id)

        house.chat.hold = asyncio.Event()
        monkeypatch.setattr(house.store.outbox, "by_id", unread)
        await house.say("send half way")
        await house.until(lambda: house.results)
        house.chat.hold.set()
        assert not house.results[0].is_error
        await house.until(house.words)


async def test_a_text_that_is_too_long_for_a_notice_is_cut_and_told_all_the_same(tmp_path: Path) -> None:
    async with House(tmp_path) as house:
        await house.runtime._services.ledger.do(Notify("porter-1", house.room.id, (not_started("x" * 3_000),)))  # noqa: SLF001
        await house.until(house.posted)
        assert len(house.posted()[0]) == LONGEST_MESSAGE


async def test_while_the_chat_is_away_nothing_is_attempted_and_the_agent_is_told_that_it_waits(tmp_path: Path) -> None:
    async with House(tmp_path, chat=FakeChat(SystemClock(), ready=False)) as house:
        await house.say("say first")
        run = await house.run(0, RunState.SUCCEEDED)
        await house.say("say second")
        await house.run(1, RunState.SUCCEEDED)
        (part,) = await house.parts(run.id)
        assert part.attempt == 0
        assert house.told()[1].startswith("[delayed] your reply waits: Discord unreachable since ")
        house.chat.ready = True
        await house.until(lambda: len(house.words()) == 2)
        assert house.words() == ["first", "second"]


async def test_a_pause_of_the_chat_side_is_waited_for(tmp_path: Path) -> None:
    async with House(tmp_path) as house:
        house.chat.faults = [Paused("Discord refuses the bot's token")]
        await house.say("say once")
        await house.until(house.words)
        assert house.words() == ["once"]


async def test_our_own_echo_is_a_receipt_when_the_response_does_not_come(tmp_path: Path) -> None:
    async with House(tmp_path) as house:
        house.chat.faults = ["lost", "gone", "gone", "gone"]
        await house.say("say once")
        run = await house.run(0, RunState.SUCCEEDED)
        await house.until(lambda: house.chat.messages)
        (message,) = house.chat.messages
        await house.runtime.echo(message.nonce, message.id, message.channel_id)
        (part,) = await _ended(house, run.id)
        assert part.state is PartState.DELIVERED
        assert part.message_id == message.id


async def test_words_that_could_not_be_posted_for_too_long_expire_and_both_sides_are_told(tmp_path: Path) -> None:
    chat = FakeChat(SystemClock(), ready=False)
    async with House(tmp_path, chat=chat, rules=Rules(words_expire_ms=0)) as house:
        await house.say("say old news")
        run = await house.run(0, RunState.SUCCEEDED)
        chat.ready = True
        (part,) = await _ended(house, run.id)
        await house.until(house.posted)
        assert part.state is PartState.EXPIRED
        assert "could not be posted in time" in house.posted()[0]
        await house.say("say next")
        await house.run(1, RunState.SUCCEEDED)
        assert "[not delivered] too late to be worth saying" in house.told()[1]


async def test_expired_words_of_several_messages_are_told_once_and_with_the_same_commit(tmp_path: Path) -> None:
    chat = FakeChat(SystemClock(), ready=False)
    async with House(tmp_path, chat=chat, rules=Rules(words_expire_ms=0)) as house:
        await house.say(answering(LONG))
        run = await house.run(0, RunState.SUCCEEDED)
        notified = house.points.count("notify.after")
        chat.ready = True
        parts = await _ended(house, run.id)
        assert len(parts) > 1
        assert {part.state for part in parts} == {PartState.EXPIRED}
        await house.until(house.posted)
        await house.say("say next")
        await house.run(1, RunState.SUCCEEDED)
        assert sum("could not be posted in time" in text for text in house.posted()) == 1
        assert house.points.count("notify.after") == notified


async def test_send_message_returns_its_receipt_within_the_turn(tmp_path: Path) -> None:
    async with House(tmp_path) as house:
        await house.say("send half way\nsay done")
        run = await house.run(0, RunState.SUCCEEDED)
        await house.until(lambda: len(house.words()) == 2)
        assert house.results[0].text.startswith("[delivered] your message → #channel-100 (1 message, ")
        assert house.words() == ["half way", "done"]
        assert [part.kind for part in await house.parts(run.id)] == [PartKind.SENT, PartKind.ANSWER]


async def test_send_message_says_that_it_is_delayed_when_no_receipt_comes(tmp_path: Path) -> None:
    async with House(tmp_path, config={"send_tool_wait_s": 0.05}) as house:
        house.chat.hold = asyncio.Event()
        await house.say("send half way")
        await house.run(0, RunState.SUCCEEDED)
        assert house.results[0].text.startswith("[delayed] your message waits: ")
        house.chat.hold.set()
        await house.until(house.words)


async def test_stop_withdraws_words_that_were_never_attempted(tmp_path: Path) -> None:
    async with House(tmp_path, chat=FakeChat(SystemClock(), ready=False)) as house:
        await house.say("say never mind")
        run = await house.run(0, RunState.SUCCEEDED)
        await house.stop_room(by=ADMIN)
        house.chat.ready = True
        (part,) = await _ended(house, run.id)
        assert part.state is PartState.WITHDRAWN
        assert house.posted() == []


async def _ended(house: House, run_id: Any) -> Any:
    """The run's parts, once all are terminal."""

    async def look() -> Any:
        parts = await house.parts(run_id)
        ended = all(part.state not in {PartState.READY, PartState.SENDING} for part in parts)
        return parts if parts and ended else None

    return await house.until(look)
