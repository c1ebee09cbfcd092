"""What was written while nobody listened is read once, in order, and asked about when it is old."""

from __future__ import annotations

import asyncio

from bot.gateway.intake import pause_s
from bot.loopback.discord import Code
from storage.errors import NotStored
from storage.models import Rules
from storage.states import PromptState
from tests.support.gateway_house import Hotel


async def test_messages_written_while_it_was_down_are_read_once_and_in_order(hotel: Hotel) -> None:
    await hotel.up()
    await hotel.down()
    await hotel.say(f"{hotel.me} run the tests")
    await hotel.say("talking")
    await hotel.say(f"{hotel.me} and lint")
    last = await hotel.say("talking on")
    await hotel.up()
    assert [(heard.text, heard.source) for heard in hotel.backend.accepted] == [("run the tests", "catch_up"), ("and lint", "catch_up")]
    assert await hotel.mark() == last.id
    assert len(hotel.backend.named("caught_up")) == 1
    await hotel.down()
    await hotel.up()
    assert hotel.backend.accepted == []


async def test_many_pages_are_read_to_the_end(hotel: Hotel) -> None:
    await hotel.up()
    await hotel.down()
    for number in range(230):
        await hotel.say(f"{hotel.me} {number}" if number % 50 == 0 else "talking")
    await hotel.up()
    assert [heard.text for heard in hotel.backend.accepted] == ["0", "50", "100", "150", "200"]


async def test_a_first_binding_begins_now(hotel: Hotel) -> None:
    await hotel.say(f"{hotel.me} long before")
    await hotel.up()
    assert hotel.backend.accepted == []
    await hotel.down()
    await hotel.up()
    assert hotel.backend.accepted == []
    await hotel.say(f"{hotel.me} now")
    await hotel.backend.until(lambda: bool(hotel.backend.accepted))
    assert [heard.text for heard in hotel.backend.accepted] == ["now"]
    await hotel.down()
    await hotel.up()
    assert hotel.backend.accepted == []


async def test_what_is_too_old_is_offered_and_people_are_asked_after_it_is_complete(hotel: Hotel) -> None:
    await hotel.up()
    await hotel.down()
    first = await hotel.say(f"{hotel.me} deploy")
    await hotel.say(f"{hotel.me} and tell me")
    hotel.rules = Rules(catch_up_max_age_ms=-60_000)
    await hotel.up()
    names = [name for name, _ in hotel.backend.calls if name in {"accept", "caught_up"}]
    assert names == ["accept", "accept", "caught_up"]
    prompt = await hotel.backend.store.prompts.by_source_key(f"message:{first.id}")
    assert prompt is not None
    assert prompt.state is PromptState.OFFERED


async def test_live_messages_wait_until_what_came_before_them_is_read(hotel: Hotel) -> None:
    await hotel.up()
    await hotel.down()
    await hotel.say(f"{hotel.me} missed")
    held = hotel.discord.faults.delay("GET", "/channels/{channel_id}/messages", 0.2)
    since = len(hotel.discord.log)
    await hotel.start()
    await hotel.discord.log.wait_kind("gateway.identify", since=since)
    await hotel.say(f"{hotel.me} live")
    await hotel.backend.until(lambda: len(hotel.backend.accepted) == 2)
    assert held.hits == 1
    assert [heard.text for heard in hotel.backend.accepted] == ["missed", "live"]


async def test_a_history_that_cannot_be_read_holds_no_live_message_and_does_not_move_the_mark(hotel: Hotel) -> None:
    await hotel.up()
    before = await hotel.mark()
    await hotel.down()
    await hotel.say(f"{hotel.me} missed")
    fault = hotel.discord.faults.status("GET", "/channels/{channel_id}/messages", 503, times=1_000)
    since = len(hotel.discord.log)
    await hotel.start()
    await hotel.discord.log.wait_kind("gateway.identify", since=since)
    live = await hotel.say(f"{hotel.me} live")
    await hotel.backend.until(lambda: bool(hotel.backend.accepted))
    assert [(heard.text, heard.caught_up) for heard in hotel.backend.accepted] == [("live", False)]
    assert await hotel.mark() == before
    fault.lift()
    await hotel.settled()
    assert [heard.text for heard in hotel.backend.accepted] == ["live", "missed"]
    assert await hotel.mark() == live.id


async def test_a_crash_in_the_middle_of_catching_up_loses_and_repeats_nothing(hotel: Hotel) -> None:
    await hotel.up()
    await hotel.down()
    for number in range(6):
        await hotel.say(f"{hotel.me} {number}")
    await hotel.start()

    def stop_at_three(message: object) -> None:
        if len(hotel.backend.accepted) == 3:
            raise asyncio.CancelledError

    hotel.backend.on_accept = stop_at_three
    await hotel.backend.until(lambda: len(hotel.backend.accepted) == 3)
    stored = [heard.text for heard in hotel.backend.accepted]
    await hotel.kill()
    await hotel.up()
    assert stored + [heard.text for heard in hotel.backend.accepted] == [str(number) for number in range(6)]


async def test_a_message_that_could_not_be_stored_is_not_passed_by_the_mark(hotel: Hotel) -> None:
    await hotel.up()
    await hotel.down()
    for number in range(3):
        await hotel.say(f"{hotel.me} {number}")
    await hotel.start()
    hotel.backend.failures += [NotStored("disk full")] * 3
    await hotel.settled()
    assert [heard.text for heard in hotel.backend.accepted] == ["0", "1", "2"]


async def test_whoever_has_no_right_now_is_not_read_back_and_roles_are_asked_for(hotel: Hotel) -> None:
    await hotel.up()
    await hotel.down()
    await hotel.say(f"{hotel.me} let me in", who=hotel.stranger)
    await hotel.say(f"{hotel.me} as the admin", who=hotel.admin)
    gone = await hotel.people.join(hotel.guild, "gone", roles=hotel.admin.roles)
    await hotel.say(f"{hotel.me} bye", who=gone)
    await hotel.people.leave(gone)
    await hotel.up()
    assert [heard.text for heard in hotel.backend.accepted] == ["as the admin"]
    # Nobody had to be asked twice: the guild was known before.
    assert hotel.clock.slept == []


async def test_a_role_that_cannot_be_asked_for_is_asked_for_later(hotel: Hotel) -> None:
    await hotel.up()
    await hotel.down()
    await hotel.say(f"{hotel.me} as the admin", who=hotel.admin)
    fault = hotel.discord.faults.status("GET", "/guilds/{guild_id}/members/{user_id}", 503, times=2)
    await hotel.up()
    assert fault.hits == 2
    assert [heard.text for heard in hotel.backend.accepted] == ["as the admin"]


async def test_threads_are_read_back_old_ones_archived_ones_and_new_ones(hotel: Hotel) -> None:
    await hotel.up()
    old = await hotel.people.create_thread(hotel.channel, hotel.alice, "old")
    archived = await hotel.people.create_thread(hotel.channel, hotel.alice, "archived")
    await hotel.say(f"{hotel.me} begin", channel=old)
    await hotel.say(f"{hotel.me} begin", channel=archived)
    await hotel.backend.until(lambda: len(hotel.backend.accepted) == 2)
    await hotel.down()
    await hotel.say(f"{hotel.me} in the old one", channel=old)
    await hotel.say(f"{hotel.me} in the archived one", channel=archived)
    await hotel.people.change_channel(hotel.alice, archived, archived=True)
    new = await hotel.people.create_thread(hotel.channel, hotel.alice, "new")
    await hotel.say("only talking", channel=new)
    await hotel.say(f"{hotel.me} in the new one", channel=new)
    await hotel.up()
    await hotel.backend.until(lambda: len(hotel.backend.accepted) == 3)
    assert {(heard.channel_id, heard.text) for heard in hotel.backend.accepted} == {
        (old.id, "in the old one"),
        (archived.id, "in the archived one"),
        (new.id, "in the new one"),
    }


async def test_a_thread_is_read_back_although_its_channel_was_caught_up_before_it(hotel: Hotel) -> None:
    # Many more channels than are read at the same time, so that the thread's turn comes when its channel has long been read.
    for number in range(12):
        hotel.more_channels.append((await hotel.people.create_channel(hotel.guild, f"more-{number}")).id)
    await hotel.up()
    thread = await hotel.people.create_thread(hotel.channel, hotel.alice, "new")
    await hotel.down()
    await hotel.say(f"{hotel.me} in the thread", channel=thread)
    await hotel.say(f"{hotel.me} in the channel, later")
    await hotel.up()
    await hotel.backend.until(lambda: len(hotel.backend.accepted) == 2)
    assert {heard.text for heard in hotel.backend.accepted} == {"in the thread", "in the channel, later"}


async def test_a_channel_is_not_read_past_a_thread_that_could_not_be_read_before_the_process_was_killed(hotel: Hotel) -> None:
    await hotel.up()
    thread = await hotel.people.create_thread(hotel.channel, hotel.alice, "new")
    await hotel.down()
    await hotel.say(f"{hotel.me} in the thread", channel=thread)
    later = await hotel.say(f"{hotel.me} in the channel, later")
    unreadable = hotel.discord.faults.refuse("GET", f"/channels/{thread.id}/messages", Code.MISSING_ACCESS, times=1_000)
    await hotel.start()
    await hotel.discord.log.wait_for(lambda _: unreadable.hits > 0)
    await hotel.say(f"{hotel.me} live")
    await hotel.backend.until(lambda: "live" in {heard.text for heard in hotel.backend.accepted})
    assert await hotel.mark() < later.id
    await hotel.kill()
    unreadable.lift()
    await hotel.up()
    await hotel.backend.until(lambda: len(hotel.backend.accepted) == 2)
    assert [heard.text for heard in hotel.backend.accepted] == ["in the thread", "in the channel, later"]


def test_a_channel_that_cannot_be_read_for_weeks_is_tried_again_and_again() -> None:
    assert [pause_s(failures) for failures in (0, 1, 5, 6, 100_000)] == [1, 2, 32, 60, 60]


async def test_a_role_that_was_taken_away_counts_at_the_next_reading(hotel: Hotel) -> None:
    await hotel.up()
    await hotel.down()
    guest = await hotel.people.join(hotel.guild, "guest", roles=hotel.admin.roles)
    await hotel.say(f"{hotel.me} while I may", who=guest)
    await hotel.up()
    assert [heard.text for heard in hotel.backend.accepted] == ["while I may"]
    # The same gateway session goes on: a database that was away makes it read again.
    fault = hotel.discord.faults.status("GET", "/channels/{channel_id}/messages", 503, times=1_000)
    hotel.backend.failures.append(NotStored("disk full"))
    await hotel.say(f"{hotel.me} is the disk full?", who=hotel.alice)
    await hotel.backend.until(lambda: not hotel.backend.failures)
    await hotel.people.set_roles(guest, [])
    await hotel.say(f"{hotel.me} no more", who=guest)
    fault.lift()
    await hotel.settled()
    assert [heard.text for heard in hotel.backend.accepted] == ["while I may", "is the disk full?"]
