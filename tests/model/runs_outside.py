"""What happens to the runs model from outside: agents, time, people, faults. The system's own steps are in `tests.model.runs`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from storage import events as e
from storage.events import Entity, Event, Refusal
from storage.models import Conversation, PromptKind, RunId, Snapshot
from storage.states import ACTIVE_RUN
from storage.states import ContinuationState as C
from storage.states import RunState as R
from storage.states import SessionState as S
from tests.model.canon import NOW, can_go_on
from tests.model.runs_state import BUDGET, ENDED, WORKERS, Agent, World, by_fault, put, spend, with_status
from tests.model.search import Step
from tests.model.world import apply

if TYPE_CHECKING:
    from tests.model.runs import Runs


def agents(model: Runs, state: World, snap: Snapshot, agent: Agent) -> Iterator[Step]:
    owner = next(
        ((i, h) for i in (0, 1) for h in state.workers[i] if h.run == agent.run and h.phase == "running" and h.tenure == 0),
        None,
    )
    name = f"agent of run {agent.run}"
    if agent.status == "working":
        for to, own in (("ended", True), ("error", False)):
            if own or state.budget[BUDGET["errors"]]:
                left = state.budget if own else spend(state.budget, "errors")
                yield model.step(f"{name}: {to}", state, state.db, own=own, agents=with_status(state.agents, agent, to), budget=left)
        if owner is not None and state.budget[BUDGET["waits"]]:
            index, handle = owner
            event = e.Wait(WORKERS[index], RunId(agent.run), handle.fence, "later", NOW + 1, NOW + 2)
            left = spend(state.budget, "waits")
            yield by_fault(model.write("Wait", state, index, handle, event, "running", budget=left))
    if agent.status == "ended":
        yield model.step(f"{name}: transcript written", state, state.db, own=True, agents=with_status(state.agents, agent, "written"))
    dies = agent.status in {"working", "ended", "written", "error", "idle"}
    called = agent.status != "idle" and not any(h.run == agent.run for hs in state.workers for h in hs)
    if dies and (called or state.budget[BUDGET["deaths"]]):
        left = state.budget if called else spend(state.budget, "deaths")
        label = f"{name}: its process dies"
        agents = with_status(state.agents, agent, ENDED[agent.status])
        yield model.step(label, state, state.db, own=called, agents=agents, budget=left)


def time(model: Runs, state: World, snap: Snapshot) -> Iterator[Step]:
    for conversation in snap.conversations:
        if conversation.not_before_ms > NOW:
            yield model.step("time: the backoff passes", state, model.edit(state.db, "backoff", conversation.id), own=True)
    for c in snap.continuations:
        if c.state in {C.REQUESTED, C.PENDING} and c.due_at_ms > NOW:
            yield model.step(f"time: c{c.id} is due", state, model.edit(state.db, "due", c.id), own=True)
        if c.state in {C.REQUESTED, C.PENDING} and c.expires_at_ms > NOW >= c.due_at_ms and state.budget[BUDGET["expiries"]]:
            left = spend(state.budget, "expiries")
            yield model.step(f"time: c{c.id} expires", state, model.edit(state.db, "expiry", c.id), budget=left)


def people(model: Runs, state: World, snap: Snapshot) -> Iterator[Step]:
    if state.budget[BUDGET["messages"]]:
        for conversation in snap.conversations:
            for author in range(1, model.scenario.authors + 1):
                number = max((p.id for p in snap.prompts), default=0) + 1
                event: Event = e.Arrive("gateway", conversation.id, PromptKind.USER, 0, author, "", "", f"message:{number}", addressed=True)
                yield from model.by_others(f"person {author} writes in {conversation.id}", state, event, "messages")
    if state.budget[BUDGET["resumes"]]:
        for r in snap.runs:
            if can_go_on(r):
                yield from model.by_others(f"Resume of run {r.id}", state, e.Resume("user:1", r.id, 1, "", ""), "resumes")
    if state.budget[BUDGET["admin"]]:
        yield from admin(model, state, snap)


def admin(model: Runs, state: World, snap: Snapshot) -> Iterator[Step]:
    wanted = model.scenario.admin
    for c in snap.conversations:
        if "stop" in wanted:
            yield from stop(model, state, c, reset=False)
        if "reset" in wanted:
            yield from stop(model, state, c, reset=True)
        if "attend" in wanted and c.unattended_runs:
            yield from model.by_others(f"Continue in {c.id}", state, e.Attend("user:1", c.id), "admin")
        if "rebind" in wanted:
            folder = "/q" if c.folder == "/p" else "/p"
            event: Event = e.Rebind("config", c.id, "p", "a", folder, c.shared)
            yield from model.by_others(f"conversation {c.id} is bound to {folder}", state, event, "admin")
    for continuation in snap.continuations:
        if "cancel" in wanted:
            event = e.Cancel("user:1", continuation.id, "cancelled")
            yield from model.by_others(f"cancel c{continuation.id} ({continuation.state})", state, event, "admin")
        if "wake" in wanted:
            event = e.WakeNow("user:1", continuation.id)
            yield from model.by_others(f"wake c{continuation.id} now", state, event, "admin")
    for p in snap.prompts:
        if "remove" in wanted:
            yield from model.by_others(f"remove prompt {p.id}", state, e.Remove("user:1", p.id, "removed"), "admin")


def stop(model: Runs, state: World, c: Conversation, *, reset: bool) -> Iterator[Step]:
    label = f"{'/reset' if reset else '/stop'} in {c.id}"
    event = e.Stop("user:1", c.id, NOW, reset)
    if "stop_in_two" not in model.scenario.quirks or state.slot is not None:
        yield from model.by_others(label, state, event, "admin")
        return
    snap = model.states.snaps[state.db]
    changes = model.decide(snap, event, NOW, model.rules)
    if isinstance(changes, Refusal):
        return
    later = tuple(x for x in changes if x.entity is Entity.CONTINUATION)
    first = tuple(x for x in changes if x.entity is not Entity.CONTINUATION)
    doomed = tuple(int(x.id) for x in later if isinstance(x, e.Move))
    applied = apply(snap, first, model.scenario.indexes, model.scenario.extra)
    raw = model.states.number(replace(applied.snapshot, parts=()))
    left = spend(state.budget, "admin")
    yield model.step(f"{label}: first transaction", state, raw, budget=left, slot=(-1, state.db, event, doomed) if doomed else None)


def faults(model: Runs, state: World, snap: Snapshot) -> Iterator[Step]:
    budget = state.budget
    for index in (0, 1):
        me = WORKERS[index]
        if state.slot is not None and state.slot[0] == index:
            continue
        mine = [r for r in snap.runs if r.state in ACTIVE_RUN and r.holder == me]
        if budget[BUDGET["crashes"]] and (mine or state.workers[index]):
            left = spend(budget, "crashes")
            raw = model.edit(state.db, "crash", me)
            yield model.step(f"{me}: dies and starts again", state, raw, workers=put(state.workers, index, ()), budget=left)
        for r in mine:
            if budget[BUDGET["hangs"]] and r.lease_until_ms > NOW:
                left = spend(budget, "hangs")
                raw = model.edit(state.db, "hang", r.id)
                yield model.step(f"{me}: hangs until its lease of run {r.id} has ended", state, raw, budget=left)
    if budget[BUDGET["hands"]]:
        busy = {r.session_id for r in snap.runs if r.state is R.DISPATCHED}
        for s in snap.sessions:
            if s.id in busy and s.state is S.OPEN:
                left = spend(budget, "hands")
                raw = model.edit(state.db, "hand", s.id)
                yield model.step(f"session {s.id} is ended by another hand", state, raw, budget=left)
