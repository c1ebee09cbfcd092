"""Commands as people meet them: who may, what is said, and that the deed does not hang on the acknowledgement."""

from __future__ import annotations

from typing import Any

import discord
import pytest

from bot.loopback.discord import Interaction, Member
from bot.loopback.discord.errors import Code
from storage.errors import NotStored
from storage.states import ContinuationState, PromptState, SessionState
from tests.integration.gateway.scenes import CALLBACK, conversation_id, driver, pending
from tests.support.gateway_house import Hotel


async def slash(hotel: Hotel, path: str, who: Member | None = None, **options: Any) -> Interaction:
    return await hotel.people.slash(hotel.channel, who or hotel.alice, path, options)


async def said(hotel: Hotel, path: str, who: Member | None = None, **options: Any) -> str:
    """What the person reads, and nobody else does."""
    answer = await (await slash(hotel, path, who, **options)).answer()
    assert answer.ephemeral
    return answer.content + "".join(embed.get("description", "") for embed in answer.embeds)


async def test_the_list_says_who_where_why_and_when(hotel: Hotel) -> None:
    await hotel.up()
    assert await said(hotel, "continuations list") == "Nothing is waiting."
    wait = await pending(hotel)
    text = await said(hotel, "continuations list")
    for part in (f"c{wait.id}", f"<t:{wait.due_at_ms // 1_000}:R>", f"<@{hotel.alice.id}>", f"<#{hotel.channel.id}>", "CI", "turn r"):
        assert part in text


async def test_a_member_cancels_what_he_began(hotel: Hotel) -> None:
    await hotel.up()
    wait = await pending(hotel)
    assert "cancelled" in await said(hotel, "continuations cancel", id=f"c{wait.id}")
    assert (await driver(hotel).continuation(wait.id)).state is ContinuationState.CANCELLED
    assert "already ended" in await said(hotel, "continuations cancel", id=f"c{wait.id}")


async def test_a_member_cannot_cancel_what_somebody_else_began_but_an_admin_can(hotel: Hotel) -> None:
    await hotel.up()
    wait = await pending(hotel, by=hotel.stranger)
    assert "Somebody else" in await said(hotel, "continuations cancel", id=f"c{wait.id}")
    assert (await driver(hotel).continuation(wait.id)).state is ContinuationState.PENDING
    assert "cancelled" in await said(hotel, "continuations cancel", hotel.admin, id=str(wait.id))


async def test_a_wait_can_be_had_now(hotel: Hotel) -> None:
    await hotel.up()
    wait = await pending(hotel)
    assert "due now" in await said(hotel, "continuations wake", id=f"c{wait.id}")
    assert (await driver(hotel).continuation(wait.id)).due_at_ms <= hotel.clock.now_ms()


@pytest.mark.parametrize("typed", ["c999", "nonsense", "-1", "c99999999999999999999", "p1"])
async def test_an_unknown_id_is_one_sentence(hotel: Hotel, typed: str) -> None:
    await hotel.up()
    assert "no wait with that id" in await said(hotel, "continuations cancel", hotel.admin, id=typed)
    assert "no message with that id" not in await said(hotel, "continuations wake", hotel.admin, id=typed)


async def test_a_wait_of_another_guild_does_not_exist_here(hotel: Hotel) -> None:
    await hotel.up()
    foreign = await driver(hotel).pending((await driver(hotel).bind(channel_id=5, folder="/elsewhere")).id)
    assert "no wait with that id" in await said(hotel, "continuations cancel", hotel.admin, id=f"c{foreign.id}")
    assert (await driver(hotel).continuation(foreign.id)).state is ContinuationState.PENDING


async def test_ids_complete_as_you_type_and_only_what_one_may_change(hotel: Hotel) -> None:
    await hotel.up()
    wait = await pending(hotel, by=hotel.stranger)
    found = await hotel.people.autocomplete(hotel.channel, hotel.admin, "continuations cancel", "id", "c")
    assert [choice["value"] for choice in found] == [f"c{wait.id}"]
    assert await hotel.people.autocomplete(hotel.channel, hotel.alice, "continuations cancel", "id", "c") == []
    assert await hotel.people.autocomplete(hotel.channel, hotel.stranger, "continuations cancel", "id", "c") == []


@pytest.mark.parametrize(
    ("path", "options"),
    [
        ("continuations list", {}),
        ("continuations cancel", {"id": "c1"}),
        ("continuations wake", {"id": "c1"}),
        ("status", {}),
        ("stop", {}),
        ("reset", {}),
        ("queue list", {}),
        ("queue remove", {"id": "p1"}),
        ("help", {}),
    ],
)
async def test_a_strangers_command_is_one_private_sentence_and_does_nothing(hotel: Hotel, path: str, options: dict[str, str]) -> None:
    await hotel.up()
    calls = list(hotel.backend.calls)
    assert "not on the list" in await said(hotel, path, hotel.stranger, **options)
    assert hotel.backend.calls == calls


async def test_stop_ends_what_is_there_and_draws_its_line_at_the_command(hotel: Hotel) -> None:
    await hotel.up()
    wait = await pending(hotel)
    interaction = await slash(hotel, "stop")
    assert "Stopped" in (await interaction.answer()).content
    assert (await driver(hotel).continuation(wait.id)).state is ContinuationState.CANCELLED
    stored = await hotel.backend.conversation(hotel.channel.id)
    assert stored is not None
    assert stored.stop_id == interaction.id


async def test_reset_ends_the_session_too(hotel: Hotel) -> None:
    await hotel.up()
    wait = await pending(hotel)
    assert "new session" in await said(hotel, "reset")
    session = await hotel.backend.store.sessions.by_id(wait.session_id)
    assert session is not None
    assert session.state is SessionState.ENDED


async def test_a_member_may_not_stop_what_others_began(hotel: Hotel) -> None:
    await hotel.up()
    await pending(hotel, by=hotel.stranger)
    assert "only an admin" in await said(hotel, "stop")
    assert "Stopped" in await said(hotel, "stop", hotel.admin)


async def test_the_queue_is_listed_and_a_message_is_taken_out_of_it(hotel: Hotel) -> None:
    await hotel.up()
    assert "Nothing waits" in await said(hotel, "queue list")
    await hotel.say(f"{hotel.me} fix *the* bug")
    await hotel.backend.until(lambda: bool(hotel.backend.accepted))
    (prompt,) = await hotel.backend.waiting(await conversation_id(hotel))
    assert f"p{prompt.id}" in await said(hotel, "queue list")
    found = await hotel.people.autocomplete(hotel.channel, hotel.alice, "queue remove", "id", "")
    assert [choice["value"] for choice in found] == [f"p{prompt.id}"]
    assert "no message with that id" in await said(hotel, "queue remove", id="p999")
    assert "out of the queue" in await said(hotel, "queue remove", id=f"p{prompt.id}")
    removed = await hotel.backend.prompt(prompt.id)
    assert removed is not None
    assert removed.state is PromptState.WITHDRAWN


async def test_status_and_help_are_said_in_private(hotel: Hotel) -> None:
    await hotel.up()
    drive = driver(hotel)
    assert "idle" in await said(hotel, "status")
    await drive.running(await conversation_id(hotel), author_id=hotel.alice.id)
    assert "working" in await said(hotel, "status")
    assert "/continuations" in await said(hotel, "help")


async def test_a_channel_without_a_conversation_is_said_to_have_none(hotel: Hotel) -> None:
    await hotel.up()
    lobby = await hotel.people.create_channel(hotel.guild, "lobby")
    answer = await (await hotel.people.slash(lobby, hotel.alice, "status")).answer()
    assert "not connected to a project" in answer.content
    thread = await hotel.people.create_thread(hotel.channel, hotel.alice, "new")
    answer = await (await hotel.people.slash(thread, hotel.alice, "status")).answer()
    assert "Nobody has spoken" in answer.content


async def test_a_strangers_command_that_cannot_be_answered_in_private_is_met_with_silence(hotel: Hotel) -> None:
    await hotel.up()
    since = len(hotel.discord.log)
    bot = hotel.gateway.bot
    assert bot is not None
    # As after an upgrade: Discord still offers a command that is gone.
    bot.tree.remove_command("help", guild=discord.Object(hotel.guild.id))
    bot.tree.remove_command("help")
    hotel.discord.faults.refuse(*CALLBACK, Code.UNKNOWN_INTERACTION)
    await slash(hotel, "help", hotel.stranger)
    hotel.discord.faults.refuse(*CALLBACK, Code.UNKNOWN_INTERACTION)
    await slash(hotel, "help", hotel.alice)
    told = await hotel.people.wait_message(hotel.channel)
    assert told.content.startswith("alice: ")
    posted = hotel.discord.log.of("message.create", since=since)
    assert len(posted) == 1


@pytest.mark.parametrize("code", [Code.UNKNOWN_INTERACTION, Code.ALREADY_ACKNOWLEDGED])
async def test_stop_is_executed_although_its_acknowledgement_failed_and_is_answered_in_the_channel(hotel: Hotel, code: Code) -> None:
    await hotel.up()
    wait = await pending(hotel)
    hotel.discord.faults.refuse(*CALLBACK, code)
    await slash(hotel, "stop")
    told = await hotel.people.wait_message(hotel.channel)
    assert "Stopped" in told.content
    assert not told.pings
    assert (await driver(hotel).continuation(wait.id)).state is ContinuationState.CANCELLED


async def test_what_not_everybody_may_read_is_not_said_in_the_channel(hotel: Hotel) -> None:
    await hotel.up()
    await pending(hotel)
    hotel.discord.faults.refuse(*CALLBACK, Code.UNKNOWN_INTERACTION)
    await slash(hotel, "continuations list")
    told = await hotel.people.wait_message(hotel.channel)
    assert "ask again" in told.content
    assert told.embeds == []


async def test_a_database_that_cannot_be_used_is_one_sentence(hotel: Hotel) -> None:
    await hotel.up()
    hotel.backend.failures.append(NotStored("disk full"))
    assert "cannot use its database" in await said(hotel, "stop")
