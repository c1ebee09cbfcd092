"""For every kind of event: how it comes to be done, and how it comes to be refused."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import fields, replace
from typing import Any, get_args

from storage import events as e
from storage.events import Code, Event
from storage.models import PromptKind
from storage.states import RunState
from tests.support.storage import Driver

Step = Callable[[Driver], Awaitable[Event]]
HAPPY: dict[type, Step] = {}
REFUSED: dict[type, tuple[Step, Code]] = {}


def happy(step: Step) -> Step:
    HAPPY[_class(step)] = step
    return step


def _class(step: Step) -> type:
    return getattr(e, step.__annotations__["return"].removeprefix("e."))  # type: ignore[no-any-return]


def refused(code: Code) -> Callable[[Step], Step]:
    def register(step: Step) -> Step:
        REFUSED[_class(step)] = (step, code)
        return step

    return register


# --- what is done


@happy
async def arrive(d: Driver) -> e.Arrive:
    return d.message((await d.bind()).id)


@happy
async def seen(d: Driver) -> e.Seen:
    return e.Seen(d.by, (await d.bind()).id, 5, "catch_up")


@happy
async def edit(d: Driver) -> e.Edit:
    return e.Edit(d.by, (await d.prompt((await d.bind()).id)).id, "better")


@happy
async def remove(d: Driver) -> e.Remove:
    conversation = await d.bind()
    woken = await d.woken(conversation.id)
    prompt = await d.store.prompts.by_source_key(f"continuation:{woken.id}")
    assert prompt is not None
    return e.Remove(d.by, prompt.id, "removed")


@happy
async def choose(d: Driver) -> e.Choose:
    conversation = await d.bind()
    await d.done(d.message(conversation.id, source="catch_up", ordered_ms=d.time.ms - 9_999_999))
    return e.Choose(d.by, conversation.id, run=True)


@happy
async def attend(d: Driver) -> e.Attend:
    conversation = await d.bind()
    d.time.ms += 1
    return e.Attend(d.by, conversation.id)


@happy
async def unpark(d: Driver) -> e.Unpark:
    conversation = await d.bind()
    await d.bind()
    run = await d.running(conversation.id)
    await d.done(replace(d.settle_event(run, RunState.FAILED), park_until_ms=d.time.ms + 60_000, again=e.Again("go on", "again:1:1")))
    return e.Unpark("user:1", conversation.id)


@happy
async def ask_to_continue(d: Driver) -> e.AskToContinue:
    conversation = await d.bind()
    await d.prompt(conversation.id, kind=PromptKind.EVENT, addressed=False)
    d.time.ms += d.store.rules.unattended_ms
    return e.AskToContinue(d.by, conversation.id, d.notice())


@happy
async def dispatch(d: Driver) -> e.Dispatch:
    conversation = await d.bind()
    woken = await d.woken(conversation.id)
    run = await d.claim()
    return e.Dispatch(d.by, run.id, 1, "uuid", "{}", told_runs=(woken.origin_run_id,))


@happy
async def renew(d: Driver) -> e.Renew:
    run = await d.running((await d.bind()).id)
    return e.Renew(d.by, run.id, 1, d.time.ms + 60_000)


@happy
async def release(d: Driver) -> e.Release:
    await d.prompt((await d.bind()).id)
    return e.Release(d.by, (await d.claim()).id, 1, "cannot open")


@happy
async def lease_ended(d: Driver) -> e.LeaseEnded:
    await d.prompt((await d.bind()).id)
    run = await d.claim()
    d.time.ms = run.lease_until_ms
    return e.LeaseEnded("worker-2", run.id)


@happy
async def take_over(d: Driver) -> e.TakeOver:
    run = await d.running((await d.bind()).id)
    d.time.ms = run.lease_until_ms
    return e.TakeOver("worker-2", run.id, d.host, d.time.ms + 30_000)


@happy
async def give_up(d: Driver) -> e.GiveUp:
    return e.GiveUp("user:1", (await d.running((await d.bind()).id)).id, "the host burned down")


@happy
async def native_id_changed(d: Driver) -> e.NativeIdChanged:
    return e.NativeIdChanged(d.by, (await d.running((await d.bind()).id)).id, 1, "another")


@happy
async def session_lost(d: Driver) -> e.SessionLost:
    await d.prompt((await d.bind()).id)
    return e.SessionLost(d.by, (await d.claim()).id, 1, "another", "be good", d.notice())


@happy
async def settle(d: Driver) -> e.Settle:
    run = await d.running((await d.bind()).id)
    await d.wait(run)
    return d.settle_event(run, words=("one", "two"))


@happy
async def say(d: Driver) -> e.Say:
    return e.Say(d.by, (await d.running((await d.bind()).id)).id, 1, (d.part("on it"),))


@happy
async def skip(d: Driver) -> e.Skip:
    return e.Skip(d.by, (await d.running((await d.bind()).id)).id, 1, "not for me")


@happy
async def resume(d: Driver) -> e.Resume:
    run = await d.running((await d.bind()).id)
    await d.settle(run, RunState.FAILED)
    return e.Resume("user:7", run.id, 7, "ann", "go on")


@happy
async def wait(d: Driver) -> e.Wait:
    run = await d.running((await d.bind()).id)
    await d.wait(run)
    return e.Wait(d.by, run.id, 1, "CI again", d.time.ms + 1000, d.time.ms + 2000)


@happy
async def cancel(d: Driver) -> e.Cancel:
    woken = await d.woken((await d.bind()).id)
    await d.claim()
    return e.Cancel("user:7", woken.id, "not needed")


@happy
async def wake_now(d: Driver) -> e.WakeNow:
    return e.WakeNow("user:7", (await d.pending((await d.bind()).id)).id)


@happy
async def due(d: Driver) -> e.Due:
    pending = await d.pending((await d.bind()).id)
    d.time.ms = pending.due_at_ms
    return e.Due(d.by, pending.id)


@happy
async def stop(d: Driver) -> e.Stop:
    conversation = await d.bind()
    await d.pending(conversation.id)
    await d.running(conversation.id)
    await d.prompt(conversation.id)
    return e.Stop("user:7", conversation.id, stop_id=999, reset=True)


@happy
async def rebind(d: Driver) -> e.Rebind:
    conversation = await d.bind()
    await d.pending(conversation.id)
    return e.Rebind(d.by, conversation.id, "project", "claude", "/srv/b", shared=False)


@happy
async def notify(d: Driver) -> e.Notify:
    return e.Notify(d.by, (await d.bind()).id, (d.notice(), d.notice()))


@happy
async def send(d: Driver) -> e.Send:
    first, _ = await d.queued((await d.bind()).id, "one", "two")
    return e.Send(d.by, first.id, d.time.ms + 20_000)


@happy
async def take_part(d: Driver) -> e.TakePart:
    part = await d.sending((await d.bind()).id)
    return e.TakePart("worker-2", part.id, d.time.ms + 20_000, holder_gone=True)


@happy
async def receipt(d: Driver) -> e.Receipt:
    return e.Receipt(d.by, (await d.sending((await d.bind()).id)).id, 4711, attempt=1)


@happy
async def retry(d: Driver) -> e.Retry:
    return e.Retry(d.by, (await d.sending((await d.bind()).id)).id, attempt=1)


@happy
async def absent(d: Driver) -> e.Absent:
    part = await d.sending((await d.bind()).id)
    d.time.ms += 600_000
    return e.Absent(d.by, part.id, 1, "another-nonce", d.time.ms + 20_000)


@happy
async def undecided(d: Driver) -> e.Undecided:
    return e.Undecided(d.by, (await d.sending((await d.bind()).id)).id, 1, "cannot tell")


@happy
async def fail(d: Driver) -> e.Fail:
    return e.Fail(d.by, (await d.sending((await d.bind()).id)).id, 1, "no permission")


# --- what is refused


def old_fence(event: Any) -> Step:
    """A refused step that is the happy one with another fence or attempt."""

    async def step(d: Driver) -> Event:
        made: Any = await HAPPY[event](d)
        name = "fence" if hasattr(made, "fence") else "attempt"
        changed: Event = replace(made, **{name: getattr(made, name) + 7})
        return changed

    return step


FENCED = (
    *(e.Dispatch, e.Renew, e.Release, e.NativeIdChanged, e.SessionLost, e.Settle, e.Say, e.Skip, e.Wait),
    *(e.Receipt, e.Retry, e.Absent, e.Undecided, e.Fail),
)
for _event in FENCED:
    REFUSED[_event] = (old_fence(_event), Code.STALE_FENCE)

MISSING = 99_999


def of_nobody(event: Event) -> Event:
    """The same event for a row that does not exist."""
    about: Any = event
    first = fields(about)[1].name
    assert first.endswith("_id")
    changed: Event = replace(about, **{first: MISSING})
    return changed


@refused(Code.DUPLICATE)
async def arrive_twice(d: Driver) -> e.Arrive:
    event = await HAPPY[e.Arrive](d)
    await d.done(event)
    assert isinstance(event, e.Arrive)
    return event


@refused(Code.ENDED)
async def choose_nothing(d: Driver) -> e.Choose:
    return e.Choose(d.by, (await d.bind()).id, run=False)


@refused(Code.ENDED)
async def unpark_what_is_not_parked(d: Driver) -> e.Unpark:
    return e.Unpark("user:1", (await d.bind()).id)


@refused(Code.NOTHING)
async def ask_too_early(d: Driver) -> e.AskToContinue:
    return e.AskToContinue(d.by, (await d.bind()).id, d.notice())


@refused(Code.TOO_LATE)
async def edit_what_runs(d: Driver) -> e.Edit:
    prompt = await d.prompt((await d.bind()).id)
    await d.claim()
    return e.Edit(d.by, prompt.id, "too late")


@refused(Code.ENDED)
async def remove_what_ran(d: Driver) -> e.Remove:
    run = await d.running((await d.bind()).id)
    (prompt,) = await d.store.prompts.of_run(run.id)
    await d.settle(run)
    return e.Remove(d.by, prompt.id, "gone")


@refused(Code.LEASE_HELD)
async def lease_has_not_ended(d: Driver) -> e.LeaseEnded:
    await d.prompt((await d.bind()).id)
    return e.LeaseEnded("worker-2", (await d.claim()).id)


@refused(Code.OTHER_HOST)
async def take_over_from_elsewhere(d: Driver) -> e.TakeOver:
    event = await HAPPY[e.TakeOver](d)
    assert isinstance(event, e.TakeOver)
    return e.TakeOver(event.by, event.run_id, "host-2", event.lease_until_ms)


@refused(Code.ENDED)
async def give_up_what_ended(d: Driver) -> e.GiveUp:
    event = await HAPPY[e.GiveUp](d)
    await d.done(event)
    assert isinstance(event, e.GiveUp)
    return event


@refused(Code.DUPLICATE)
async def resume_twice(d: Driver) -> e.Resume:
    event = await HAPPY[e.Resume](d)
    await d.done(event)
    assert isinstance(event, e.Resume)
    return event


@refused(Code.NOT_YOURS)
async def cancel_somebody_elses(d: Driver) -> e.Cancel:
    return e.Cancel("user:8", (await d.pending((await d.bind()).id)).id, "mine!", only_own=8)


@refused(Code.TOO_LATE)
async def wake_what_is_woken(d: Driver) -> e.WakeNow:
    return e.WakeNow("user:7", (await d.woken((await d.bind()).id)).id)


@refused(Code.TOO_EARLY)
async def due_too_early(d: Driver) -> e.Due:
    return e.Due(d.by, (await d.pending((await d.bind()).id)).id)


@refused(Code.NOT_YOURS)
async def stop_somebody_elses(d: Driver) -> e.Stop:
    conversation = await d.bind()
    await d.prompt(conversation.id)
    return e.Stop("user:8", conversation.id, 999, only_own=8)


@refused(Code.TOO_EARLY)
async def rebind_while_it_runs(d: Driver) -> e.Rebind:
    conversation = await d.bind()
    await d.running(conversation.id)
    return e.Rebind(d.by, conversation.id, "project", "claude", "/srv/b", shared=False)


@refused(Code.NOT_FIRST)
async def send_the_second_first(d: Driver) -> e.Send:
    _, second = await d.queued((await d.bind()).id, "one", "two")
    return e.Send(d.by, second.id, d.time.ms + 20_000)


@refused(Code.LEASE_HELD)
async def take_part_of_the_living(d: Driver) -> e.TakePart:
    return e.TakePart("worker-2", (await d.sending((await d.bind()).id)).id, d.time.ms + 20_000)


KINDS = tuple(kind for kind in get_args(Event) if kind is not e.Claim)
#: These can always be done to a row that exists.
NEVER_REFUSED = {e.Attend, e.Notify, e.Seen}
