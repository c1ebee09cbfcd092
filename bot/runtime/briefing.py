"""Gathers from the database what a prompt tells: receipts, ends of waits, the armed wait, why it is woken."""

from __future__ import annotations

from dataclasses import dataclass

from bot.runtime import prompting, receipts
from bot.runtime.resumes import chain_of
from bot.runtime.services import Services
from bot.runtime.timing import beat_within
from storage.models import ContinuationId, Conversation, Part, Prompt, PromptKind, Run, RunId, Session
from storage.states import ContinuationState


@dataclass(frozen=True, slots=True)
class Brief:
    """The prompt, and what it tells for the first and only time."""

    text: str
    told_runs: tuple[RunId, ...]
    told_continuations: tuple[ContinuationId, ...]
    prompts: tuple[Prompt, ...]


async def brief(services: Services, conversation: Conversation, session: Session, run: Run) -> Brief:
    """Everything for the prompt of a claimed run; waits a moment for an answer in flight. Raises StorageError."""
    store = services.store
    due = await store.runs.receipts_due(conversation.id)
    # Only turns of this very session mean anything to the agent; the others are ticked off with them.
    known = [r for r in due if r.session_id == session.id and r.dispatched_ms is not None]
    parts = await _settled_parts(services, known)
    channel = receipts.Channel(services.chat.channel_name(conversation.channel_id), services.unreachable_since_ms(conversation.channel_id))
    lines = [line for earlier in known[:-1] for line in receipts.of_earlier(earlier, parts[earlier.id], channel)]
    lines += [line for last in known[-1:] for line in receipts.of_run(last, parts[last.id], channel)]
    untold = await store.continuations.untold(conversation.id)
    live = await store.continuations.live(conversation.id)
    prompts = await store.prompts.of_run(run.id)
    briefing = prompting.Briefing(
        now_ms=services.clock.now_ms(),
        receipts=tuple(lines),
        ended=tuple(c for c in untold if c.session_id == session.id),
        pending=next((c for c in live if c.state is ContinuationState.PENDING), None),
        prompts=prompts,
        woken=await _woken(services, conversation, prompts),
        original=await _original(services, session, prompts),
    )
    # What is still on its way is told again once its fate is known.
    told = tuple(r.id for r in due if not receipts.in_flight(parts.get(r.id, ())))
    return Brief(prompting.write(briefing), told, tuple(c.id for c in untold), prompts)


async def _settled_parts(services: Services, runs: list[Run]) -> dict[RunId, tuple[Part, ...]]:
    """The parts of the runs; if some are being sent and can be, after a moment's patience."""
    until_s = services.clock.monotonic_s() + services.config.receipt_wait_s
    while True:
        beat = services.ledger.parts_ended.next()
        parts = {run.id: await services.store.outbox.of_run(run.id) for run in runs}
        flying = services.chat.ready and any(receipts.in_flight(found) for found in parts.values())
        left_s = until_s - services.clock.monotonic_s()
        if not flying or left_s <= 0:
            beat.cancel()
            return parts
        await beat_within(beat, services.clock, left_s)


async def _woken(services: Services, conversation: Conversation, prompts: tuple[Prompt, ...]) -> prompting.Woken | None:
    wake = next((p for p in prompts if p.kind is PromptKind.WAKE and p.continuation_id is not None), None)
    if wake is None or wake.continuation_id is None:
        return None
    continuation = await services.store.continuations.by_id(wake.continuation_id)
    if continuation is None:
        return None
    since = await services.store.prompts.people_since(conversation.id, continuation.asked_ms)
    return prompting.Woken(continuation, since)


async def _original(services: Services, session: Session, prompts: tuple[Prompt, ...]) -> tuple[Prompt, ...]:
    """What a resumed run was about, for a session that cannot know it; a resume of a resume leads to the first request."""
    if session.turns > 0 or not any(p.kind is PromptKind.RESUME for p in prompts):
        return ()
    return (await chain_of(services.store, prompts)).original
