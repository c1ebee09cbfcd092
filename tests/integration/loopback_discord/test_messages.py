"""Messages: limits, nonces, mentions, permissions, history, and who sees what."""

from __future__ import annotations

import io
from typing import Any

import discord
import pytest

from bot.loopback.discord import ApiError, Code, Intent, LoopbackConfig, Permission, Pings

from .conftest import Client, Hotel, Lobby, Refused


async def test_content_is_trimmed_as_discord_does(hotel: Hotel, requester: Client) -> None:
    answer = await requester.post(hotel.channel, {"content": "\n  inner  space \n"})
    assert answer["content"] == "inner  space"


async def test_an_enforced_nonce_returns_the_first_message_within_its_window_only(hotel: Hotel, client: Client) -> None:
    body = {"content": "first", "nonce": "n1", "enforce_nonce": True}
    first = await client.post(hotel.channel, body)
    again = await client.post(hotel.channel, body | {"content": "second"})
    assert (again["id"], again["content"]) == (first["id"], "first")
    heard = await client.next_message()
    assert heard.nonce == "n1"
    hotel.discord.clock.advance(181)
    late = await client.post(hotel.channel, body)
    assert late["id"] != first["id"]
    assert (await client.next_message()).id == int(late["id"])
    assert client.heard.empty()


async def test_a_nonce_that_is_not_enforced_makes_a_duplicate(hotel: Hotel, requester: Client) -> None:
    for _ in range(2):
        await requester.post(hotel.channel, {"content": "x", "nonce": "n1"})
    assert hotel.people.texts(hotel.channel) == ["x", "x"]


async def test_a_nonce_of_a_deleted_message_is_unknown_message(hotel: Hotel, requester: Client, refused: Refused) -> None:
    body = {"content": "x", "nonce": "n1", "enforce_nonce": True}
    await requester.post(hotel.channel, body)
    await hotel.people.delete(hotel.people.messages(hotel.channel)[0])
    async with refused(10008, 404):
        await requester.post(hotel.channel, body)


async def test_a_nonce_belongs_to_its_channel(hotel: Hotel, requester: Client) -> None:
    other = await hotel.people.create_channel(hotel.guild, "other")
    body = {"content": "x", "nonce": "n1", "enforce_nonce": True}
    ids = {(await requester.post(channel, body))["id"] for channel in (hotel.channel, other)}
    assert len(ids) == 2


async def test_history_does_not_hold_the_nonce(hotel: Hotel, client: Client) -> None:
    channel = client.text_channel(hotel.channel)
    sent = await channel.send("x", nonce="n1")
    assert sent.nonce == "n1"
    assert [one.nonce async for one in channel.history()] == [None]


async def test_history_pages_in_every_direction(hotel: Hotel, client: Client) -> None:
    rows = [await hotel.people.say(hotel.channel, hotel.alice, str(one)) for one in range(250)]
    channel = client.text_channel(hotel.channel)
    after = [one.content async for one in channel.history(limit=None, after=discord.Object(rows[9].id), oldest_first=True)]
    assert after == [str(one) for one in range(10, 250)]
    before = [one.content async for one in channel.history(limit=None, before=discord.Object(rows[120].id))]
    assert before == [str(one) for one in reversed(range(120))]
    around = [one.content async for one in channel.history(limit=5, around=discord.Object(rows[50].id))]
    assert sorted(around) == ["48", "49", "50", "51", "52"]


async def test_without_the_right_to_read_history_it_is_empty_and_one_cannot_reply(hotel: Hotel, client: Client, refused: Refused) -> None:
    message = await hotel.people.say(hotel.channel, hotel.alice, "hello")
    await hotel.people.set_overwrite(hotel.channel, hotel.people.bot, deny=Permission.READ_MESSAGE_HISTORY)
    channel = client.text_channel(hotel.channel)
    assert [one async for one in channel.history()] == []
    async with refused(50013, 403):
        await channel.fetch_message(message.id)
    async with refused(160002):
        await client.post(hotel.channel, {"content": "x", "message_reference": {"message_id": str(message.id)}})


@pytest.mark.parametrize(
    ("denied", "body", "code"),
    [
        (Permission.VIEW_CHANNEL, {"content": "x"}, 50001),
        (Permission.SEND_MESSAGES, {"content": "x"}, 50013),
        (Permission.EMBED_LINKS, {"embeds": [{"title": "x"}]}, 50013),
    ],
)
async def test_a_missing_permission_refuses_the_post(
    hotel: Hotel, requester: Client, refused: Refused, denied: Permission, body: dict[str, Any], code: int
) -> None:
    await hotel.people.set_overwrite(hotel.channel, hotel.people.bot, deny=denied)
    async with refused(code, 403):
        await requester.post(hotel.channel, body)


async def test_an_unknown_channel_and_a_guild_that_was_left_are_told_apart(hotel: Hotel, requester: Client, refused: Refused) -> None:
    await hotel.people.kick_bot(hotel.guild)
    async with refused(50001, 403):
        await requester.post(hotel.channel, {"content": "x"})
    await hotel.people.delete_channel(hotel.guild.members[hotel.guild.owner_id], hotel.channel)
    async with refused(10003, 404):
        await requester.post(hotel.channel, {"content": "x"})


async def test_a_role_and_a_member_overwrite_win_over_everyone(hotel: Hotel, requester: Client, refused: Refused) -> None:
    people = hotel.people
    await people.set_overwrite(hotel.channel, hotel.guild.everyone, deny=Permission.SEND_MESSAGES)
    async with refused(50013):
        await requester.post(hotel.channel, {"content": "x"})
    role = await people.create_role(hotel.guild, "speakers")
    await people.set_roles(hotel.guild.members[people.bot.id], [role])
    await people.set_overwrite(hotel.channel, role, allow=Permission.SEND_MESSAGES)
    await requester.post(hotel.channel, {"content": "x"})
    await people.set_overwrite(hotel.channel, people.bot, deny=Permission.SEND_MESSAGES)
    async with refused(50013):
        await requester.post(hotel.channel, {"content": "x"})


async def test_people_are_held_to_the_same_rules(hotel: Hotel) -> None:
    await hotel.people.set_overwrite(hotel.channel, hotel.alice, deny=Permission.SEND_MESSAGES)
    with pytest.raises(ApiError) as info:
        await hotel.people.say(hotel.channel, hotel.alice, "x")
    assert info.value.code is Code.MISSING_PERMISSIONS
    with pytest.raises(ApiError):
        await hotel.people.say(hotel.channel, hotel.bob, "x" * 2001)


async def test_the_log_knows_whom_each_message_pings(hotel: Hotel, requester: Client) -> None:
    people = hotel.people
    role = await people.create_role(hotel.guild, "oncall", mentionable=True)
    shy = await people.create_role(hotel.guild, "shy")
    words = f"<@{hotel.alice.id}> <@&{role.id}> <@&{shy.id}> @everyone `<@{hotel.bob.id}>`"
    await requester.post(hotel.channel, {"content": words})
    await requester.post(hotel.channel, {"content": words, "allowed_mentions": {"parse": []}})
    await requester.post(hotel.channel, {"content": words, "allowed_mentions": {"parse": [], "users": [str(hotel.bob.id)]}})
    await people.set_roles(hotel.guild.members[people.bot.id], [await people.create_role(hotel.guild, "loud", Permission.MENTION_EVERYONE)])
    await requester.post(hotel.channel, {"content": words})
    pings = [one.pings for one in people.messages(hotel.channel)]
    assert pings[0] == Pings(frozenset({hotel.alice.id}), frozenset({role.id}))
    assert not pings[1]
    assert not pings[2]
    assert pings[3] == Pings(frozenset({hotel.alice.id}), frozenset({role.id, shy.id}), everyone=True)
    logged = hotel.discord.log.of("message.create")[0].detail["pings"]
    assert logged == {"users": [hotel.alice.id], "roles": [role.id], "everyone": False}


async def test_a_reply_pings_its_author_unless_told_not_to(hotel: Hotel, client: Client) -> None:
    message = await hotel.people.say(hotel.channel, hotel.alice, "hello")
    heard = await client.next_message()
    await heard.reply("loud")
    await heard.reply("quiet", mention_author=False)
    loud, quiet = hotel.people.messages(hotel.channel)[-2:]
    assert loud.pings.users == {hotel.alice.id}
    assert not quiet.pings
    assert loud.reply_to == quiet.reply_to == message.id


async def test_without_the_content_intent_only_dms_mentions_and_own_messages_have_text(lobby: Lobby) -> None:
    hotel = await lobby.open(LoopbackConfig(privileged_intents=Intent.NONE))
    client = await lobby.connect(hotel, intents=discord.Intents.default())
    people = hotel.people
    await people.say(hotel.channel, hotel.alice, "plain", attachments={"a.txt": "x"})
    await people.say(hotel.channel, hotel.alice, f"<@{people.bot.id}> to you")
    await people.direct(hotel.alice.user, "private")
    await client.text_channel(hotel.channel).send("own")
    heard = [await client.next_message() for _ in range(4)]
    assert [one.content for one in heard] == ["", f"<@{people.bot.id}> to you", "private", "own"]
    assert heard[0].attachments == []
    history = [one.content async for one in client.text_channel(hotel.channel).history(oldest_first=True)]
    assert history == ["", f"<@{people.bot.id}> to you", "own"]


async def test_files_travel_both_ways(hotel: Hotel, client: Client, refused: Refused) -> None:
    await hotel.people.say(hotel.channel, hotel.alice, attachments={"log.txt": "it broke"})
    heard = await client.next_message()
    assert (heard.content, heard.attachments[0].filename, await heard.attachments[0].read()) == ("", "log.txt", b"it broke")
    channel = client.text_channel(hotel.channel)
    await channel.send(file=discord.File(__file__, filename="test.py"))
    assert hotel.people.messages(hotel.channel)[-1].attachments[0].filename == "test.py"
    async with refused(40005, 413):
        await channel.send(file=discord.File(io.BytesIO(bytes(11 * 1024 * 1024)), filename="big"))


async def test_edits_deletions_and_reactions_reach_the_client(hotel: Hotel, client: Client) -> None:
    message = await hotel.people.say(hotel.channel, hotel.alice, "frist")
    heard = await client.next_message()
    await hotel.people.edit(message, "first")
    await hotel.people.unfurl(message, "a page")
    await hotel.people.react(message, hotel.bob, "👍")
    await hotel.people.unreact(message, hotel.bob, "👍")
    await hotel.people.type_in(hotel.channel, hotel.bob)
    await hotel.people.delete(message)
    await hotel.people.say(hotel.channel, hotel.alice, "end")
    await client.next_message()
    assert heard.content == "first"
    assert heard.embeds[0].title == "a page"
    assert client.names[-7:] == [
        "MESSAGE_UPDATE",
        "MESSAGE_UPDATE",
        "MESSAGE_REACTION_ADD",
        "MESSAGE_REACTION_REMOVE",
        "TYPING_START",
        "MESSAGE_DELETE",
        "MESSAGE_CREATE",
    ]


async def test_the_bot_edits_and_deletes_only_what_it_may(hotel: Hotel, client: Client, refused: Refused) -> None:
    await hotel.people.say(hotel.channel, hotel.alice, "hers")
    heard = await client.next_message()
    async with refused(50005, 403):
        await heard.edit(content="mine")
    async with refused(50013, 403):
        await heard.delete()
    own = await client.text_channel(hotel.channel).send("draft")
    await own.edit(content="final")
    assert hotel.people.texts(hotel.channel) == ["hers", "final"]
    async with refused(50006):
        await own.edit(content="")
    await own.delete()
    async with refused(10008, 404):
        await own.edit(content="gone")


async def test_reactions_are_refused_without_right_or_emoji(hotel: Hotel, client: Client, refused: Refused) -> None:
    message = await hotel.people.say(hotel.channel, hotel.alice, "hello")
    heard = await client.next_message()
    await heard.add_reaction("👀")
    await heard.add_reaction("👀")
    assert message.reactions == {"👀": [hotel.people.bot.id]}
    async with refused(10014):
        await heard.add_reaction("eyes")
    await hotel.people.set_overwrite(hotel.channel, hotel.people.bot, deny=Permission.ADD_REACTIONS)
    async with refused(50013):
        await heard.add_reaction("✅")
    await heard.remove_reaction("👀", discord.Object(hotel.people.bot.id))
    assert message.reactions == {}


async def test_direct_messages_go_both_ways_unless_they_are_closed(hotel: Hotel, client: Client, refused: Refused) -> None:
    await hotel.people.direct(hotel.alice.user, "psst")
    heard = await client.next_message()
    assert (heard.guild, heard.content) == (None, "psst")
    await heard.channel.send("yes?")
    assert hotel.people.texts(hotel.people.direct_channel(hotel.alice.user)) == ["psst", "yes?"]
    hotel.alice.user.accepts_dms = False
    async with refused(50007, 403):
        await heard.channel.send("hello?")
    user = await client.fetch_user(hotel.bob.id)
    await user.send("a new one")
    assert hotel.people.texts(hotel.people.direct_channel(hotel.bob.user)) == ["a new one"]


async def test_bots_webhooks_and_system_messages_can_be_told_from_people(hotel: Hotel, client: Client) -> None:
    robot = await hotel.people.join(hotel.guild, await hotel.people.create_user("robot", bot=True))
    await hotel.people.say(hotel.channel, robot, "beep")
    await hotel.people.webhook_say(hotel.channel, "ci", "build failed")
    await hotel.people.system_message(hotel.channel, hotel.alice)
    beep, hook, joined = [await client.next_message() for _ in range(3)]
    assert (beep.author.bot, beep.webhook_id) == (True, None)
    assert hook.webhook_id is not None
    assert joined.type is discord.MessageType.new_member


async def test_typing_is_seen(hotel: Hotel, client: Client) -> None:
    async with client.text_channel(hotel.channel).typing():
        record = await hotel.discord.log.wait_kind("typing")
    assert (record.channel_id, record.bot) == (hotel.channel.id, True)


async def test_guild_rows_can_be_fetched(hotel: Hotel, client: Client, refused: Refused) -> None:
    guild = await client.fetch_guild(hotel.guild.id)
    assert [one.name for one in await guild.fetch_channels()] == ["backend"]
    assert (await guild.fetch_member(hotel.alice.id)).name == "alice"
    members = await client.http.get_members(guild.id, 1000, None)
    assert {one["user"]["username"] for one in members} == {"alice", "bob", "hotel-owner", "nightporter"}
    async with refused(10013):
        await guild.fetch_member(1)
    async with refused(10004):
        await client.fetch_guild(1)


async def test_somebody_with_nitro_writes_4000_characters_and_not_one_more(hotel: Hotel, client: Client) -> None:
    rich = await hotel.people.join(hotel.guild, await hotel.people.create_user("rich", nitro=True))
    await hotel.people.say(hotel.channel, rich, "x" * 4000)
    assert len((await client.next_message()).content) == 4000
    with pytest.raises(ApiError):
        await hotel.people.say(hotel.channel, rich, "x" * 4001)


async def test_events_come_only_with_their_intent(lobby: Lobby, hotel: Hotel) -> None:
    client = await lobby.connect(hotel, intents=discord.Intents(guilds=True, guild_messages=True))
    message = await hotel.people.say(hotel.channel, hotel.alice, "x")
    await hotel.people.react(message, hotel.bob, "👍")
    await hotel.people.type_in(hotel.channel, hotel.bob)
    await hotel.people.direct(hotel.alice.user, "psst")
    await hotel.people.join(hotel.guild, "carol")
    await hotel.people.delete(message)
    await hotel.people.say(hotel.channel, hotel.alice, "end")
    for _ in range(2):
        await client.next_message()
    assert client.names[-3:] == ["MESSAGE_CREATE", "MESSAGE_DELETE", "MESSAGE_CREATE"]


async def test_without_the_right_to_view_nothing_else_is_left(hotel: Hotel) -> None:
    await hotel.people.set_overwrite(hotel.channel, hotel.alice, allow=Permission.SEND_MESSAGES, deny=Permission.VIEW_CHANNEL)
    assert hotel.discord.world.rights(hotel.alice.id, hotel.channel) is Permission.NONE


async def test_a_body_of_another_shape_is_refused_and_noted(hotel: Hotel, requester: Client, refused: Refused) -> None:
    async with refused(50035, 400):
        await requester.post(hotel.channel, {"embeds": ["no embed"]})
    assert len(hotel.discord.log.of("request.malformed")) == 1
