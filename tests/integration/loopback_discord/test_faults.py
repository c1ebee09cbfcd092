"""Injected faults strike as told, that many times, before or after the effect; and rate limits as configured."""

from __future__ import annotations

import asyncio
import json
from typing import Literal

import aiohttp
import discord
import pytest

from bot.loopback.discord import Code, LoopbackConfig, RateRule, WaitedTooLongError

from .conftest import Client, Hotel, Lobby

When = Literal["before", "after"]

POST = ("POST", "/channels/{channel_id}/messages")
BODY = {"content": "x", "nonce": "n1", "enforce_nonce": True}


@pytest.mark.parametrize(("when", "posted"), [("before", 0), ("after", 1)])
async def test_a_status_comes_before_or_after_the_effect_and_once(hotel: Hotel, requester: Client, when: When, posted: int) -> None:
    fault = hotel.discord.faults.status(*POST, 503, when=when)
    with pytest.raises(discord.DiscordServerError):
        await requester.post(hotel.channel, BODY)
    assert len(hotel.people.messages(hotel.channel)) == posted
    await requester.post(hotel.channel, BODY)
    assert (len(hotel.people.messages(hotel.channel)), fault.hits) == (1, 1)


async def test_the_clients_own_retry_after_a_500_with_effect_makes_one_message(
    hotel: Hotel, requester: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asyncio, "sleep", _at_once)
    hotel.discord.faults.status(*POST, 500, when="after")
    await requester.post(hotel.channel, BODY)
    posts = [one for one in hotel.discord.log.of("request") if one.nonce == "n1"]
    assert (len(posts), len(hotel.people.messages(hotel.channel))) == (2, 1)
    assert len(hotel.discord.log.of("message.duplicate")) == 1


async def _at_once(_: float) -> None:
    """Not discord.py's second before its retry."""


@pytest.mark.parametrize(("when", "posted"), [("before", 0), ("after", 1)])
async def test_a_dropped_connection_comes_out_raw(hotel: Hotel, requester: Client, when: When, posted: int) -> None:
    hotel.discord.faults.drop(*POST, when=when)
    with pytest.raises(aiohttp.ClientError):
        await requester.post(hotel.channel, BODY)
    assert len(hotel.people.messages(hotel.channel)) == posted


@pytest.mark.parametrize(("when", "posted"), [("before", 0), ("after", 1)])
async def test_a_hanging_request_is_held_until_it_is_released(hotel: Hotel, requester: Client, when: When, posted: int) -> None:
    fault = hotel.discord.faults.hang(*POST, when=when)
    sending = asyncio.create_task(requester.post(hotel.channel, BODY))
    await hotel.discord.log.wait_kind("fault")
    if posted:
        await hotel.people.wait_message(hotel.channel)
    assert not sending.done()
    assert hotel.discord.stats()["requests_in_flight"] == 1
    fault.release()
    with pytest.raises(aiohttp.ClientError):
        await sending
    assert len(hotel.people.messages(hotel.channel)) == posted


async def test_a_hanging_request_does_not_hold_up_the_end(hotel: Hotel, requester: Client) -> None:
    hotel.discord.faults.hang(*POST)
    sending = asyncio.create_task(requester.post(hotel.channel, BODY))
    await hotel.discord.log.wait_kind("fault")
    await hotel.discord.aclose()
    with pytest.raises(aiohttp.ClientError):
        await sending
    assert hotel.discord.stats()["requests_in_flight"] == 0


async def test_a_delay_only_delays(hotel: Hotel, requester: Client) -> None:
    hotel.discord.faults.delay(*POST, 0.01, when="after")
    await requester.post(hotel.channel, BODY)
    assert hotel.people.texts(hotel.channel) == ["x"]


@pytest.mark.parametrize("is_global", [False, True])
async def test_a_429_is_waited_for_and_retried_by_the_client(hotel: Hotel, requester: Client, is_global: bool) -> None:
    hotel.discord.faults.rate_limit(*POST, 0.01, is_global=is_global, times=2)
    await requester.post(hotel.channel, BODY)
    statuses = [one.status for one in hotel.discord.log.of("request") if one.nonce]
    assert statuses == [429, 429, 200]


async def test_cloudflares_429_comes_out_at_once(hotel: Hotel, requester: Client) -> None:
    hotel.discord.faults.cloudflare(*POST)
    with pytest.raises(discord.HTTPException) as info:
        await requester.post(hotel.channel, BODY)
    assert (info.value.status, info.value.code) == (429, 0)


async def test_any_refusal_of_discord_can_be_injected(hotel: Hotel, requester: Client) -> None:
    hotel.discord.faults.refuse(*POST, Code.MISSING_ACCESS)
    with pytest.raises(discord.Forbidden) as info:
        await requester.post(hotel.channel, BODY)
    assert info.value.code == 50001
    await requester.post(hotel.channel, BODY)


async def test_a_fault_can_pick_its_requests_by_path_and_body(hotel: Hotel, requester: Client) -> None:
    faults = hotel.discord.faults
    faults.status("POST", f"/channels/{hotel.channel.id + 1}/messages", 503)
    faults.status("*", "/channels/*/messages", 503, where=lambda call: call.json.get("content") == "bad")
    await requester.post(hotel.channel, {"content": "good"})
    with pytest.raises(discord.DiscordServerError):
        await requester.post(hotel.channel, {"content": "bad"})
    faults.clear()
    assert hotel.people.texts(hotel.channel) == ["good"]


async def test_configured_rate_limits_answer_429_with_their_headers(lobby: Lobby) -> None:
    hotel = await lobby.open(LoopbackConfig(rates={"POST /channels/{channel_id}/messages": RateRule(2, 5.0)}))
    url = f"{hotel.discord.api_base}/channels/{hotel.channel.id}/messages"
    headers = {"Authorization": f"Bot {hotel.discord.token}"}
    async with aiohttp.ClientSession(headers=headers) as http:
        left = []
        for _ in range(2):
            async with http.post(url, json={"content": "x"}) as answer:
                left.append((answer.status, answer.headers["X-RateLimit-Remaining"]))
        assert left == [(200, "1"), (200, "0")]
        async with http.post(url, json={"content": "x"}) as answer:
            body = await answer.json()
            assert (answer.status, body["global"], "Via" in answer.headers) == (429, False, True)
            assert 0 < body["retry_after"] <= 5
        hotel.discord.clock.advance(5)
        async with http.post(url, json={"content": "x"}) as answer:
            assert answer.status == 200
    assert len(hotel.people.messages(hotel.channel)) == 3


async def test_requests_without_the_token_to_unknown_routes_or_with_bad_json_are_refused(hotel: Hotel) -> None:
    base, good = hotel.discord.api_base, {"Authorization": f"Bot {hotel.discord.token}"}
    async with aiohttp.ClientSession() as http:
        for headers, path, expected in [
            ({}, "/users/@me", (401, 0)),
            ({"Authorization": "Bot wrong"}, "/users/@me", (401, 0)),
            (good, "/users/@me/guilds/nothing", (404, 0)),
            (good, "/channels/1", (404, 10003)),
            (good, "/channels/x", (400, 50035)),
        ]:
            async with http.get(base + path, headers=headers) as answer:
                assert answer.headers["Content-Type"] == "application/json"
                assert (answer.status, (await answer.json())["code"]) == expected
        url = f"{base}/channels/{hotel.channel.id}/messages"
        async with http.post(url, data="{", headers=good | {"Content-Type": "application/json"}) as answer:
            assert (answer.status, (await answer.json())["code"]) == (400, 50109)


async def test_the_log_is_one_json_object_a_line_and_tells_subscribers(hotel: Hotel, requester: Client) -> None:
    seen: list[str] = []
    stop = hotel.discord.log.subscribe(lambda record: seen.append(record.kind))
    await requester.post(hotel.channel, BODY)
    stop()
    await hotel.people.say(hotel.channel, hotel.alice, "unseen")
    assert seen == ["message.create", "request"]
    rows = [json.loads(line) for line in hotel.discord.log.to_json_lines().splitlines()]
    posted = next(one for one in rows if one["kind"] == "message.create")
    assert (posted["text"], posted["nonce"], posted["bot"], posted["channel_id"]) == ("x", "n1", True, str(hotel.channel.id))
    assert [one["seq"] for one in rows] == list(range(len(rows)))


async def test_waiting_in_vain_shows_the_last_records(hotel: Hotel) -> None:
    await hotel.people.say(hotel.channel, hotel.alice, "the last thing")
    with pytest.raises(WaitedTooLongError, match="the last thing"):
        await hotel.discord.log.wait_kind("gateway.identify", timeout_s=0.01)
