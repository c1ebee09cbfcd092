"""What a state of the runs model is made of, and small changes to it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

from storage.events import Code, Event, NewPart
from storage.models import PartKind, Run, Session, SessionId, Snapshot
from storage.rules import view
from storage.states import ACTIVE_RUN
from storage.states import RunState as R
from tests.model.canon import NOW
from tests.model.search import Step
from tests.model.world import ALL_INDEXES, Extra, Indexes, apply


@dataclass(frozen=True, slots=True)
class Budget:
    """How often each thing from outside may happen; the system's own steps are not counted."""

    messages: int = 0
    resumes: int = 0
    waits: int = 0
    #: /stop, /reset, cancel, wake now, remove, Continue, another binding.
    admin: int = 0
    crashes: int = 0
    #: A live process hangs until its lease has ended.
    hangs: int = 0
    #: The agent cannot be opened.
    open_failures: int = 0
    sessions_lost: int = 0
    #: A turn that ends with an error.
    errors: int = 0
    #: The agent's process dies while its owner lives.
    deaths: int = 0
    #: Nothing wakes a due continuation before its expiry.
    expiries: int = 0
    #: Two processes decide on what they read before the other's commit.
    races: int = 0
    #: A session row ends by another hand while its run is dispatched.
    hands: int = 0


@dataclass(frozen=True, slots=True)
class Scenario:
    """One world to explore."""

    budget: Budget
    shared: bool = False
    unattended_runs: int = 3
    max_tries: int = 3
    conversations: int = 2
    authors: int = 2
    admin: frozenset[str] = frozenset({"stop", "reset", "cancel", "wake", "remove", "attend", "rebind"})
    indexes: Indexes = ALL_INDEXES
    extra: Extra = frozenset()
    #: Rules of the model's own processes that a mutation changes.
    quirks: frozenset[str] = frozenset()
    #: Drop what nothing refers to, number ids anew, make equal worlds equal. Off, a trace keeps its names.
    reduce: bool = True


Phase = Literal["claimed", "intent", "running", "taken", "killed"]


class Handle(NamedTuple):
    """What a process believes about a run: claimed, intent committed, running (called), taken over, killed (agent proven dead)."""

    run: int
    fence: int
    phase: Phase
    tenure: int


class Agent(NamedTuple):
    """The agent's process of a run: idle, working, ended, ended and written to the transcript, error, dead, Dead (and written)."""

    run: int
    status: str
    #: Changes of owner so far: the truth that fences stand for.
    tenure: int


class World(NamedTuple):
    """One state."""

    db: int
    workers: tuple[tuple[Handle, ...], ...]
    agents: tuple[Agent, ...]
    #: Prompts that an agent was called with.
    handed: tuple[int, ...]
    budget: tuple[int, ...]
    #: A transaction that was decided and not committed yet: by whom, on which state, for what, and the continuations it has to end.
    slot: tuple[int, int, Event, tuple[int, ...]] | None


@dataclass(slots=True)
class Outcome:
    """What the database makes of an event."""

    raw: int
    refused: Code | None = None
    broken: str | None = None
    run_id: int | None = None


ENDED = {"ended": "dead", "written": "Dead", "error": "dead", "working": "dead", "idle": "dead"}
RESUMES = 1
BUDGET = {name: index for index, name in enumerate(Budget.__dataclass_fields__)}
NOTICE = NewPart(PartKind.NOTICE, "notice", "nonce-of-notice")
WORKERS = ("w0", "w1")


def edited(snap: Snapshot, what: str, key: Any) -> Snapshot:
    match what:
        case "backoff":
            return replace(snap, conversations=tuple(replace(c, not_before_ms=0) if c.id == key else c for c in snap.conversations))
        case "due":
            return replace(snap, continuations=tuple(replace(c, due_at_ms=NOW) if c.id == key else c for c in snap.continuations))
        case "expiry":
            return replace(snap, continuations=tuple(replace(c, expires_at_ms=NOW) if c.id == key else c for c in snap.continuations))
        case "crash":
            runs = tuple(replace(r, holder="x") if r.holder == key and r.state in ACTIVE_RUN else r for r in snap.runs)
            return replace(snap, runs=runs)
        case "hang":
            return replace(snap, runs=tuple(replace(r, lease_until_ms=NOW) if r.id == key else r for r in snap.runs))
        case "hand":
            return _end_session(snap, key)
        case _:
            raise AssertionError(what)


def _end_session(snap: Snapshot, session_id: SessionId) -> Snapshot:
    session: Session = next(s for s in snap.sessions if s.id == session_id)
    return apply(snap, view.end_session(snap, session, "by hand", NOW, by="hand")).snapshot


def agents_broken(agents: tuple[Agent, ...], runs: dict[int, Run]) -> str | None:
    at_work: set[str] = set()
    for a in agents:
        run = runs[a.run]
        if a.status in {"working", "ended", "written", "error"} and run.state is not R.DISPATCHED:
            what = "works" if a.status == "working" else "and what it started are alive"
            return f"P3, P12: the agent of run {a.run} {what}, but the run is {run.state}"
        if a.status == "working":
            place = run.workspace or f"conversation {run.conversation_id}"
            if place in at_work:
                return f"P2: two agents work in {place}"
            at_work.add(place)
    return None


def renumbered(handles: tuple[Handle, ...], runs: dict[int, int]) -> tuple[Handle, ...]:
    return tuple(sorted([Handle(runs[h.run], h.fence, h.phase, h.tenure) for h in handles if h.run in runs]))


def by_fault(step: Step) -> Step:
    return replace(step, by_itself=False)


def spend(budget: tuple[int, ...], name: str) -> tuple[int, ...]:
    at = BUDGET[name]
    return (*budget[:at], budget[at] - 1, *budget[at + 1 :])


def put(workers: tuple[tuple[Handle, ...], ...], index: int, handles: tuple[Handle, ...]) -> tuple[tuple[Handle, ...], ...]:
    handles = tuple(sorted(handles)) if len(handles) > 1 else handles
    return (handles, workers[1]) if index == 0 else (workers[0], handles)


def swap(items: tuple[Any, ...], old: Any, new: Any) -> tuple[Any, ...]:
    return tuple(new if item is old else item for item in items)


def with_status(agents: tuple[Agent, ...], agent: Agent, status: str) -> tuple[Agent, ...]:
    return tuple(a._replace(status=status) if a.run == agent.run else a for a in agents)
