"""Commands and buttons as people meet them: who may, what is said, and that the deed does not hang on the acknowledgement."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import discord
import pytest

from bot.loopback.discord import Interaction, Member, Message
from bot.loopback.discord.errors import Code
from storage import events as e
from storage.errors import Impossible, NotStored
from storage.models import Continuation, Part, PartId, PartKind, Run
from storage.states import ContinuationState, PartState, PromptState, RunState, SessionState
from tests.support.gateway_house import Hotel
from tests.support.storage import Driver, Time

CALLBACK = ("POST", "/interactions/{interaction_id}/{token}/callback")


def driver(hotel: Hotel) -> Driver:
    return Driver(hotel.backend.store, Time(hotel.clock.now_ms()))


async def conversation_id(hotel: Hotel) -> Any:
    found = await hotel.backend.conversation(hotel.channel.id)
    assert found is not None
    return found.id


async def pending(hotel: Hotel, by: Member | None = None) -> Continuation:
    """A wait that is armed, of alice if nobody else is named."""
    drive = driver(hotel)
    run = await drive.running(await conversation_id(hotel), author_id=(by or hotel.alice).id, author_name="alice")
    asked = await drive.wait(run)
    await drive.settle(run)
    return await drive.continuation(asked.id)


async def ended(hotel: Hotel, outcome: Any = RunState.INTERRUPTED) -> Run:
    drive = driver(hotel)
    run = await drive.running(await conversation_id(hotel), author_id=hotel.alice.id)
    await drive.settle(run, outcome)
    return await drive.run(run.id)


async def slash(hotel: Hotel, path: str, who: Member | None = None, **options: Any) -> Interaction:
    return await hotel.people.slash(hotel.channel, who or hotel.alice, path, options)


async def said(hotel: Hotel, path: str, who: Member | None = None, **options: Any) -> str:
    """What the person reads, and nobody else does."""
    answer = await (await slash(hotel, path, who, **options)).answer()
    assert answer.ephemeral
    return answer.content + "".join(embed.get("description", "") for embed in answer.embeds)


async def notice(hotel: Hotel, verb: str, subject: int, label: str = "Go") -> Message:
    """A notice with a button, posted as the outbox does."""
    stored = json.dumps([{"label": label, "style": "primary", "custom_id": f"np:{verb}:{subject}"}])
    made = Part(
        PartId(1), await conversation_id(hotel), hotel.channel.id, 1, PartKind.NOTICE, PartState.SENDING, "?", f"{verb}{subject}", 0
    )
    object.__setattr__(made, "components", stored)
    await hotel.gateway.chat.send(made, 5)
    return await hotel.people.wait_message(hotel.channel, lambda row: bool(row.components))


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


@pytest.mark.parametrize("verb", ["resume", "continue", "offer-run"])
async def test_a_button_in_a_channel_that_is_bound_no_more_does_not_set_the_agent_to_work(hotel: Hotel, verb: str) -> None:
    await hotel.up()
    run = await ended(hotel)
    subject = run.id if verb == "resume" else run.conversation_id
    message = await notice(hotel, verb, subject)
    await hotel.down()
    lobby = await hotel.people.create_channel(hotel.guild, "lobby")
    hotel.bound = [lobby.id]
    since = len(hotel.discord.log)
    await hotel.start()
    await hotel.discord.log.wait_kind("gateway.identify", since=since)
    pressed = await hotel.people.click(message, hotel.alice, f"np:{verb}:{subject}")
    assert "not connected to a project" in (await pressed.followup()).content
    assert [name for name, _ in hotel.backend.calls if name in {"resume", "attend", "choose"}] == []


async def test_a_press_that_meets_a_fault_is_answered(hotel: Hotel) -> None:
    await hotel.up()
    run = await ended(hotel)
    message = await notice(hotel, "resume", run.id)
    # The notice itself is heard too; the fault is for the press.
    await hotel.backend.until(lambda: any(seen_id == message.id for seen_id, *_ in hotel.backend.named("seen")))
    hotel.backend.failures.append(Impossible("a row that cannot be"))
    pressed = await hotel.people.click(message, hotel.alice, f"np:resume:{run.id}")
    assert "made a mistake" in (await pressed.followup()).content


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


async def test_resume_works_after_a_restart_once_and_its_button_goes_away(hotel: Hotel) -> None:
    await hotel.up()
    run = await ended(hotel)
    message = await notice(hotel, "resume", run.id)
    await hotel.down()
    await hotel.up()
    first = await hotel.people.click(message, hotel.alice, f"np:resume:{run.id}")
    assert (await first.followup()).content == "The agent goes on."
    await hotel.discord.log.wait_for(lambda record: record.kind == "message.edit" and record.message_id == message.id)
    assert message.components == []
    (call,) = hotel.backend.named("resume")
    assert call[0] == run.id


async def test_a_second_press_says_that_it_was_done(hotel: Hotel) -> None:
    await hotel.up()
    run = await ended(hotel)
    message = await notice(hotel, "resume", run.id)
    # The buttons cannot be taken away this time, so somebody presses again.
    hotel.discord.faults.status("PATCH", "/webhooks/{webhook_id}/{token}/messages/{message_id}", 400)
    await (await hotel.people.click(message, hotel.alice, f"np:resume:{run.id}")).followup()
    second = await hotel.people.click(message, hotel.admin, f"np:resume:{run.id}")
    assert "already" in (await second.followup()).content
    outcomes = [outcome for *_, outcome in hotel.backend.named("resume")]
    assert isinstance(outcomes[0], e.Refusal) is False
    assert outcomes[1] == e.Refusal(e.Code.DUPLICATE)


@pytest.mark.parametrize("verb", ["offer-run", "offer-discard"])
async def test_what_catch_up_offered_is_run_or_discarded(hotel: Hotel, verb: str) -> None:
    await hotel.up()
    conversation = await conversation_id(hotel)
    drive = driver(hotel)
    old = await drive.prompt(conversation, source="catch_up", ordered_ms=drive.time.ms - 9_000_000)
    assert old.state is PromptState.OFFERED
    message = await notice(hotel, verb, conversation)
    await (await hotel.people.click(message, hotel.alice, f"np:{verb}:{conversation}")).followup()
    found = await hotel.backend.prompt(old.id)
    assert found is not None
    assert found.state is (PromptState.WAITING if verb == "offer-run" else PromptState.WITHDRAWN)


async def test_continue_and_discard_answer_and_go_away(hotel: Hotel) -> None:
    await hotel.up()
    run = await ended(hotel)
    conversation = await conversation_id(hotel)
    for verb, subject in (("continue", conversation), ("discard", run.id)):
        message = await notice(hotel, verb, subject)
        since = len(hotel.discord.log)
        assert (await (await hotel.people.click(message, hotel.alice, f"np:{verb}:{subject}")).followup()).content
        await hotel.discord.log.wait_kind("message.edit", since=since)
        assert message.components == []
    assert len(hotel.backend.named("attend")) == 1


async def test_only_an_admin_has_a_parked_agent_tried(hotel: Hotel) -> None:
    await hotel.up()
    drive, conversation = driver(hotel), await conversation_id(hotel)
    run = await drive.running(conversation)
    await drive.done(replace(drive.settle_event(run, RunState.FAILED), park_until_ms=drive.time.ms + 3_600_000))
    message = await notice(hotel, "try-now", conversation)
    custom_id = f"np:try-now:{conversation}"
    assert "Only an admin" in (await (await hotel.people.click(message, hotel.alice, custom_id)).answer()).content
    assert hotel.backend.named("unpark") == []
    pressed = await hotel.people.click(message, hotel.admin, custom_id)
    assert (await pressed.followup()).content == "The agent is tried now."
    await hotel.discord.log.wait_for(lambda record: record.kind == "message.edit" and record.message_id == message.id)
    found = await hotel.backend.conversation_by_id(conversation)
    assert found is not None
    assert found.not_before_ms == 0


async def test_only_an_admin_gives_up_a_turn_that_cannot_be_ended(hotel: Hotel) -> None:
    await hotel.up()
    run = await driver(hotel).running(await conversation_id(hotel))
    message = await notice(hotel, "give-up", run.id)
    assert "Only an admin" in (await (await hotel.people.click(message, hotel.alice, f"np:give-up:{run.id}")).answer()).content
    assert hotel.backend.named("give_up") == []
    pressed = await hotel.people.click(message, hotel.admin, f"np:give-up:{run.id}")
    assert (await pressed.followup()).content == "It was given up; what waited goes on."
    found = await hotel.backend.store.runs.by_id(run.id)
    assert found is not None
    assert found.state is RunState.INTERRUPTED


async def test_a_stranger_presses_in_vain(hotel: Hotel) -> None:
    await hotel.up()
    run = await ended(hotel)
    message = await notice(hotel, "resume", run.id)
    pressed = await hotel.people.click(message, hotel.stranger, f"np:resume:{run.id}")
    answer = await pressed.answer()
    assert "not on the list" in answer.content
    assert answer.ephemeral
    assert hotel.backend.named("resume") == []


async def test_a_button_that_nobody_knows_any_more_says_so(hotel: Hotel) -> None:
    await hotel.up()
    message = await notice(hotel, "juggle", 1)
    answer = await (await hotel.people.click(message, hotel.alice, "np:juggle:1")).answer()
    assert answer.ephemeral
    assert "no longer available" in answer.content


async def test_a_button_of_another_conversation_does_nothing(hotel: Hotel) -> None:
    await hotel.up()
    drive = driver(hotel)
    elsewhere = await drive.bind(channel_id=5, folder="/elsewhere")
    run = await drive.running(elsewhere.id)
    await drive.settle(run, RunState.INTERRUPTED)
    message = await notice(hotel, "resume", run.id)
    pressed = await hotel.people.click(message, hotel.admin, f"np:resume:{run.id}")
    assert "no longer available" in (await pressed.followup()).content
    assert hotel.backend.named("resume") == []


async def test_a_button_acts_although_its_acknowledgement_failed(hotel: Hotel) -> None:
    await hotel.up()
    run = await ended(hotel)
    message = await notice(hotel, "resume", run.id)
    hotel.discord.faults.refuse(*CALLBACK, Code.UNKNOWN_INTERACTION)
    await hotel.people.click(message, hotel.alice, f"np:resume:{run.id}")
    told = await hotel.people.wait_message(hotel.channel, after=message)
    assert "The agent goes on." in told.content
    assert len(hotel.backend.named("resume")) == 1
