"""What the tests of commands and buttons begin with: a wait, a turn that has ended, a notice with a button."""

from __future__ import annotations

import json
from typing import Any

from bot.loopback.discord import Member, Message
from storage.models import Continuation, Part, PartId, PartKind, Run
from storage.states import PartState, RunState
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


async def notice(hotel: Hotel, verb: str, subject: int, label: str = "Go") -> Message:
    """A notice with a button, posted as the outbox does."""
    stored = json.dumps([{"label": label, "style": "primary", "custom_id": f"np:{verb}:{subject}"}])
    made = Part(
        PartId(1), await conversation_id(hotel), hotel.channel.id, 1, PartKind.NOTICE, PartState.SENDING, "?", f"{verb}{subject}", 0
    )
    object.__setattr__(made, "components", stored)
    await hotel.gateway.chat.send(made, 5)
    return await hotel.people.wait_message(hotel.channel, lambda row: bool(row.components))
