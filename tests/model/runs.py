"""Runs, agents and waits: two processes, two people, two conversations in one folder, and everything that can go wrong with them.

The rules are the product's own; this module is the world around them. A process does one commit at a time and may die before and
after each; a process that hangs loses its lease and goes on later as if nothing had happened. An agent is a process of its own: it
can be called once, acts, asks for waits, ends, and may outlive who called it. What it did is in its transcript only after a while.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import astuple, dataclass, field, replace
from typing import Any

from storage import events as e
from storage.events import Change, Code, Entity, Event, NewPart, Refusal
from storage.models import Conversation, ConversationId, PartKind, Rules, Run, RunId, Snapshot
from storage.states import ACTIVE_RUN, LIVE_CONTINUATION
from storage.states import ContinuationState as C
from storage.states import PromptState as P
from storage.states import RunState as R
from storage.transitions import decide as product_decide
from tests.model import checks, invariants, runs_outside
from tests.model.canon import NOW, States
from tests.model.runs_state import (
    BUDGET,
    ENDED,
    NOTICE,
    RESUMES,
    WORKERS,
    Agent,
    Handle,
    Outcome,
    Phase,
    Scenario,
    World,
    agents_broken,
    by_fault,
    edited,
    put,
    renumbered,
    spend,
    swap,
    with_status,
)
from tests.model.search import Step
from tests.model.world import Decide, Fired, NotInTable, Void, apply

ANSWER = NewPart(PartKind.ANSWER, "done", "nonce-of-answer")


@dataclass(slots=True)
class Runs:
    """The model; `tests.model.search.explore` walks through it."""

    scenario: Scenario
    decide: Decide = product_decide
    fired: set[Fired] = field(default_factory=set)
    rules: Rules = field(init=False)
    states: States = field(init=False)
    _kinds: tuple[int, ...] = field(init=False)
    _outcomes: dict[tuple[int, Event], Outcome] = field(default_factory=dict)
    _edits: dict[tuple[Any, ...], int] = field(default_factory=dict)
    _broken: dict[int, str | None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.rules = Rules(unattended_runs=self.scenario.unattended_runs, max_tries=self.scenario.max_tries)
        self._kinds = (0, 1, 2, 3, 4, 5, 6, 7) if self.scenario.conversations == 2 else (0, 1, 4, 5)
        self.states = States(self.scenario.unattended_runs, reduce=self.scenario.reduce)

    # --- the search's questions ---

    def initial(self) -> World:
        """Nobody has said anything."""
        conversations = tuple(
            Conversation(ConversationId(i), 100 + i, 1, "p", "a", "/p", self.scenario.shared, 0, attended_at_ms=NOW)
            for i in range(1, self.scenario.conversations + 1)
        )
        return World(self.states.number(Snapshot(conversations)), ((), ()), (), (), astuple(self.scenario.budget), None)

    def steps(self, state: World) -> Iterator[Step]:
        """Everything that can happen next."""
        snap = self.states.snaps[state.db]
        if state.slot is not None:
            yield from self._slot(state)
        for agent in state.agents:
            yield from runs_outside.agents(self, state, snap, agent)
        for index in (0, 1):
            for handle in state.workers[index]:
                yield from self._owner(state, snap, index, handle)
            yield from self._process(state, snap, index)
        yield from runs_outside.time(self, state, snap)
        yield from runs_outside.people(self, state, snap)
        yield from runs_outside.faults(self, state, snap)

    def at_rest(self, state: World) -> str | None:
        """Nothing runs, nothing that may run waits, nothing is half asked for."""
        snap = self.states.snaps[state.db]
        if any(state.workers):
            return f"a process still holds {state.workers}"
        for r in snap.runs:
            if r.state in ACTIVE_RUN:
                return f"run {r.id} is {r.state}"
        for p in snap.prompts:
            if p.state is P.WAITING and (p.kind.of_people or not checks.held(snap, p, NOW, self.rules)):
                return f"prompt {p.id} waits for nothing"
        for c in snap.continuations:
            if c.state in LIVE_CONTINUATION and not (c.state is C.CLAIMED and any(p.continuation_id == c.id for p in snap.prompts)):
                return f"c{c.id} is {c.state}"
        return None

    def show(self, state: World) -> str:
        """The rows that matter, and the agents."""
        snap = self.states.snaps[state.db]
        words = [f"prompt {p.id} {p.kind} {p.state}{f' run {p.run_id}' if p.run_id else ''}" for p in snap.prompts]
        words += [f"run {r.id} {r.state} {r.holder} fence {r.fence}{' stop' if r.stop_requested else ''}" for r in snap.runs]
        words += [f"c{c.id} {c.state}" for c in snap.continuations]
        words += [f"session {s.id} {s.state}" for s in snap.sessions]
        words += [f"agent of run {a.run} {a.status}" for a in state.agents]
        return "; ".join(words)

    # --- one commit ---

    def commit(self, db: int, event: Event) -> Outcome:
        """Decide and apply, as the store does in one transaction. The answer is remembered."""
        key = (db, event)
        known = self._outcomes.get(key)
        if known is None:
            known = self._outcomes[key] = self._commit(db, event)
        return known

    def _commit(self, db: int, event: Event) -> Outcome:
        snap = self.states.snaps[db]
        changes = self.decide(self._seen(snap, event), event, NOW, self.rules)
        if isinstance(changes, Refusal):
            return Outcome(db, changes.code)
        return self._applied(snap, event, changes)

    def _seen(self, snap: Snapshot, event: Event) -> Snapshot:
        """What the store loads: where the folder is shared, a claim is about one conversation."""
        if not (isinstance(event, e.Claim) and self.scenario.shared):
            return snap
        return replace(snap, conversations=tuple(c for c in snap.conversations if c.id == int(event.standing)))

    def decided(self, db: int, event: Event) -> tuple[Change, ...]:
        snap = self.states.snaps[db]
        changes = self.decide(self._seen(snap, event), event, NOW, self.rules)
        return () if isinstance(changes, Refusal) else changes

    def _applied(self, snap: Snapshot, event: Event, changes: tuple[Change, ...]) -> Outcome:
        try:
            applied = apply(snap, changes, self.scenario.indexes, self.scenario.extra)
        except (Void, NotInTable) as error:
            return Outcome(0, broken=f"{type(event).__name__} cannot be committed: {error}")
        self.fired.update(applied.moves)
        problem = next(checks.wrong(snap, event, changes, applied.snapshot, NOW, self.rules), None)
        return Outcome(self.states.number(replace(applied.snapshot, parts=())), None, problem, applied.id_of(Entity.RUN))

    def edit(self, db: int, *key: Any) -> int:
        """Rewrite rows for what happens outside: time passes, a process dies."""
        full = (db, *key)
        known = self._edits.get(full)
        if known is None:
            known = self._edits[full] = self.states.number(edited(self.states.snaps[db], *key))
        return known

    def step(self, label: str, state: World, raw: int, *, own: bool = False, **after: Any) -> Step:
        """The step to the state with the database `raw` and these other differences, in its canonical form."""
        workers, agents, handed = after.get("workers", state.workers), after.get("agents", state.agents), after.get("handed", state.handed)
        budget, slot = after.get("budget", state.budget), after.get("slot", state.slot)
        wanted = frozenset([h[0] for handles in workers for h in handles])
        to = self.states.canonical(raw, wanted, resumable=budget[RESUMES] > 0)
        runs, active = to.runs, to.active
        if to.same:
            kept = tuple(sorted([a for a in agents if a[0] in runs]))
        else:
            first, second = workers
            workers = (renumbered(first, runs), renumbered(second, runs))
            kept = tuple(sorted([Agent(runs[a.run], a.status, a.tenure) for a in agents if a.run in runs]))
        if handed:
            handed = tuple([to.prompts[p] for p in handed if p in to.prompts])
        broken = self._state_broken(to.db) or agents_broken(kept, active)
        if broken is not None:
            return Step(label, None, own, broken)
        held = {h[0] for hs in workers for h in hs}
        kept = tuple([a for a in kept if a[0] in held or active[a[0]].state in ACTIVE_RUN])
        if self.scenario.reduce:
            db, ways = self.states.least(to.db, self._kinds)
            if ways != (0,):
                workers = min([workers[::-1] if way & 1 else workers for way in ways])
        else:
            db = to.db
        return Step(label, World(db, workers, kept, handed, budget, slot), own)

    def _state_broken(self, db: int) -> str | None:
        if db not in self._broken:
            self._broken[db] = next(invariants.broken(self.states.snaps[db]), None)
        return self._broken[db]

    def write(self, label: str, state: World, index: int, handle: Handle, event: Event, phase: Phase | None, **after: Any) -> Step:
        """A write by the owner of a run (or who believes to be it); refused, it forgets the run."""
        outcome = self.commit(state.db, event)
        name = f"{WORKERS[index]}: {label} run {handle.run} (fence {handle.fence})"
        if outcome.broken is not None:
            return Step(name, None, True, outcome.broken)
        without = tuple(h for h in state.workers[index] if h is not handle)
        if outcome.refused not in {None, Code.STALE_FENCE, Code.NOT_FOUND}:
            return Step(name, state, True)
        if outcome.refused is not None:
            kept = put(state.workers, index, without)
            return self.step(f"{name}: refused, {outcome.refused}", state, state.db, own=True, workers=kept)
        tenure = next((a.tenure for a in state.agents if a.run == handle.run), handle.tenure)
        if tenure != handle.tenure:
            return Step(name, None, True, f"P5: a former holder's {label} was accepted (run {handle.run})")
        if phase is not None:
            without = (*without, handle._replace(phase=phase))
        after.setdefault("workers", put(state.workers, index, without))
        return self.step(name, state, outcome.raw, own=True, **after)

    def by_others(self, label: str, state: World, event: Event, spent: str | None, *, own: bool = False, **after: Any) -> Iterator[Step]:
        """A commit by nobody's owner; nothing if it is refused or changes nothing."""
        outcome = self.commit(state.db, event)
        if outcome.broken is not None:
            yield Step(label, None, own, outcome.broken)
        elif outcome.refused is None:
            if spent is not None:
                after["budget"] = spend(state.budget, spent)
            yield self.step(label, state, outcome.raw, own=own, **after)

    # --- what processes do by themselves ---

    def _owner(self, state: World, snap: Snapshot, index: int, handle: Handle) -> Iterator[Step]:
        me, run_id = WORKERS[index], RunId(handle.run)
        agent = next(a for a in state.agents if a.run == handle.run)
        run = next(r for r in snap.runs if r.id == handle.run)
        if run.holder == me and run.lease_until_ms <= NOW and run.state in ACTIVE_RUN and run.fence == handle.fence:
            yield self.write("Renew", state, index, handle, e.Renew(me, run_id, handle.fence, NOW + 1), handle.phase)
        match handle.phase:
            case "claimed":
                yield from self._before_the_call(state, index, handle)
            case "intent":
                called = "working" if agent.status == "idle" else agent.status
                yield from self._call(state, snap, index, handle, called)
            case "running":
                yield from self._running(state, run, index, handle, agent)
            case "taken":
                dead = ENDED.get(agent.status, agent.status)
                workers = put(state.workers, index, swap(state.workers[index], handle, handle._replace(phase="killed")))
                label = f"{me}: the agent of run {handle.run} is proven dead"
                yield self.step(label, state, state.db, own=True, workers=workers, agents=with_status(state.agents, agent, dead))
                impatient = e.Settle(me, run_id, handle.fence, R.INTERRUPTED, e.Proof.NONE, e.Evidence.NONE, "gone")
                yield self.write("Settle (impatient)", state, index, handle, impatient, None)
            case "killed":
                yield self._harvest(state, index, handle, agent)

    def _before_the_call(self, state: World, index: int, handle: Handle) -> Iterator[Step]:
        me, run_id = WORKERS[index], RunId(handle.run)
        if "call_before_intent" in self.scenario.quirks:
            snap = self.states.snaps[state.db]
            yield from self._call(state, snap, index, handle, "working")
            return
        intent = e.Dispatch(me, run_id, handle.fence, f"uuid-{handle.run}", "process")
        if self.commit(state.db, intent).refused is Code.STALE_SESSION:
            back = e.Release(me, run_id, handle.fence, "stale session", notice=NOTICE)
            yield self.write("Release", state, index, handle, back, None)
        else:
            yield self.write("Dispatch", state, index, handle, intent, "intent")
        if state.budget[BUDGET["open_failures"]]:
            left = spend(state.budget, "open_failures")
            event = e.Release(me, run_id, handle.fence, "cannot be opened", notice=NOTICE)
            yield by_fault(self.write("Release (cannot be opened)", state, index, handle, event, None, budget=left))
            event = e.Release(me, run_id, handle.fence, "shutdown", counts=False)
            yield by_fault(self.write("Release (shutdown)", state, index, handle, event, None, budget=left))
        if state.budget[BUDGET["sessions_lost"]]:
            left = spend(state.budget, "sessions_lost")
            lost = e.SessionLost(me, run_id, handle.fence, "", "", NOTICE)
            yield by_fault(self.write("SessionLost", state, index, handle, lost, "claimed", budget=left))

    def _call(self, state: World, snap: Snapshot, index: int, handle: Handle, called: str) -> Iterator[Step]:
        """The call itself, outside the database. Only the process stored with the intent is called; a dead one cannot be."""
        me = WORKERS[index]
        agent = next(a for a in state.agents if a.run == handle.run)
        label = f"{me}: calls the agent of run {handle.run}"
        if agent.status != "idle":
            workers = put(state.workers, index, swap(state.workers[index], handle, handle._replace(phase="running")))
            yield self.step(f"{label}: its process is gone", state, state.db, own=True, workers=workers)
            return
        prompts = tuple(p.id for p in snap.prompts if p.run_id == handle.run and p.state is P.TAKEN)
        twice = set(prompts) & set(state.handed)
        if twice:
            yield Step(label, None, True, f"P3: prompt {min(twice)} was handed to an agent twice")
            return
        workers = put(state.workers, index, swap(state.workers[index], handle, handle._replace(phase="running")))
        handed = tuple(sorted({*state.handed, *prompts}))
        yield self.step(label, state, state.db, own=True, workers=workers, agents=with_status(state.agents, agent, called), handed=handed)

    def _running(self, state: World, run: Run, index: int, handle: Handle, agent: Agent) -> Iterator[Step]:
        me, run_id = WORKERS[index], RunId(handle.run)
        if agent.status in {"ended", "written", "error"}:
            outcome: Any = R.FAILED if agent.status == "error" else R.SUCCEEDED
            event = e.Settle(me, run_id, handle.fence, outcome, e.Proof.SWEPT, e.Evidence.STREAM, "ended", parts=(ANSWER,))
            yield self.write("Settle", state, index, handle, event, None, agents=with_status(state.agents, agent, "swept"))
        elif agent.status in {"dead", "Dead"}:
            yield self._harvest(state, index, handle, agent)
        elif agent.status == "working" and run.stop_requested:
            label = f"{me}: kills the stopped agent of run {handle.run}"
            yield self.step(label, state, state.db, own=True, agents=with_status(state.agents, agent, "dead"))
        elif agent.status == "swept":
            event = e.Settle(me, run_id, handle.fence, R.FAILED, e.Proof.SWEPT, e.Evidence.STREAM, "ended")
            yield self.write("Settle", state, index, handle, event, None)

    def _harvest(self, state: World, index: int, handle: Handle, agent: Agent) -> Step:
        """The agent is dead: its transcript says how it ended, or nobody knows."""
        me, run_id = WORKERS[index], RunId(handle.run)
        if agent.status == "Dead":
            event = e.Settle(me, run_id, handle.fence, R.SUCCEEDED, e.Proof.DEAD, e.Evidence.TRANSCRIPT, "read", parts=(ANSWER,))
        else:
            event = e.Settle(me, run_id, handle.fence, R.INTERRUPTED, e.Proof.DEAD, e.Evidence.NONE, "gone")
        return self.write("Settle (from the transcript)", state, index, handle, event, None)

    def _process(self, state: World, snap: Snapshot, index: int) -> Iterator[Step]:
        """Claim, recover, wake."""
        me = WORKERS[index]
        if len(state.workers[index]) < 2:
            for only in range(1, self.scenario.conversations + 1) if self.scenario.shared else (0,):
                yield from self._claim(state, snap, index, only)
        for r in snap.runs:
            if r.holder == me or r.state not in ACTIVE_RUN:
                continue
            event: Event = e.LeaseEnded(me, r.id, r.holder == "x", NOTICE)
            yield from self.by_others(f"{me}: LeaseEnded run {r.id}", state, event, None, own=True)
            if r.state is R.DISPATCHED:
                yield from self._take_over(state, index, r)
        if index == 1 and not state.workers[0] and not state.workers[1]:
            return
        for c in snap.continuations:
            if c.state is C.PENDING:
                event = e.Due(me, c.id, NOTICE)
                yield from self.by_others(f"{me}: Due c{c.id}", state, event, None, own=True)

    def _claim(self, state: World, snap: Snapshot, index: int, only: int) -> Iterator[Step]:
        me = WORKERS[index]
        event = e.Claim(me, "host", NOW + 1, "", str(only))
        outcome = self.commit(state.db, event)
        label = f"{me}: Claim"
        if outcome.refused is Code.HELD:
            for c in snap.conversations:
                ask = e.AskToContinue(me, c.id, NOTICE)
                yield from self.by_others(f"{me}: AskToContinue {c.id}", state, ask, None, own=True)
        if outcome.refused is not None:
            return
        if outcome.broken is not None:
            yield Step(label, None, True, outcome.broken)
            return
        yield self._claimed(f"{label} -> run {outcome.run_id}", state, index, outcome.raw, outcome.run_id or 0)
        if state.budget[BUDGET["races"]] and state.slot is None:
            left = spend(state.budget, "races")
            slot = (index, state.db, event, ())
            yield self.step(f"{me}: decides Claim, not committed", state, state.db, budget=left, slot=slot)

    def _claimed(self, label: str, state: World, index: int, raw: int, run_id: int, *, own: bool = True, **after: Any) -> Step:
        handles = (*state.workers[index], Handle(run_id, 1, "claimed", 0))
        agents = (*(a for a in state.agents if a.run != run_id), Agent(run_id, "idle", 0))
        return self.step(label, state, raw, own=own, workers=put(state.workers, index, handles), agents=agents, **after)

    def _take_over(self, state: World, index: int, r: Run) -> Iterator[Step]:
        me = WORKERS[index]
        outcome = self.commit(state.db, e.TakeOver(me, r.id, "host", NOW + 1, r.holder == "x"))
        label = f"{me}: TakeOver run {r.id}"
        if outcome.broken is not None:
            yield Step(label, None, True, outcome.broken)
        elif outcome.refused is None:
            agent = next(a for a in state.agents if a.run == r.id)
            fence = next(n.fence for n in self.states.snaps[outcome.raw].runs if n.id == r.id)
            handles = (*state.workers[index], Handle(r.id, fence, "taken", agent.tenure + 1))
            agents = swap(state.agents, agent, agent._replace(tenure=agent.tenure + 1))
            yield self.step(label, state, outcome.raw, own=True, workers=put(state.workers, index, handles), agents=agents)

    def _slot(self, state: World) -> Iterator[Step]:
        """The second half of what was decided before: it is committed, or its process dies."""
        assert state.slot is not None
        index, db, event, doomed = state.slot
        changes = self.decided(db, event)
        if doomed:
            changes = tuple(x for x in changes if x.entity is Entity.CONTINUATION)
        snap = self.states.snaps[state.db]
        try:
            applied = apply(snap, changes, self.scenario.indexes, self.scenario.extra)
        except Void as error:
            yield self.step(f"the decided transaction is void: {error}", state, state.db, own=True, slot=None)
        else:
            raw = self.states.number(replace(applied.snapshot, parts=()))
            run_id = applied.id_of(Entity.RUN)
            if run_id is None:
                yield self.step("the second transaction is committed", state, raw, own=True, slot=None)
            else:
                yield self._claimed(f"w{index}: commits its Claim -> run {run_id}", state, index, raw, run_id, slot=None)
        if doomed:
            alive = [c.id for c in snap.continuations if c.id in doomed and c.state in LIVE_CONTINUATION]
            broken = f"/stop was half done when the process died: c{alive[0]} is alive and will wake" if alive else None
            yield Step("the process dies between the two transactions", None if broken else state._replace(slot=None), False, broken)
