"""Every kind of event, through SQL: what is done is journalled, and a refusal changes nothing at all."""

from __future__ import annotations

import pytest

from storage import events as e
from storage.events import Code
from tests.support.storage import Driver
from tests.support.storage_steps import HAPPY, KINDS, NEVER_REFUSED, REFUSED, of_nobody


def test_every_kind_of_event_is_tried() -> None:
    assert set(HAPPY) == set(KINDS)
    assert set(REFUSED) | NEVER_REFUSED == set(KINDS)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
async def test_every_event_that_is_done_is_stored_and_journalled(driver: Driver, kind: type) -> None:
    event = await HAPPY[kind](driver)
    before = await driver.everything()
    assert await driver.refused(of_nobody(event)) is Code.NOT_FOUND
    assert await driver.everything() == before
    done = await driver.done(event)
    after = await driver.everything()
    assert before != after
    moved = [c for c in done.changes if not isinstance(c, e.Touch)]
    new = after["journal"][len(before["journal"]) :]
    assert [(row[2], row[3]) for row in new] == [(c.entity, c.row.id if isinstance(c, e.Insert) else c.id) for c in moved]
    assert {row[8] for row in new} <= {event.by}


@pytest.mark.parametrize("kind", REFUSED, ids=lambda kind: kind.__name__)
async def test_every_event_that_is_refused_changes_nothing(driver: Driver, kind: type) -> None:
    step, code = REFUSED[kind]
    event = await step(driver)
    before = await driver.everything()
    assert await driver.refused(event) is code
    assert await driver.everything() == before
