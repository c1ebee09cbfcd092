"""Rights that are taken from the bot and given back: nothing that was said meanwhile is lost, nothing of ours is said twice."""

from __future__ import annotations

import asyncio

import pytest

from bot.loopback.discord import Permission
from bot.runtime.ports import Sent
from storage.models import ConversationId, Part, PartId, PartKind
from storage.states import PartState
from tests.support.gateway_house import Hotel


async def accepted(hotel: Hotel, *texts: str) -> None:
    await hotel.backend.until(lambda: len(hotel.backend.accepted) >= len(texts))
    assert [heard.text for heard in hotel.backend.accepted] == list(texts)


async def test_what_was_written_while_the_channel_was_hidden_is_read_when_it_is_shown_again(hotel: Hotel) -> None:
    await hotel.up()
    await hotel.people.set_overwrite(hotel.channel, hotel.people.bot, deny=Permission.VIEW_CHANNEL)
    await hotel.say(f"{hotel.me} unseen")
    await hotel.people.set_overwrite(hotel.channel, hotel.people.bot)
    await hotel.say(f"{hotel.me} seen")
    await accepted(hotel, "unseen", "seen")


async def test_so_it_is_in_a_thread_of_that_channel(hotel: Hotel) -> None:
    await hotel.up()
    thread = await hotel.people.create_thread(hotel.channel, hotel.alice, "side talk")
    await hotel.say(f"{hotel.me} first", channel=thread)
    await accepted(hotel, "first")
    await hotel.people.set_overwrite(hotel.channel, hotel.people.bot, deny=Permission.VIEW_CHANNEL)
    await hotel.say(f"{hotel.me} unseen", channel=thread)
    await hotel.people.set_overwrite(hotel.channel, hotel.people.bot)
    await accepted(hotel, "first", "unseen")


async def test_what_was_written_while_the_bot_was_out_of_the_guild_is_read_when_it_is_invited_again(hotel: Hotel) -> None:
    await hotel.up()
    await hotel.people.kick_bot(hotel.guild)
    await hotel.say(f"{hotel.me} unseen")
    await hotel.people.add_bot(hotel.guild)
    await hotel.say(f"{hotel.me} seen")
    await accepted(hotel, "unseen", "seen")


async def test_a_history_that_may_not_be_read_holds_the_mark_until_it_may(hotel: Hotel) -> None:
    await hotel.up()
    await hotel.down()
    await hotel.people.set_overwrite(hotel.channel, hotel.people.bot, deny=Permission.READ_MESSAGE_HISTORY)
    await hotel.say(f"{hotel.me} missed")
    since = len(hotel.discord.log)
    await hotel.start()
    await hotel.discord.log.wait_kind("gateway.identify", since=since)
    await hotel.say(f"{hotel.me} heard")
    await accepted(hotel, "heard")
    await hotel.people.set_overwrite(hotel.channel, hotel.people.bot)
    await hotel.backend.until(lambda: len({heard.text for heard in hotel.backend.accepted}) == 2)
    assert {heard.text for heard in hotel.backend.accepted} == {"heard", "missed"}


@pytest.mark.parametrize("denied", [Permission.READ_MESSAGE_HISTORY, Permission.VIEW_CHANNEL])
async def test_a_history_that_may_not_be_read_never_proves_that_a_message_is_missing(hotel: Hotel, denied: Permission) -> None:
    await hotel.up()
    assert isinstance(await hotel.gateway.chat.send(answer(hotel), 5), Sent)
    assert hotel.gateway.bot is not None
    told = asyncio.ensure_future(hotel.gateway.bot.wait_for("guild_channel_create"))
    await asyncio.sleep(0)
    await hotel.people.set_overwrite(hotel.channel, hotel.guild.everyone, deny=denied)
    # The gateway tells in order: with this the news about the rights has come too.
    await hotel.people.create_channel(hotel.guild, "other")
    await asyncio.wait_for(told, 10)
    assert not isinstance(await hotel.gateway.chat.history(hotel.channel.id, 0), tuple)


async def test_an_answer_that_may_not_be_a_reply_is_posted_without_being_one(hotel: Hotel) -> None:
    await hotel.up()
    asked = await hotel.say("hello")
    await hotel.people.set_overwrite(hotel.channel, hotel.people.bot, deny=Permission.READ_MESSAGE_HISTORY)
    sent = await hotel.gateway.chat.send(answer(hotel, reply_to_id=asked.id), 5)
    (row,) = [row for row in hotel.people.messages(hotel.channel) if row.author.id == hotel.people.bot.id]
    assert sent == Sent(row.id)
    assert (row.content, row.reply_to) == ("good evening", None)


def answer(hotel: Hotel, *, reply_to_id: int | None = None) -> Part:
    return Part(
        PartId(1),
        ConversationId(1),
        hotel.channel.id,
        1,
        PartKind.ANSWER,
        PartState.SENDING,
        "good evening",
        "n1",
        0,
        reply_to_id=reply_to_id,
    )
