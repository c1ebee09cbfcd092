"""Threads: how they come into being, who posts in them, archived and locked."""

from __future__ import annotations

import discord
import pytest

from bot.loopback.discord import Permission

from .conftest import Client, Hotel, Refused


async def test_a_thread_of_a_person_is_announced_before_its_messages(hotel: Hotel, client: Client) -> None:
    thread = await hotel.people.create_thread(hotel.channel, hotel.alice, "deploys")
    await hotel.people.say(thread, hotel.alice, "in here")
    system, heard = [await client.next_message() for _ in range(2)]
    assert system.type is discord.MessageType.thread_created
    assert isinstance(heard.channel, discord.Thread)
    assert heard.channel.parent_id == hotel.channel.id
    await heard.channel.send("answered")
    assert hotel.people.texts(thread) == ["in here", "answered"]


async def test_the_bot_opens_threads_on_a_message_and_in_a_channel(hotel: Hotel, client: Client, refused: Refused) -> None:
    await hotel.people.say(hotel.channel, hotel.alice, "start")
    heard = await client.next_message()
    thread = await heard.create_thread(name="on it")
    assert thread.id == heard.id
    async with refused(160004):
        await heard.create_thread(name="again")
    loose = await client.text_channel(hotel.channel).create_thread(name="loose", type=discord.ChannelType.public_thread)
    active = await client.guilds[0].active_threads()
    assert {one.id for one in active} == {thread.id, loose.id}
    async with refused(50035):
        await client.text_channel(hotel.channel).create_thread(name="n" * 101)


async def test_a_thread_needs_its_own_permissions(hotel: Hotel, client: Client, refused: Refused) -> None:
    thread = await hotel.people.create_thread(hotel.channel, hotel.alice, "quiet")
    deny = Permission.SEND_MESSAGES_IN_THREADS | Permission.CREATE_PUBLIC_THREADS
    await hotel.people.set_overwrite(hotel.channel, hotel.people.bot, deny=deny)
    await client.post(hotel.channel, {"content": "the channel itself is open"})
    async with refused(50013):
        await client.post(thread, {"content": "x"})
    async with refused(50013):
        await client.text_channel(hotel.channel).create_thread(name="x", type=discord.ChannelType.public_thread)


async def test_a_private_thread_is_seen_by_its_members_only(hotel: Hotel, client: Client, refused: Refused) -> None:
    thread = await hotel.people.create_thread(hotel.channel, hotel.alice, "secret", private=True)
    await hotel.people.say(thread, hotel.alice, "unheard")
    async with refused(50001):
        await client.post(thread, {"content": "x"})
    await hotel.people.add_to_thread(thread, hotel.people.bot)
    await hotel.people.say(thread, hotel.alice, "heard")
    heard = await client.next_message()
    assert (heard.content, isinstance(heard.channel, discord.Thread)) == ("heard", True)


async def test_posting_reopens_an_archived_thread_and_everything_else_is_refused(hotel: Hotel, client: Client, refused: Refused) -> None:
    people = hotel.people
    thread = await people.create_thread(hotel.channel, hotel.alice, "old")
    await people.say(thread, hotel.alice, "one")
    heard = [await client.next_message() for _ in range(2)][-1]
    await people.change_channel(hotel.alice, thread, archived=True)
    async with refused(50083):
        await heard.add_reaction("👀")
    assert [one.id for one in await client.guilds[0].active_threads()] == []
    await client.post(thread, {"content": "reopened"})
    assert thread.thread is not None
    assert not thread.thread.archived
    await heard.add_reaction("👀")
    assert "THREAD_UPDATE" in client.names


@pytest.mark.parametrize(("archived", "code"), [(True, 50083), (False, 160005)])
async def test_a_locked_thread_is_closed_to_those_who_do_not_manage_threads(
    hotel: Hotel, client: Client, refused: Refused, archived: bool, code: int
) -> None:
    people = hotel.people
    owner = hotel.guild.members[hotel.guild.owner_id]
    thread = await people.create_thread(hotel.channel, hotel.alice, "done")
    await people.change_channel(owner, thread, locked=True, archived=archived)
    async with refused(code):
        await client.post(thread, {"content": "x"})
    await people.set_overwrite(hotel.channel, people.bot, allow=Permission.MANAGE_THREADS)
    await client.post(thread, {"content": "x"})


async def test_the_bot_archives_only_its_own_threads(hotel: Hotel, client: Client, refused: Refused) -> None:
    own = await client.text_channel(hotel.channel).create_thread(name="mine", type=discord.ChannelType.public_thread)
    await own.edit(archived=True)
    hers = await hotel.people.create_thread(hotel.channel, hotel.alice, "hers")
    found = await client.fetch_channel(hers.id)
    assert isinstance(found, discord.Thread)
    async with refused(50013):
        await found.edit(archived=True)


async def test_deleted_threads_and_channels_are_told(hotel: Hotel, client: Client, refused: Refused) -> None:
    owner = hotel.guild.members[hotel.guild.owner_id]
    thread = await hotel.people.create_thread(hotel.channel, hotel.alice, "short")
    await hotel.people.delete_channel(owner, thread)
    await hotel.people.change_channel(owner, hotel.channel, name="renamed")
    other = await hotel.people.create_channel(hotel.guild, "other")
    await hotel.people.say(other, hotel.alice, "sync")
    while (await client.next_message()).content != "sync":
        pass
    assert client.get_channel(thread.id) is None
    assert client.text_channel(hotel.channel).name == "renamed"
    await hotel.people.delete_channel(owner, hotel.channel)
    await hotel.people.say(other, hotel.alice, "sync")
    await client.next_message()
    assert client.get_channel(hotel.channel.id) is None
    async with refused(10003):
        await client.post(thread, {"content": "x"})
