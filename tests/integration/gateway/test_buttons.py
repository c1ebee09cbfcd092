"""Buttons below notices as people meet them: who may press, what it does, and that the deed does not hang on the acknowledgement."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bot.loopback.discord.errors import Code
from storage import events as e
from storage.errors import Impossible
from storage.states import PromptState, RunState, SessionState
from tests.integration.gateway.scenes import CALLBACK, conversation_id, driver, ended, notice
from tests.support.gateway_house import Hotel


@pytest.mark.parametrize("verb", ["resume", "fresh", "continue", "offer-run"])
async def test_a_button_in_a_channel_that_is_bound_no_more_does_not_set_the_agent_to_work(hotel: Hotel, verb: str) -> None:
    await hotel.up()
    run = await ended(hotel)
    subject = run.id if verb in {"resume", "fresh"} else run.conversation_id
    message = await notice(hotel, verb, subject)
    await hotel.down()
    lobby = await hotel.people.create_channel(hotel.guild, "lobby")
    hotel.bound = [lobby.id]
    since = len(hotel.discord.log)
    await hotel.start()
    await hotel.discord.log.wait_kind("gateway.identify", since=since)
    pressed = await hotel.people.click(message, hotel.alice, f"np:{verb}:{subject}")
    assert "not connected to a project" in (await pressed.followup()).content
    assert [name for name, _ in hotel.backend.calls if name in {"resume", "start_fresh", "attend", "choose"}] == []


async def test_a_press_that_meets_a_fault_is_answered(hotel: Hotel) -> None:
    await hotel.up()
    run = await ended(hotel)
    message = await notice(hotel, "resume", run.id)
    # The notice itself is heard too; the fault is for the press.
    await hotel.backend.until(lambda: any(seen_id == message.id for seen_id, *_ in hotel.backend.named("seen")))
    hotel.backend.failures.append(Impossible("a row that cannot be"))
    pressed = await hotel.people.click(message, hotel.alice, f"np:resume:{run.id}")
    assert "made a mistake" in (await pressed.followup()).content


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


async def test_start_fresh_leaves_the_session(hotel: Hotel) -> None:
    await hotel.up()
    run = await ended(hotel, RunState.FAILED)
    message = await notice(hotel, "fresh", run.id)
    pressed = await hotel.people.click(message, hotel.alice, f"np:fresh:{run.id}")
    assert (await pressed.followup()).content == "The agent goes on in a new session."
    session = await hotel.backend.store.sessions.by_id(run.session_id)
    assert session is not None
    assert session.state is SessionState.ENDED


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
