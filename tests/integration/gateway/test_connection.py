"""The gateway stays connected through whatever the network, Discord and discord.py do, and says what only a person can mend."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from bot.errors import EXIT_CONFIG, ConfigError
from bot.loopback.discord import Intent, LoopbackConfig
from tests.support.gateway_house import Hotel, hotel_in


async def test_what_came_while_the_connection_was_lost_is_replayed_once(hotel: Hotel) -> None:
    await hotel.up()
    hotel.discord.gateway.overlap_next_resume(3)
    hotel.discord.gateway.drop_connections()
    await hotel.say(f"{hotel.me} in the gap")
    await hotel.discord.log.wait_kind("gateway.resume")
    await hotel.say(f"{hotel.me} after it")
    await hotel.backend.until(lambda: len(hotel.backend.accepted) == 2)
    assert [heard.text for heard in hotel.backend.accepted] == ["in the gap", "after it"]
    assert len(hotel.discord.log.of("gateway.identify")) == 1


@pytest.mark.parametrize("how", ["invalid session", "session timed out", "resume refused"])
async def test_what_came_between_two_sessions_is_fetched_once(hotel: Hotel, how: str) -> None:
    await hotel.up()
    first = await hotel.say(f"{hotel.me} before")
    await hotel.backend.until(lambda: len(hotel.backend.accepted) == 1)
    since = len(hotel.discord.log)
    hotel.discord.gateway.stop_accepting()
    match how:
        case "invalid session":
            hotel.discord.gateway.invalidate(resumable=False)
        case "session timed out":
            await hotel.discord.gateway.close_connections(4009)
        case _:
            hotel.discord.gateway.refuse_resumes()
            hotel.discord.gateway.drop_connections()
    await hotel.discord.log.wait_kind("gateway.close", since=since)
    await hotel.say(f"{hotel.me} in the gap")
    hotel.discord.gateway.accept_again()
    await hotel.discord.log.wait_kind("gateway.identify", since=since)
    await hotel.backend.until(lambda: len(hotel.backend.accepted) == 2)
    last = await hotel.say(f"{hotel.me} after it")
    await hotel.backend.until(lambda: len(hotel.backend.accepted) == 3)
    assert [heard.text for heard in hotel.backend.accepted] == ["before", "in the gap", "after it"]
    assert first.id < await hotel.mark() == last.id


async def test_a_session_is_only_begun_anew_after_the_pause_that_discord_asks_for(hotel: Hotel) -> None:
    await hotel.up()
    assert [pause for pause in hotel.clock.slept if pause >= 5] == []
    since = len(hotel.discord.log)
    hotel.discord.gateway.invalidate(resumable=False)
    await hotel.discord.log.wait_kind("gateway.identify", since=since)
    assert 5.0 in hotel.clock.slept


async def test_a_gateway_that_refuses_the_first_connection_is_tried_until_it_is_there(hotel: Hotel) -> None:
    hotel.discord.gateway.stop_accepting()
    await hotel.start()
    for _ in range(3):
        since = len(hotel.discord.log)
        await hotel.discord.log.wait_kind("gateway.refuse", since=since)
    hotel.discord.gateway.accept_again()
    await hotel.settled()


async def test_discord_being_away_at_the_start_is_waited_for(hotel: Hotel) -> None:
    fault = hotel.discord.faults.status("GET", "/users/@me", 503, times=3)
    await hotel.start()
    await hotel.settled()
    assert fault.hits == 3


async def test_an_event_that_discord_py_cannot_parse_costs_no_message(hotel: Hotel) -> None:
    await hotel.up()
    since = len(hotel.discord.log)
    hotel.discord.gateway.send_event("MESSAGE_CREATE", {"channel_id": "not a number"})
    await hotel.say(f"{hotel.me} still there?")
    await hotel.backend.until(lambda: bool(hotel.backend.accepted))
    await hotel.discord.log.wait_kind("gateway.identify", since=since)
    await hotel.settled()
    await hotel.say(f"{hotel.me} good")
    await hotel.backend.until(lambda: len(hotel.backend.accepted) == 2)
    assert hotel.backend.named("accept").count(("still there?", "Accepted")) == 1


async def test_while_the_first_session_is_catching_up_nothing_is_heard_twice(hotel: Hotel) -> None:
    await hotel.up()
    for _ in range(3):
        since = len(hotel.discord.log)
        hotel.discord.gateway.invalidate(resumable=False)
        await hotel.discord.log.wait_kind("gateway.identify", since=since)
    await hotel.settled()
    await hotel.say(f"{hotel.me} once")
    await hotel.say(f"{hotel.me} last")
    await hotel.backend.until(lambda: len(hotel.backend.accepted) == 2)
    assert hotel.backend.named("accept") == [("once", "Accepted"), ("last", "Accepted")]


async def test_a_wrong_token_is_one_sentence_and_a_configuration_error(hotel: Hotel) -> None:
    hotel.token = "wrong"
    running = await hotel.start()
    with pytest.raises(ConfigError, match=r"discord\.token") as caught:
        await asyncio.wait_for(running, 10)
    assert caught.value.exit_code == EXIT_CONFIG
    hotel.running = None
    await hotel.backend.store.aclose()


async def test_a_missing_intent_is_one_sentence_that_says_where_to_switch_it_on(tmp_path: Path) -> None:
    async with hotel_in(tmp_path, LoopbackConfig(privileged_intents=Intent.NONE)) as hotel:
        running = await hotel.start()
        with pytest.raises(ConfigError, match=r"Message Content Intent in the Developer Portal") as caught:
            await asyncio.wait_for(running, 10)
        assert caught.value.exit_code == EXIT_CONFIG
        hotel.running = None
        await hotel.backend.store.aclose()


async def test_a_token_that_is_withdrawn_later_ends_with_the_same_sentence(hotel: Hotel) -> None:
    await hotel.up()
    await hotel.discord.gateway.close_connections(4004)
    assert hotel.running is not None
    with pytest.raises(ConfigError, match=r"discord\.token"):
        await asyncio.wait_for(hotel.running, 10)
    hotel.running = None
    await hotel.backend.store.aclose()


async def test_commands_are_synced_once_for_each_change_and_not_at_every_start(hotel: Hotel) -> None:
    await hotel.up()
    since = len(hotel.discord.log)
    hotel.discord.gateway.invalidate(resumable=False)
    await hotel.discord.log.wait_kind("gateway.identify", since=since)
    await hotel.down()
    await hotel.up()
    await hotel.say(f"{hotel.me} hello")
    await hotel.backend.until(lambda: bool(hotel.backend.accepted))
    assert len(hotel.discord.log.of("commands.sync")) == 1


async def test_a_sync_that_fails_stops_nothing_and_is_tried_again(hotel: Hotel) -> None:
    fault = hotel.discord.faults.status("PUT", "/applications/{application_id}/guilds/{guild_id}/commands", 400, times=2)
    await hotel.up()
    await hotel.say(f"{hotel.me} hello")
    await hotel.backend.until(lambda: bool(hotel.backend.accepted))
    assert fault.hits == 2
    assert len(hotel.discord.log.of("commands.sync")) == 1


async def test_a_fault_of_the_program_in_intake_ends_the_process(hotel: Hotel) -> None:
    await hotel.up()

    def fail(_: object) -> None:
        raise ZeroDivisionError

    hotel.backend.on_accept = fail
    await hotel.say(f"{hotel.me} hello")
    assert hotel.running is not None
    with pytest.raises(ZeroDivisionError):
        await asyncio.wait_for(hotel.running, 10)
    hotel.running = None
    await hotel.backend.store.aclose()


async def test_nothing_is_left_running_when_it_is_told_to_stop(hotel: Hotel) -> None:
    await hotel.up()
    await hotel.say(f"{hotel.me} hello")
    await hotel.backend.until(lambda: bool(hotel.backend.accepted))
    await hotel.down()
    left = {getattr(task.get_coro(), "__qualname__", "") for task in asyncio.all_tasks() if task is not asyncio.current_task()}
    assert {name for name in left if not name.startswith(("Link.", "RequestHandler.", "WebSocket"))} == set()
