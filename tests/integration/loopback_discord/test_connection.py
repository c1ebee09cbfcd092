"""The gateway: who gets in, what RESUME replays, and what each of its faults does to a real client."""

from __future__ import annotations

import asyncio
import json
import sys

import aiohttp
import discord
import pytest

from bot.loopback.discord import Intent, LoopbackConfig, LoopbackDiscord, Permission

from .conftest import Client, Hotel, Lobby


async def test_a_client_sees_guild_channels_and_active_threads_at_ready(lobby: Lobby, hotel: Hotel) -> None:
    thread = await hotel.people.create_thread(hotel.channel, hotel.alice, "deploys")
    client = await lobby.connect(hotel)
    guild = client.guilds[0]
    assert (guild.name, [one.name for one in guild.text_channels], [one.name for one in guild.threads]) == (
        "hotel",
        ["backend"],
        ["deploys"],
    )
    assert guild.threads[0].id == thread.id
    assert guild.me.guild_permissions.send_messages


async def test_a_wrong_token_cannot_log_in(lobby: Lobby, hotel: Hotel) -> None:
    client = Client()
    with pytest.raises(discord.LoginFailure):
        await client.login("wrong")
    await client.close()


async def _close_code(hotel: Hotel, *frames: object) -> int | None:
    async with aiohttp.ClientSession() as http, http.ws_connect(hotel.discord.gateway_url) as ws:
        for frame in frames:
            await ws.send_str(frame if isinstance(frame, str) else json.dumps(frame))
        async for _ in ws:
            pass
        return ws.close_code


@pytest.mark.parametrize(
    ("frames", "code"),
    [
        ([{"op": 2, "d": {"token": "wrong", "intents": 0}}], 4004),
        ([{"op": 2, "d": {"token": "loopback.bot.token", "intents": 1 << 40}}], 4013),
        ([{"op": 8, "d": {}}], 4003),
        (["no json"], 4002),
        ([{"op": 2, "d": {"token": "loopback.bot.token", "intents": 0}}] * 2, 4005),
    ],
)
async def test_the_gateway_refuses_with_discords_close_codes(hotel: Hotel, frames: list[object], code: int) -> None:
    assert await _close_code(hotel, *frames) == code


async def test_a_privileged_intent_that_is_switched_off_ends_the_client(lobby: Lobby) -> None:
    hotel = await lobby.open(LoopbackConfig(privileged_intents=Intent.NONE))
    client = await lobby.login(hotel)
    with pytest.raises(discord.PrivilegedIntentsRequired):
        await client.connect()


async def test_after_a_cut_connection_resume_replays_what_was_missed_in_order(hotel: Hotel, client: Client) -> None:
    since = len(hotel.discord.log)
    hotel.discord.gateway.drop_connections()
    for text in ("one", "two"):
        await hotel.people.say(hotel.channel, hotel.alice, text)
    assert [(await client.next_message()).content for _ in range(2)] == ["one", "two"]
    resumed = await hotel.discord.log.wait_kind("gateway.resume", since=since)
    assert resumed.status is None
    assert client.readies == 1


@pytest.mark.parametrize("fault", ["op7", "op9", "4000", "1001"])
async def test_what_asks_for_a_reconnect_is_followed_by_resume(hotel: Hotel, client: Client, fault: str) -> None:
    gateway, since = hotel.discord.gateway, len(hotel.discord.log)
    if fault == "op7":
        gateway.ask_reconnect()
    elif fault == "op9":
        gateway.invalidate(resumable=True)
    else:
        await gateway.close_connections(int(fault))
    record = await hotel.discord.log.wait_kind("gateway.resume", since=since)
    assert record.status is None
    await hotel.people.say(hotel.channel, hotel.alice, "still there?")
    assert (await client.next_message()).content == "still there?"


@pytest.mark.parametrize("fault", ["op9", "4009", "refused"])
async def test_a_lost_session_identifies_anew_and_what_came_in_between_is_only_in_history(hotel: Hotel, client: Client, fault: str) -> None:
    gateway = hotel.discord.gateway
    client.ready.clear()
    gateway.stop_accepting()
    if fault == "op9":
        gateway.invalidate(resumable=False)
    elif fault == "4009":
        await gateway.close_connections(4009)
    else:
        gateway.refuse_resumes()
        gateway.drop_connections()
    await hotel.discord.log.wait_kind("gateway.refuse")
    lost = await hotel.people.say(hotel.channel, hotel.alice, "lost")
    gateway.accept_again()
    await asyncio.wait_for(client.ready.wait(), 10)
    await hotel.people.say(hotel.channel, hotel.alice, "heard")
    assert (await client.next_message()).content == "heard"
    history = [one.id async for one in client.text_channel(hotel.channel).history(limit=10)]
    assert lost.id in history


async def test_a_session_left_for_too_long_cannot_be_resumed(hotel: Hotel, client: Client) -> None:
    gateway = hotel.discord.gateway
    client.ready.clear()
    gateway.stop_accepting()
    gateway.drop_connections()
    await hotel.discord.log.wait_kind("gateway.refuse")
    hotel.discord.clock.advance(301)
    gateway.accept_again()
    await asyncio.wait_for(client.ready.wait(), 10)
    assert [one.status for one in hotel.discord.log.of("gateway.resume")] == [9]


OTHER_PROCESS = """
import os, discord, yarl
discord.http.Route.BASE = os.environ["API"]
discord.gateway.DiscordWebSocket.DEFAULT_GATEWAY = yarl.URL(os.environ["GATEWAY"])
client = discord.Client(intents=discord.Intents.default())
@client.event
async def on_message(message):
    if message.author != client.user:
        await message.reply("from elsewhere")
client.run(os.environ["TOKEN"], log_handler=None)
"""


async def test_a_client_in_another_process_is_served_too(hotel: Hotel) -> None:
    server = hotel.discord
    env = {"API": server.api_base, "GATEWAY": server.gateway_url, "TOKEN": server.token}
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", OTHER_PROCESS, env=env, stderr=asyncio.subprocess.DEVNULL)
    try:
        await server.gateway.identified()
        await hotel.people.say(hotel.channel, hotel.alice, "anybody?")
        answer = await hotel.people.wait_message(hotel.channel)
    finally:
        process.kill()
        await process.wait()
    assert answer.content == "from elsewhere"


async def test_two_processes_with_one_token_both_hear_everything(lobby: Lobby, hotel: Hotel, client: Client) -> None:
    other = await lobby.connect(hotel)
    message = await hotel.people.say(hotel.channel, hotel.alice, "hello")
    assert [(await one.next_message()).id for one in (client, other)] == [message.id] * 2


async def test_a_client_gives_up_a_silent_gateway_and_resumes(lobby: Lobby) -> None:
    hotel = await lobby.open(LoopbackConfig(heartbeat_interval_ms=100))
    client = await lobby.connect(hotel, heartbeat_timeout=0.3)
    since = len(hotel.discord.log)
    hotel.discord.gateway.stall()
    await hotel.people.say(hotel.channel, hotel.alice, "anybody?")
    await hotel.discord.log.wait_kind("gateway.connect", since=since)
    assert client.heard.empty()
    hotel.discord.gateway.flow_again()
    assert (await client.next_message()).content == "anybody?"


async def test_duplicated_replayed_and_overlapping_events_reach_the_client_more_than_once(hotel: Hotel, client: Client) -> None:
    gateway = hotel.discord.gateway
    gateway.duplicate_next("MESSAGE_CREATE")
    message = await hotel.people.say(hotel.channel, hotel.alice, "twice")
    assert [(await client.next_message()).id for _ in range(2)] == [message.id] * 2
    gateway.replay_last(1)
    assert (await client.next_message()).id == message.id
    gateway.overlap_next_resume(1)
    gateway.drop_connections()
    assert (await client.next_message()).id == message.id
    assert client.heard.empty()


async def test_a_malformed_event_ends_the_client_as_measured(lobby: Lobby, hotel: Hotel, client: Client) -> None:
    hotel.discord.gateway.send_event("MESSAGE_CREATE", {"id": "1"})
    with pytest.raises(KeyError):
        await asyncio.wait_for(asyncio.shield(lobby.tasks[0]), 10)


async def test_members_are_sent_in_chunks_on_request(lobby: Lobby, hotel: Hotel) -> None:
    intents = discord.Intents.default()
    intents.members = True
    client = await lobby.connect(hotel, intents=intents)
    assert {one.name for one in client.guilds[0].members} == {"nightporter", "hotel-owner", "alice", "bob"}
    found = await client.guilds[0].query_members(user_ids=[hotel.bob.id])
    assert [one.name for one in found] == ["bob"]


async def test_a_channel_that_the_bot_may_not_view_sends_no_events(hotel: Hotel, client: Client) -> None:
    await hotel.people.set_overwrite(hotel.channel, hotel.guild.everyone, deny=Permission.VIEW_CHANNEL)
    await hotel.people.set_overwrite(hotel.channel, hotel.alice, allow=Permission.VIEW_CHANNEL)
    await hotel.people.say(hotel.channel, hotel.alice, "secret")
    other = await hotel.people.create_channel(hotel.guild, "open")
    await hotel.people.say(other, hotel.alice, "open")
    assert (await client.next_message()).content == "open"
    assert client.get_channel(hotel.channel.id) is None


async def test_closing_leaves_no_task_no_port_and_no_connection() -> None:
    before = asyncio.all_tasks()
    server = LoopbackDiscord()
    await server.start()
    address = server.base_url
    async with aiohttp.ClientSession() as http:
        ws = await http.ws_connect(server.gateway_url)
        await server.log.wait_kind("gateway.connect")
        closing = asyncio.create_task(server.aclose())
        async for _ in ws:
            pass
        await closing
        assert ws.close_code == 1001
        assert not server.listening
        with pytest.raises(aiohttp.ClientConnectorError):
            await http.get(address)
    assert asyncio.all_tasks() == before
    assert server.stats()["gateway_connections"] == 0


async def test_a_closed_server_comes_back_on_its_port_with_its_world(hotel: Hotel, client: Client) -> None:
    port = int(hotel.discord.base_url.rpartition(":")[2])
    await hotel.people.say(hotel.channel, hotel.alice, "before")
    await client.next_message()
    since = len(hotel.discord.log)
    await hotel.discord.aclose()
    await hotel.discord.start(port=port)
    await hotel.discord.log.wait_kind("gateway.resume", since=since)
    await hotel.people.say(hotel.channel, hotel.alice, "after")
    assert (await client.next_message()).content == "after"
