"""The simulation can fail: each fault planted here, small as it is, is found within a few short stories.

The faults are in the program (a rule, a step, an order), the checks are those of every seed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from bot.runtime import notices, receipts
from bot.runtime.intake import Intake
from bot.runtime.outbox import _Attempt
from bot.runtime.prose import Final
from bot.runtime.recovery import Recovery
from storage.events import Arrive, Insert, Refusal, Seen
from storage.models import Prompt, PromptKind
from storage.rules import waits
from storage.states import PartState
from tests.simulation.discord import Weather
from tests.simulation.world import World, run_seed

#: Many stories until one shows the fault: too many for the default run.
pytestmark = pytest.mark.ci

_TRIES = 12


def found(
    promise: str, scenes: Mapping[str, int], *, weather: Weather | None = None, length: int = 10, crash_at: str | None = None
) -> None:
    """Play short stories until one of them says that this promise is broken."""

    def tweak(world: World) -> None:
        world.scenes, world.length = scenes, length
        world.crash_points = frozenset() if crash_at is None else frozenset({crash_at})
        if weather is not None:
            world.discord.weather = weather

    heard: set[str] = set()
    for seed in range(1, _TRIES + 1):
        broken = run_seed(seed, tweak=tweak).broken
        if any(promise in sentence for sentence in broken):
            return
        heard.update(broken)
    pytest.fail(f"{_TRIES} stories did not find it; they say: {sorted(heard)[:10]}")


def test_a_new_nonce_at_each_attempt_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    real = _Attempt._post  # noqa: SLF001 - the place where the fault is planted

    async def post(self: Any, part: Any) -> Any:
        return await real(self, replace(part, nonce=notices.new_nonce()) if part.attempt > 1 else part)

    monkeypatch.setattr(_Attempt, "_post", post)
    found("P6: the bot posted a message that is no part", {"words": 1}, weather=Weather(lost=30))


def test_posting_before_the_attempt_is_stored_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    real = _Attempt._begin  # noqa: SLF001 - the place where the fault is planted

    async def begin(self: Any) -> Any:
        part = await self._read()
        if part is not None and part.state is PartState.READY and part.attempt == 0:
            await self._services.chat.send(part, 10.0)
        return await real(self)

    monkeypatch.setattr(_Attempt, "_begin", begin)
    found("P6:", {"words": 3, "crash": 2}, length=16, crash_at="C6.before")


def test_a_wake_that_stays_pending_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    real, fired = waits.due, set[int]()

    def due(snap: Any, event: Any, now_ms: int) -> Any:
        outcome = real(snap, event, now_ms)
        if isinstance(outcome, Refusal) or event.continuation_id in fired:
            return outcome
        fired.add(event.continuation_id)
        rows = [(c, c.row) for c in outcome if isinstance(c, Insert) and isinstance(c.row, Prompt)]
        return tuple(replace(c, row=replace(row, source_key=f"{row.source_key}:{now_ms}")) for c, row in rows) or outcome

    monkeypatch.setattr(waits, "due", due)
    found("prompts", {"words": 1})


def test_a_wake_before_its_time_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    real = waits.due

    def due(snap: Any, event: Any, now_ms: int) -> Any:
        return real(snap, event, now_ms + 20_000)

    async def early(self: Any, now_ms: int, limit: int) -> Any:
        return await real_query(self, now_ms + 20_000, limit)

    from storage.continuations import Continuations

    real_query = Continuations.due
    monkeypatch.setattr(waits, "due", due)
    monkeypatch.setattr(Continuations, "due", early)
    found("early", {"words": 1})


def test_a_mark_that_moves_before_the_message_is_stored_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    real = Intake.accept

    async def accept(self: Any, msg: Any) -> Any:
        await self._services.ledger.do(Seen(self._services.instance, msg.conversation_id, msg.message_id, msg.source, msg.caught_up))
        return await real(self, msg)

    monkeypatch.setattr(Intake, "accept", accept)
    found("is lost", {"words": 2, "crash": 3}, length=16)


def test_a_prompt_that_is_queued_again_after_a_crash_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    real = Recovery._settle  # noqa: SLF001 - the place where the fault is planted

    async def settle(self: Any, run: Any, conversation: Any, session: Any) -> None:
        store, ledger = self._services.store, self._services.ledger
        prompts = await store.prompts.of_run(run.id)
        await real(self, run, conversation, session)
        for p in prompts:
            again = Arrive("x", p.conversation_id, PromptKind.USER, p.ordered_ms, p.author_id, p.author_name, p.text, f"again:{p.id}", True)
            await ledger.do(again)

    monkeypatch.setattr(Recovery, "_settle", settle)
    found("handed over 2 times", {"words": 3, "crash": 2}, length=16)


def test_an_answer_that_recovery_forgets_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def forget(_self: Any, prose: Any, _outcome: Any, _parts: Any) -> Final:
        del prose
        return Final((), "")

    monkeypatch.setattr(Recovery, "_unsaid", forget)
    found("of its parts hold it", {"words": 3, "crash": 2}, length=16, crash_at="C5.before")


def test_a_receipt_that_hopes_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def hopes(what: str, parts: Any, channel: Any) -> list[str]:
        count = len(parts)
        return [f"[delivered] {what} → {channel.name} ({count} message{'s' if count > 1 else ''}, 12:00:00Z)"]

    monkeypatch.setattr(receipts, "of_parts", hopes)
    found("and not all were in the channel", {"burst": 3, "words": 2}, weather=Weather(gone=30))
