"""SQL does what the pure rules say: random histories, decided twice, compared row by row.

The pure side decides on every row there ever was, the store on the few that it loads; so this also shows that it loads enough.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import count
from typing import Any, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import select

from storage import events as e
from storage.conversations import NewConversation
from storage.events import Event, NewPart, Refusal
from storage.models import Conversation, PartKind, PromptKind, Rules
from storage.rows import KINDS
from storage.snapshots import Candidate
from storage.states import RunState
from storage.store import Done, Store
from tests.support.memory import Memory
from tests.support.storage import Driver, Time

#: Small bounds, so that random histories meet them.
RULES = Rules(unattended_runs=2, max_tries=2, queue_limit=4, batch_prompts=2, nonce_window_ms=2_000, words_expire_ms=20_000)
WORKERS = ("worker-1", "worker-2")
#: For all examples of all databases.
NUMBERS = count(1)
NOBODY = 10**9
BOUND = NewConversation(1, 1, "project", "scripted", "/srv", shared=False, last_seen_id=0).row(0)


@dataclass
class Now:
    """What a step is about: one of the newest rows of each kind (or an id that nobody has), somebody, and a variation."""

    time_ms: int
    how: int
    by: str
    conversation: Conversation
    run: Any
    owner: str
    fence: int
    sender: str
    attempt: int
    prompt: Any
    continuation: Any
    part: Any
    twice: int

    @property
    def own(self) -> int | None:
        return self.how if self.how in {1, 2} else None

    @property
    def later_ms(self) -> int:
        return self.time_ms + 3_000


def words(kind: PartKind) -> NewPart:
    return NewPart(kind, "words", f"nonce-{next(NUMBERS)}")


def notice() -> NewPart:
    return words(PartKind.NOTICE)


def native() -> str:
    return f"native-{next(NUMBERS)}"


def message(n: Now) -> e.Arrive:
    """Some are pressed twice, some are old, some are long."""
    number = next(NUMBERS) if n.how else n.twice
    return e.Arrive(
        n.by,
        n.conversation.id,
        PromptKind.USER,
        ordered_ms=n.time_ms - (4_000_000 if n.how == 6 else 0),
        author_id=1 + n.how % 2,
        author_name="ann",
        text="x" * 1_950 if n.how == 4 else "text",
        source_key=f"message:{number}",
        addressed=n.how < 4,
        message_id=number,
        source="catch_up" if n.how == 6 else "live",
        caught_up=True,
    )


def outside(n: Now) -> e.Arrive:
    key = f"event:{next(NUMBERS)}"
    return e.Arrive(n.by, n.conversation.id, PromptKind.EVENT, n.time_ms, 1, "", "ci", key, addressed=False)


def settle(n: Now) -> e.Settle:
    outcome: Any = RunState.SUCCEEDED if n.how < 5 else RunState.FAILED
    proof, evidence = (e.Proof.SWEPT, e.Evidence.STREAM) if n.how < 6 else (e.Proof.DEAD, e.Evidence.TRANSCRIPT)
    parts = tuple(words(PartKind.ANSWER) for _ in range(n.how % 3))
    return e.Settle(n.owner, n.run, n.fence, outcome, proof, evidence, "ended", parts, record="{}")


def rebind(n: Now) -> e.Rebind:
    agent = "scripted" if n.how < 4 else "claude"
    return e.Rebind(n.by, n.conversation.id, "project", agent, n.conversation.folder, n.conversation.shared)


USUAL: dict[str, Callable[[Now], Event]] = {
    "say": message,
    "claim": lambda n: e.Claim(n.by, "host", n.later_ms, native(), "standing"),
    "dispatch": lambda n: e.Dispatch(n.owner, n.run, n.fence, f"uuid-{next(NUMBERS)}", "{}"),
    "settle": settle,
    "wait": lambda n: e.Wait(n.owner, n.run, n.fence, "CI", n.time_ms + 1_000, n.time_ms + 5_000),
    "due": lambda n: e.Due(n.by, n.continuation),
    "send": lambda n: e.Send(n.by, n.part, n.time_ms + 1_000),
    "receipt": lambda n: e.Receipt(n.sender, n.part, next(NUMBERS), n.attempt if n.how < 5 else None),
}
RARE: dict[str, Callable[[Now], Event]] = {
    "event": outside,
    "seen": lambda n: e.Seen(n.by, n.conversation.id, next(NUMBERS), "live", caught_up=n.how > 3),
    "edit": lambda n: e.Edit(n.by, n.prompt, "edited"),
    "remove": lambda n: e.Remove(n.by, n.prompt, "removed", n.own),
    "choose": lambda n: e.Choose(n.by, n.conversation.id, run=n.how > 3),
    "attend": lambda n: e.Attend(n.by, n.conversation.id),
    "ask": lambda n: e.AskToContinue(n.by, n.conversation.id, notice()),
    "renew": lambda n: e.Renew(n.owner, n.run, n.fence, n.later_ms),
    "release": lambda n: e.Release(n.owner, n.run, n.fence, "cannot open", counts=n.how > 2, notice=notice()),
    "lease": lambda n: e.LeaseEnded(n.by, n.run, holder_gone=n.how > 4),
    "take over": lambda n: e.TakeOver(n.by, n.run, "host", n.later_ms, holder_gone=n.how > 4),
    "give up": lambda n: e.GiveUp("user:1", n.run, "lost"),
    "native": lambda n: e.NativeIdChanged(n.owner, n.run, n.fence, native()),
    "lost": lambda n: e.SessionLost(n.owner, n.run, n.fence, native(), "standing", notice()),
    "speak": lambda n: e.Say(n.owner, n.run, n.fence, (words(PartKind.NARRATION),)),
    "skip": lambda n: e.Skip(n.owner, n.run, n.fence, "private"),
    "unpark": lambda n: e.Unpark("user:1", n.conversation.id),
    "resume": lambda n: e.Resume("user:1", n.run, 1, "ann", "go on", fresh=n.how % 3 == 0),
    "cancel": lambda n: e.Cancel(n.by, n.continuation, "cancelled", n.own, by_agent=n.how > 5),
    "wake now": lambda n: e.WakeNow(n.by, n.continuation, n.own),
    "stop": lambda n: e.Stop(n.by, n.conversation.id, next(NUMBERS), reset=n.how > 4, only_own=n.own),
    "rebind": rebind,
    "notify": lambda n: e.Notify(n.by, n.conversation.id, (notice(),)),
    "take part": lambda n: e.TakePart(n.by, n.part, n.time_ms + 1_000, holder_gone=n.how > 4),
    "retry": lambda n: e.Retry(n.sender, n.part, n.attempt),
    "absent": lambda n: e.Absent(n.sender, n.part, n.attempt, f"nonce-{next(NUMBERS)}", n.time_ms + 1_000),
    "undecided": lambda n: e.Undecided(n.sender, n.part, n.attempt, "cannot tell"),
    "fail": lambda n: e.Fail(n.sender, n.part, n.attempt, "refused"),
}
PASSES_MS = (1, 700, 1_000, 3_000, 3_001, 8_000, 25_000, 60_000)
#: What usually follows each other; alone, random events would hardly ever get past a claim.
RUNNING = ("say", "claim", "dispatch")
ARMED = (*RUNNING, "wait", "settle")
IN_A_RUN = ("speak", "skip", "native", "renew", "take over", "give up", "stop", "rebind", "wait")
TOGETHER = [
    *((*RUNNING, name, "settle", "resume") for name in IN_A_RUN),
    *(("say", "claim", name, "time") for name in ("release", "lease", "lost", "stop", "renew")),
    *((*ARMED, name, "time") for name in ("cancel", "wake now", "stop", "rebind", "say")),
    *((*ARMED, "time", "time", "due", *after) for after in (("claim", "dispatch"), ("remove",), ("claim", "cancel"), ("claim", "lost"))),
    *(("notify", "send", name, "time") for name in ("receipt", "retry", "fail", "undecided", "take part", "absent")),
    *(("say", name) for name in ("edit", "remove", "choose")),
    ("event", "claim", "dispatch", "settle"),
    ("event", "time", "ask"),
    (*RUNNING, "speak", "stop", "settle"),
    (*RUNNING, "speak", "skip", "settle"),
]
#: What happens, to how new a row, in which variation, in which conversation.
Step = tuple[tuple[str, ...], int, int, int]
STEPS = st.lists(
    st.tuples(
        st.sampled_from([*TOGETHER, *((name,) for name in (*USUAL, *RARE, "time"))]),
        st.sampled_from([0, 0, 0, 1, 2]),
        st.sampled_from([3, 1, 2, 3, 1, 2, 0, 4, 5, 6, 7]),
        st.integers(0, 2),
    ),
    min_size=3,
    max_size=15,
)


@dataclass
class World:
    """One random history in fresh conversations: two of one workspace, one of a shared folder."""

    store: Store
    time: Time
    memory: Memory = field(init=False)
    twice: int = field(init=False)

    async def begin(self) -> None:
        self.twice = next(NUMBERS)
        driver = Driver(self.store, self.time)
        folder = f"/srv/{self.twice}"
        bound = [await driver.bind(self.twice * 10 + place, f"{folder}/{place // 2}", shared=place == 2) for place in range(3)]
        self.memory = Memory(tuple(bound), self.store.rules)

    def now(self, at: int, how: int, where: int) -> Now:
        conversation = list(self.memory.rows[e.Entity.CONVERSATION].values())[where]

        def pick(kind: e.Entity) -> Any:
            here = [row for row in self.memory.rows[kind].values() if row.conversation_id == conversation.id]
            return here[-1 - at % len(here)] if here else None

        by = WORKERS[how % 2]
        run, part = pick(e.Entity.RUN), pick(e.Entity.PART)
        prompt, continuation = pick(e.Entity.PROMPT), pick(e.Entity.CONTINUATION)
        return Now(
            time_ms=self.time.ms,
            how=how,
            by=by,
            conversation=conversation,
            run=run.id if run else NOBODY,
            owner=run.holder if run and how != 5 else by,
            fence=run.fence - (how == 7) if run else 1,
            sender=part.holder if part and part.holder and how != 5 else by,
            attempt=part.attempt if part else 1,
            prompt=prompt.id if prompt else NOBODY,
            continuation=continuation.id if continuation else NOBODY,
            part=part.id if part else NOBODY,
            twice=self.twice,
        )

    async def take(self, step: Step) -> None:
        names, at, how, where = step
        for name in names:
            if name == "time":
                self.time.ms += PASSES_MS[how]
            else:
                await self.happen(name, self.now(at, how, where))

    async def happen(self, name: str, now: Now) -> None:
        event = {**USUAL, **RARE}[name](now)
        if isinstance(event, e.Claim):
            candidate = Candidate(now.conversation.workspace, now.conversation.id)
            expected = self.memory.decide(event, self.time.ms, candidate)
            outcome = await self.store.claim(event, candidate)
        else:
            expected = self.memory.decide(event, self.time.ms)
            outcome = await self.store.do(event)
        if isinstance(expected, Refusal):
            assert outcome == expected, event
        else:
            assert isinstance(outcome, Done), (event, outcome)
            self.memory.apply(expected, outcome)

    async def compare(self) -> None:
        mine = list(self.memory.rows[e.Entity.CONVERSATION])
        async with self.store._engines.read.connect() as conn:  # noqa: SLF001 - a look behind the store's back
            for entity, kind in KINDS.items():
                owner = kind.table.c.id if entity is e.Entity.CONVERSATION else kind.table.c.conversation_id
                found = await conn.execute(select(kind.table).where(owner.in_(mine)).order_by(kind.table.c.id))
                stored = [kind.read(row) for row in found.mappings()]
                assert stored == [self.memory.rows[entity][row_id] for row_id in sorted(self.memory.rows[entity])]


def test_every_kind_of_event_is_in_the_histories() -> None:
    nothing = Now(0, 0, "", BOUND, NOBODY, "", 1, "", 1, NOBODY, NOBODY, NOBODY, 1)
    made = {type(make(nothing)) for make in (*USUAL.values(), *RARE.values())}
    assert made == set(get_args(Event))


@dataclass
class Opened:
    runner: asyncio.Runner
    store: Store
    time: Time


@pytest.fixture
def opened(url: str, time: Time) -> Iterator[Opened]:
    with asyncio.Runner() as runner:
        store = runner.run(Store.open(url, now=time, rules=RULES, instance="worker-1"))
        try:
            yield Opened(runner, store, time)
        finally:
            runner.run(store.aclose())


@pytest.mark.parametrize("examples", [10, pytest.param(400, marks=[pytest.mark.full, pytest.mark.timeout(1200)])])
def test_sql_does_what_the_pure_rules_say(opened: Opened, examples: int) -> None:
    async def history(steps: list[Step]) -> None:
        world = World(opened.store, opened.time)
        await world.begin()
        for step in steps:
            await world.take(step)
        await world.compare()

    @settings(max_examples=examples)
    @given(STEPS)
    def check(steps: list[Step]) -> None:
        opened.runner.run(history(steps))

    check()
