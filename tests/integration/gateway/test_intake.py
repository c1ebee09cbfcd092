"""What is heard, what is not, and into which conversation it goes; with the real client against the loopback Discord."""

from __future__ import annotations

import asyncio

import pytest

from bot.loopback.discord import Permission
from storage.errors import NotStored
from storage.states import PromptState
from tests.support.gateway_house import Hotel


async def test_a_message_that_mentions_the_bot_becomes_a_prompt_once(hotel: Hotel) -> None:
    await hotel.up()
    message = await hotel.say(f"{hotel.me} run the tests")
    await hotel.backend.until(lambda: bool(hotel.backend.accepted))
    (heard,) = hotel.backend.accepted
    assert (heard.text, heard.message_id, heard.author_name, heard.addressed) == ("run the tests", message.id, "alice", True)
    assert heard.caught_up


async def test_an_event_that_is_sent_again_is_no_second_prompt(hotel: Hotel) -> None:
    await hotel.up()
    hotel.discord.gateway.duplicate_next("MESSAGE_CREATE")
    await hotel.say(f"{hotel.me} deploy")
    await hotel.backend.until(lambda: len(hotel.backend.named("accept")) == 2)
    assert hotel.backend.named("accept") == [("deploy", "Accepted"), ("deploy", "Duplicate")]


async def test_two_messages_with_the_same_text_are_two_prompts(hotel: Hotel) -> None:
    await hotel.up()
    await hotel.say(f"{hotel.me} yes")
    await hotel.say(f"{hotel.me} yes")
    await hotel.backend.until(lambda: len(hotel.backend.accepted) == 2)


async def test_what_is_not_for_the_agent_is_met_with_silence(hotel: Hotel) -> None:
    await hotel.up()
    elsewhere = await hotel.people.create_channel(hotel.guild, "lobby")
    other_guild = await hotel.people.create_guild("elsewhere")
    foreign = await hotel.people.create_channel(other_guild, "backend")
    alice_there = await hotel.people.join(other_guild, hotel.alice.user)
    robot = await hotel.people.join(hotel.guild, await hotel.people.create_user("robot", bot=True))
    await hotel.say("to nobody")
    await hotel.say(f"{hotel.me} let me in", who=hotel.stranger)
    await hotel.say(f"{hotel.me} hello", who=robot)
    await hotel.people.webhook_say(hotel.channel, "ci", f"{hotel.me} failed")
    await hotel.people.system_message(hotel.channel, hotel.alice)
    await hotel.say(f"{hotel.me} hello", channel=elsewhere)
    await hotel.say(f"{hotel.me} hello", channel=foreign, who=alice_there)
    await hotel.people.direct(hotel.alice.user, "psst")
    last = await hotel.say(f"{hotel.me} the last one")
    await hotel.backend.until(lambda: bool(hotel.backend.accepted))
    assert [heard.text for heard in hotel.backend.accepted] == ["the last one"]
    assert hotel.people.texts(hotel.channel, by=hotel.people.bot) == []
    assert await hotel.mark() == last.id


async def test_a_message_that_nobody_answers_still_moves_the_mark(hotel: Hotel) -> None:
    await hotel.up()
    message = await hotel.say("to nobody")
    await hotel.backend.until(lambda: bool(hotel.backend.named("seen")))
    assert await hotel.mark() == message.id


async def test_where_it_listens_to_all_a_message_needs_no_mention_and_is_not_addressed(hotel: Hotel) -> None:
    hotel.listen = "all"
    await hotel.up()
    await hotel.say("what about lunch")
    await hotel.backend.until(lambda: bool(hotel.backend.accepted))
    assert not hotel.backend.accepted[0].addressed


async def test_a_reply_to_the_bot_is_addressed_and_names_what_it_replies_to(hotel: Hotel) -> None:
    await hotel.up()
    assert hotel.gateway.bot is not None
    mine = await hotel.gateway.bot.get_partial_messageable(hotel.channel.id).send("tests are green")
    row = hotel.channel.messages[mine.id]
    await hotel.say("and lint?", reply_to=row, ping_reply=False)
    await hotel.backend.until(lambda: bool(hotel.backend.accepted))
    (heard,) = hotel.backend.accepted
    assert heard.addressed
    assert heard.reply_to is not None
    assert heard.reply_to.text == "tests are green"


@pytest.mark.parametrize("text", ["", "see"])
async def test_a_file_reaches_the_agent_by_name_and_its_author_is_told_that_it_is_not_read(hotel: Hotel, text: str) -> None:
    await hotel.up()
    await hotel.say(f"{hotel.me} {text}", attachments={"shot.png": b"x"})
    await hotel.backend.until(lambda: bool(hotel.backend.accepted))
    assert '"shot.png"' in hotel.backend.accepted[0].text
    assert hotel.backend.accepted[0].text.startswith(text or "(sent without a text)")
    told = await hotel.people.wait_message(hotel.channel)
    assert "cannot read files yet" in told.content


async def test_a_long_message_of_four_thousand_characters_is_one_prompt(hotel: Hotel) -> None:
    await hotel.up()
    hotel.alice.user.nitro = True
    await hotel.say(f"{hotel.me} " + "x" * 3_900)
    await hotel.backend.until(lambda: bool(hotel.backend.accepted))
    assert hotel.backend.accepted[0].text == "x" * 3_900


async def test_an_edit_counts_while_the_message_waits_and_a_preview_is_no_edit(hotel: Hotel) -> None:
    await hotel.up()
    message = await hotel.say(f"{hotel.me} fix lgoin https://example.com")
    await hotel.people.unfurl(message, "a preview")
    await hotel.people.edit(message, f"{hotel.me} fix login")
    await hotel.backend.until(lambda: bool(hotel.backend.named("edited")))
    prompt = await hotel.backend.store.prompts.by_source_key(f"message:{message.id}")
    assert prompt is not None
    assert prompt.text == "fix login"
    assert len(hotel.backend.named("edited")) == 1


async def test_a_deleted_message_is_withdrawn_while_it_waits(hotel: Hotel) -> None:
    await hotel.up()
    message = await hotel.say(f"{hotel.me} rm the prod table")
    await hotel.people.delete(message)
    await hotel.backend.until(lambda: bool(hotel.backend.named("deleted")))
    prompt = await hotel.backend.store.prompts.by_source_key(f"message:{message.id}")
    assert prompt is not None
    assert prompt.state is PromptState.WITHDRAWN


async def test_a_thread_is_a_conversation_of_its_own_in_its_parents_project(hotel: Hotel) -> None:
    await hotel.up()
    thread = await hotel.people.create_thread(hotel.channel, hotel.alice, "login bug")
    await hotel.say("only talking", channel=thread)
    await hotel.say(f"{hotel.me} look at this", channel=thread)
    await hotel.backend.until(lambda: bool(hotel.backend.accepted))
    own = await hotel.backend.conversation(thread.id)
    parent = await hotel.backend.conversation(hotel.channel.id)
    assert own is not None
    assert parent is not None
    assert own.id != parent.id
    assert own.project == "backend"
    assert [heard.text for heard in hotel.backend.accepted] == ["look at this"]


async def test_a_channel_is_looked_at_in_order_even_when_storing_takes_time(hotel: Hotel) -> None:
    await hotel.up()
    for number in range(20):
        await hotel.say(f"{hotel.me} {number}")
    await hotel.backend.until(lambda: len(hotel.backend.accepted) == 20)
    assert [heard.text for heard in hotel.backend.accepted] == [str(number) for number in range(20)]


async def test_our_own_message_comes_back_as_a_receipt_and_is_no_prompt(hotel: Hotel) -> None:
    await hotel.up()
    assert hotel.gateway.bot is not None
    sent = await hotel.gateway.bot.get_partial_messageable(hotel.channel.id).send("hello", nonce="abc123")
    await hotel.backend.until(lambda: bool(hotel.backend.echoes))
    assert hotel.backend.echoes == [("abc123", sent.id, hotel.channel.id)]
    assert hotel.backend.accepted == []


async def test_where_every_message_is_heard_everybody_is_told_that_it_could_not_be_stored(hotel: Hotel) -> None:
    hotel.listen = "all"
    await hotel.up()
    hotel.backend.failures.append(NotStored("disk full"))
    first = await hotel.say("first")
    told = await hotel.people.wait_message(hotel.channel)
    assert told.reply_to == first.id
    assert "cannot store" in told.content


async def test_what_could_not_be_stored_is_fetched_again_and_not_lost(hotel: Hotel) -> None:
    await hotel.up()
    hotel.backend.failures.append(NotStored("disk full"))
    first = await hotel.say(f"{hotel.me} first")
    await hotel.say(f"{hotel.me} second")
    await hotel.backend.until(lambda: len(hotel.backend.accepted) == 2)
    assert sorted(heard.text for heard in hotel.backend.accepted) == ["first", "second"]
    told = await hotel.people.wait_message(hotel.channel)
    assert told.reply_to == first.id
    assert "cannot store" in told.content


async def test_roles_let_in_and_people_without_any_stay_out(hotel: Hotel) -> None:
    hotel.alice, hotel.stranger = hotel.stranger, hotel.alice
    await hotel.up()
    await hotel.say(f"{hotel.me} as the admin", who=hotel.admin)
    await hotel.backend.until(lambda: bool(hotel.backend.accepted))
    assert hotel.backend.accepted[0].author_name == "boss"


async def test_a_channel_that_the_bot_may_not_read_back_is_still_answered(hotel: Hotel) -> None:
    await hotel.people.set_overwrite(hotel.channel, hotel.guild.everyone, deny=Permission.READ_MESSAGE_HISTORY)
    await hotel.up()
    await hotel.say(f"{hotel.me} hello")
    await hotel.backend.until(lambda: bool(hotel.backend.accepted))
    await asyncio.sleep(0)


async def test_a_direct_message_is_heard_where_its_channel_is_configured_and_needs_no_mention(hotel: Hotel) -> None:
    direct = hotel.people.direct_channel(hotel.alice.user)
    hotel.more_channels = [direct.id]
    await hotel.up()
    await hotel.people.direct(hotel.alice.user, "good evening")
    await hotel.backend.until(lambda: bool(hotel.backend.accepted))
    (heard,) = hotel.backend.accepted
    assert (heard.text, heard.channel_id, heard.addressed) == ("good evening", direct.id, True)


async def test_a_bare_mention_reaches_the_agent(hotel: Hotel) -> None:
    await hotel.up()
    await hotel.say(hotel.me)
    await hotel.backend.until(lambda: bool(hotel.backend.accepted))
    assert hotel.backend.accepted[0].text == "(mentioned you without a text)"
