"""Every way in which a post can end, with discord.py's real retries and rate limiter."""

from __future__ import annotations

import json

import pytest

from bot.gateway.client import Gateway
from bot.loopback.discord import Message, Permission
from bot.runtime.ports import OutcomeUnknown, Paused, Rejected, Sent, Wait
from storage.guard import in_transaction
from storage.models import ConversationId, Part, PartId, PartKind
from storage.states import PartState
from tests.support.gateway_house import Hotel

POST = ("POST", "/channels/{channel_id}/messages")


def part(hotel: Hotel, text: str = "good evening", *, nonce: str = "n1", kind: PartKind = PartKind.ANSWER, **more: object) -> Part:
    made = Part(PartId(1), ConversationId(1), hotel.channel.id, 1, kind, PartState.SENDING, text, nonce, 0)
    for name, value in more.items():
        object.__setattr__(made, name, value)
    return made


def bots(hotel: Hotel) -> list[Message]:
    return [row for row in hotel.people.messages(hotel.channel) if row.author.id == hotel.people.bot.id]


async def test_a_part_is_posted_with_its_nonce_and_its_id_comes_back(hotel: Hotel) -> None:
    await hotel.up()
    sent = await hotel.gateway.chat.send(part(hotel), 5)
    (row,) = bots(hotel)
    assert sent == Sent(row.id)
    assert (row.content, row.nonce, row.silent) == ("good evening", "n1", False)


async def test_the_same_nonce_twice_is_one_message(hotel: Hotel) -> None:
    await hotel.up()
    first = await hotel.gateway.chat.send(part(hotel), 5)
    assert await hotel.gateway.chat.send(part(hotel), 5) == first
    assert len(bots(hotel)) == 1


async def test_words_ping_nobody(hotel: Hotel) -> None:
    await hotel.people.set_overwrite(hotel.channel, hotel.people.bot, allow=Permission.MENTION_EVERYONE)
    await hotel.up()
    asked = await hotel.say("hello")
    await hotel.gateway.chat.send(part(hotel, f"@everyone @here <@{hotel.alice.id}> <@&{hotel.guild.id}>", reply_to_id=asked.id), 5)
    (row,) = bots(hotel)
    assert not row.pings
    assert row.reply_to == asked.id


async def test_narration_is_silent_and_an_answer_to_a_deleted_message_is_posted(hotel: Hotel) -> None:
    await hotel.up()
    asked = await hotel.say("hello")
    await hotel.people.delete(asked)
    assert isinstance(await hotel.gateway.chat.send(part(hotel, kind=PartKind.NARRATION, reply_to_id=asked.id), 5), Sent)
    assert bots(hotel)[0].silent


async def test_buttons_come_from_what_is_stored(hotel: Hotel) -> None:
    await hotel.up()
    stored = json.dumps([{"label": "Resume", "style": "primary", "custom_id": "np:resume:1"}])
    await hotel.gateway.chat.send(part(hotel, kind=PartKind.NOTICE, components=stored), 5)
    (component,) = bots(hotel)[0].components[0]["components"]
    assert (component["label"], component["style"], component["custom_id"]) == ("Resume", 1, "np:resume:1")


async def test_a_secret_is_never_posted(hotel: Hotel) -> None:
    await hotel.up()
    await hotel.gateway.chat.send(part(hotel, f"the token is {hotel.discord.token}!"), 5)
    assert bots(hotel)[0].content == "the token is [secret]!"


async def test_what_is_queued_is_what_is_posted_so_that_history_can_find_it(hotel: Hotel) -> None:
    await hotel.up()
    (queued,) = hotel.gateway.chat.split(f"the token is {hotel.discord.token}!")
    await hotel.gateway.chat.send(part(hotel, queued), 5)
    assert bots(hotel)[0].content == queued == "the token is [secret]!"


async def test_a_server_error_leaves_the_outcome_open_and_the_nonce_settles_it(hotel: Hotel) -> None:
    await hotel.up()
    hotel.discord.faults.status(*POST, 503, when="after")
    assert isinstance(await hotel.gateway.chat.send(part(hotel), 5), OutcomeUnknown)
    assert await hotel.gateway.chat.send(part(hotel), 5) == Sent(bots(hotel)[0].id)
    assert len(bots(hotel)) == 1


async def test_a_connection_cut_after_the_effect_leaves_the_outcome_open(hotel: Hotel) -> None:
    await hotel.up()
    hotel.discord.faults.drop(*POST, when="after")
    assert isinstance(await hotel.gateway.chat.send(part(hotel), 5), OutcomeUnknown)
    assert await hotel.gateway.chat.send(part(hotel), 5) == Sent(bots(hotel)[0].id)
    assert len(bots(hotel)) == 1


async def test_no_answer_in_time_leaves_the_outcome_open(hotel: Hotel) -> None:
    await hotel.up()
    hotel.discord.faults.hang(*POST)
    assert isinstance(await hotel.gateway.chat.send(part(hotel), 0.2), OutcomeUnknown)


async def test_the_librarys_own_retries_count_into_the_deadline(hotel: Hotel) -> None:
    await hotel.up()
    hotel.discord.faults.status(*POST, 500, when="after")
    # discord.py would sleep for a second and try again.
    assert isinstance(await hotel.gateway.chat.send(part(hotel), 0.3), OutcomeUnknown)


async def test_a_rate_limit_that_outlasts_the_deadline_means_not_posted(hotel: Hotel) -> None:
    await hotel.up()
    hotel.discord.faults.rate_limit(*POST, 5)
    assert isinstance(await hotel.gateway.chat.send(part(hotel), 0.3), Wait)
    assert bots(hotel) == []


async def test_a_long_rate_limit_says_how_long(hotel: Hotel) -> None:
    await hotel.up()
    hotel.discord.faults.rate_limit(*POST, 900)
    assert await hotel.gateway.chat.send(part(hotel), 5) == Wait(900)


async def test_a_short_rate_limit_is_waited_for(hotel: Hotel) -> None:
    await hotel.up()
    hotel.discord.faults.rate_limit(*POST, 0.05)
    assert isinstance(await hotel.gateway.chat.send(part(hotel), 5), Sent)


async def test_a_ban_by_discords_edge_is_waited_out(hotel: Hotel) -> None:
    await hotel.up()
    hotel.discord.faults.cloudflare(*POST)
    assert await hotel.gateway.chat.send(part(hotel), 5) == Wait(60)


async def test_a_message_that_was_delivered_and_then_deleted_was_delivered(hotel: Hotel) -> None:
    await hotel.up()
    await hotel.gateway.chat.send(part(hotel), 5)
    await hotel.people.delete(bots(hotel)[0])
    assert await hotel.gateway.chat.send(part(hotel), 5) == Sent(0)


async def test_missing_permission_is_permanent_and_named(hotel: Hotel) -> None:
    await hotel.people.set_overwrite(hotel.channel, hotel.people.bot, deny=Permission.SEND_MESSAGES)
    await hotel.up()
    assert await hotel.gateway.chat.send(part(hotel), 5) == Rejected("missing permission in #backend")


async def test_a_deleted_channel_is_permanent(hotel: Hotel) -> None:
    await hotel.up()
    await hotel.people.delete_channel(hotel.guild.members[hotel.guild.owner_id], hotel.channel)
    result = await hotel.gateway.chat.send(part(hotel), 5)
    assert isinstance(result, Rejected)
    assert "does not exist" in result.why


async def test_a_bad_request_is_permanent_and_a_poison_part_fails_alone(hotel: Hotel) -> None:
    await hotel.up()
    assert isinstance(await hotel.gateway.chat.send(part(hotel, " "), 5), Rejected)
    assert isinstance(await hotel.gateway.chat.send(part(hotel, nonce="n2"), 5), Sent)


async def test_a_refused_token_pauses_and_blames_no_message(hotel: Hotel) -> None:
    await hotel.up()
    hotel.discord.faults.status(*POST, 401)
    assert isinstance(await hotel.gateway.chat.send(part(hotel), 5), Paused)


async def test_without_a_connection_no_attempt_is_made(hotel: Hotel) -> None:
    gateway = Gateway(hotel.settings(), clock=hotel.clock)
    assert not gateway.chat.ready
    assert isinstance(await gateway.chat.send(part(hotel), 5), Paused)
    assert await gateway.chat.history(hotel.channel.id, 0) is None


async def test_a_discord_that_is_away_pauses_and_takes_it_later(hotel: Hotel) -> None:
    await hotel.up()
    port = int(hotel.discord.base_url.rpartition(":")[2])
    await hotel.discord.aclose()
    assert isinstance(await hotel.gateway.chat.send(part(hotel), 5), Paused | OutcomeUnknown)
    assert isinstance(await hotel.gateway.chat.send(part(hotel), 5), Paused)
    since = len(hotel.discord.log)
    await hotel.discord.start(port=port)
    await hotel.discord.log.wait_kind("gateway.identify", since=since)
    assert isinstance(await hotel.gateway.chat.send(part(hotel), 5), Sent)
    assert len(bots(hotel)) == 1


async def test_history_is_our_own_messages_oldest_first_and_all_of_them(hotel: Hotel) -> None:
    await hotel.up()
    for number in range(3):
        await hotel.say("talking")
        await hotel.gateway.chat.send(part(hotel, str(number), nonce=f"n{number}"), 5)
    found = await hotel.gateway.chat.history(hotel.channel.id, 0)
    assert isinstance(found, tuple)
    assert [(row.message_id, row.text) for row in found] == [(row.id, row.content) for row in bots(hotel)]
    last = found[-1]
    newest = await hotel.gateway.chat.history(hotel.channel.id, 0, last.created_ms)
    assert isinstance(newest, tuple)
    assert [row.text for row in newest][-1:] == ["2"]
    behind = await hotel.gateway.chat.history(hotel.channel.id, found[0].message_id)
    assert isinstance(behind, tuple)
    assert [row.text for row in behind] == ["1", "2"]


async def test_a_history_that_cannot_be_read_is_none_and_not_empty(hotel: Hotel) -> None:
    await hotel.up()
    hotel.discord.faults.status("GET", "/channels/{channel_id}/messages", 503)
    assert await hotel.gateway.chat.history(hotel.channel.id, 0) is None


async def test_a_history_that_is_refused_for_good_says_so(hotel: Hotel) -> None:
    await hotel.up()
    assert isinstance(await hotel.gateway.chat.history(hotel.channel.id + 1, 0), Rejected)


async def test_eyes_and_typing_show_and_their_failure_disturbs_nobody(hotel: Hotel) -> None:
    await hotel.up()
    message = await hotel.say("hello")
    await hotel.gateway.chat.seen(hotel.channel.id, message.id)
    await hotel.gateway.chat.typing(hotel.channel.id)
    await hotel.discord.log.wait_kind("reaction.add")
    await hotel.discord.log.wait_kind("typing")
    assert message.reactions == {"👀": [hotel.people.bot.id]}
    since = len(hotel.discord.log)
    hotel.discord.faults.drop("PUT", "*")
    await hotel.gateway.chat.seen(hotel.channel.id, message.id)
    await hotel.discord.log.wait_kind("fault", since=since)


async def test_posting_inside_a_transaction_is_refused(hotel: Hotel) -> None:
    await hotel.up()
    token = in_transaction.set(True)
    try:
        with pytest.raises(RuntimeError, match="transaction"):
            await hotel.gateway.chat.send(part(hotel), 5)
    finally:
        in_transaction.reset(token)


async def test_channels_have_names(hotel: Hotel) -> None:
    await hotel.up()
    assert hotel.gateway.chat.channel_name(hotel.channel.id) == "#backend"
    assert hotel.gateway.chat.channel_name(5) == "channel 5"
