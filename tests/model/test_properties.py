"""Whatever happens, in any order and with any stale or wrong number in it: no decision breaks an invariant or leaves the table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from storage import events as e
from storage.events import Event, NewPart, Refusal
from storage.models import Conversation, ConversationId, PartKind, PromptKind, Rules, Snapshot
from storage.states import PartState, RunState, terminal
from storage.transitions import decide
from tests.model import checks, invariants
from tests.model.world import Applied, Fired, apply

RULES = Rules(unattended_runs=2, unattended_ms=100_000, queue_limit=4, nonce_window_ms=5_000, words_expire_ms=50_000)
WORKERS = ("w0", "w1", "w2")
OUTCOMES: tuple[Any, ...] = (RunState.SUCCEEDED, RunState.FAILED, RunState.INTERRUPTED)
KINDS = (PartKind.ANSWER, PartKind.NARRATION, PartKind.SENT, PartKind.NOTICE)


@dataclass
class Life:
    """A database, a clock that may go backwards, and numbers from which events are made."""

    snap: Snapshot
    now_ms: int = 1_000_000
    used: int = 0
    moves: set[Fired] = field(default_factory=set)
    log: list[tuple[int, Event, Any]] = field(default_factory=list)

    def fresh(self) -> int:
        self.used += 1
        return self.used

    def part(self, n: int) -> NewPart:
        return NewPart(KINDS[n % 4], "words", f"nonce{self.fresh()}")

    def notice(self) -> NewPart:
        return NewPart(PartKind.NOTICE, "notice", f"nonce{self.fresh()}")

    def do(self, event: Event) -> None:
        before = self.snap
        changes = decide(before, event, self.now_ms, RULES)
        self.log.append((self.now_ms, event, changes))
        if isinstance(changes, Refusal):
            return
        # Raises where the store would roll back a decision on what is there now, or where a rule leaves the table.
        applied: Applied = apply(before, changes)
        self.snap = applied.snapshot
        self.moves |= set(applied.moves)
        problems = [
            *invariants.broken(self.snap),
            *checks.wrong(before, event, changes, self.snap, self.now_ms, RULES),
            *self.ended(before),
        ]
        assert not problems, "\n".join([*problems, *(f"{now}: {what} -> {follows}" for now, what, follows in self.log)])

    def ended(self, before: Snapshot) -> list[str]:
        """What has ended stays as it ended (an unknown part may still turn out to be delivered)."""
        old = {(type(row), row.id): row.state for rows in (before.prompts, before.runs, before.continuations, before.parts) for row in rows}
        now = {
            (type(r), r.id): r.state for rows in (self.snap.prompts, self.snap.runs, self.snap.continuations, self.snap.parts) for r in rows
        }
        return [
            f"{kind.__name__} {row_id} was {state} and is {now[kind, row_id]}"
            for (kind, row_id), state in old.items()
            if terminal(state) and now[kind, row_id] is not state and state is not PartState.UNKNOWN
        ]


Maker = Callable[[Life, int, int, int], Event | None]


def pick(rows: tuple[Any, ...], n: int) -> Any:
    """One of the newer rows."""
    return rows[-1 - n % min(len(rows), 4)] if rows else None


def by_owner(make: Callable[[Life, Any, str, int, int], Event]) -> Maker:
    """Mostly the owner with its fence; sometimes somebody else or an old fence."""

    def maker(life: Life, a: int, b: int, c: int) -> Event | None:
        run = pick(life.snap.runs, a)
        if run is None:
            return None
        by = run.holder if b % 8 else WORKERS[c % 3]
        return make(life, run, by, run.fence - (b % 8 == 1), c)

    return maker


def on(rows: str, make: Callable[[Life, Any, int, int], Event]) -> Maker:
    def maker(life: Life, a: int, b: int, c: int) -> Event | None:
        row = pick(getattr(life.snap, rows), a)
        return None if row is None else make(life, row, b, c)

    return maker


def _arrive(life: Life, conversation: Any, b: int, c: int) -> Event:
    message = 1 + (c % 9 if b % 4 == 0 else life.fresh() + 10)
    event = b % 5 == 0
    session = next((s.id for s in reversed(life.snap.sessions) if s.conversation_id == conversation.id), None)
    return e.Arrive(
        "gateway",
        conversation.id,
        PromptKind.EVENT if event else PromptKind.USER,
        life.now_ms - 7_000_000 * (b % 7 == 0) - c,
        1 + c % 2,
        "",
        "x" * (1_950 if b % 3 == 0 else 3),
        f"message:{message}",
        addressed=b % 2 == 0,
        message_id=None if event else message,
        session_id=session if event else None,
        source=("live", "catch_up", "internal")[c % 3],
        caught_up=c % 2 == 0,
    )


MAKERS: tuple[Maker, ...] = (
    on("conversations", _arrive),
    on("conversations", _arrive),
    lambda life, a, b, c: e.Claim(WORKERS[a % 3], "host", life.now_ms + 1_000, f"native{b}", ""),
    lambda life, a, b, c: e.Claim(WORKERS[a % 3], "host", life.now_ms + 1_000, f"native{b}", ""),
    by_owner(lambda life, run, by, fence, c: e.Dispatch(by, run.id, fence, f"uuid{life.fresh()}", "process")),
    by_owner(lambda life, run, by, fence, c: e.Dispatch(by, run.id, fence, f"uuid{life.fresh()}", "process")),
    by_owner(
        lambda life, run, by, fence, c: e.Settle(
            by,
            run.id,
            fence,
            OUTCOMES[0 if c % 5 else c % 3],
            tuple(e.Proof)[c % 3],
            tuple(e.Evidence)[c % 3 if c % 2 else 0],
            "ended",
            parts=(life.part(c),) * (c % 4 > 0),
            notices=(life.notice(),) * (c % 7 == 0),
            park_until_ms=life.now_ms + 5_000 if c % 31 == 0 else None,
            again=e.Again("go on", f"again:1:{run.id}") if c % 31 == 0 else None,
        )
    ),
    by_owner(lambda life, run, by, fence, c: e.Settle(by, run.id, fence, RunState.SUCCEEDED, e.Proof.SWEPT, e.Evidence.STREAM, "ended")),
    by_owner(lambda life, run, by, fence, c: e.Wait(by, run.id, fence, "later", life.now_ms + c, life.now_ms + c + 10_000)),
    by_owner(lambda life, run, by, fence, c: e.Say(by, run.id, fence, (life.part(c), life.part(c + 1)))),
    by_owner(lambda life, run, by, fence, c: e.Skip(by, run.id, fence, "private")),
    by_owner(lambda life, run, by, fence, c: e.Renew(by, run.id, fence, life.now_ms + 1_000)),
    by_owner(lambda life, run, by, fence, c: e.Release(by, run.id, fence, "cannot be opened", c % 2 == 0, life.notice())),
    by_owner(lambda life, run, by, fence, c: e.SessionLost(by, run.id, fence, "native", "", life.notice())),
    by_owner(lambda life, run, by, fence, c: e.NativeIdChanged(by, run.id, fence, f"native{c}")),
    on("runs", lambda life, run, b, c: e.LeaseEnded(WORKERS[c % 3], run.id, b % 3 == 0, life.notice())),
    on("runs", lambda life, run, b, c: e.TakeOver(WORKERS[c % 3], run.id, "host" if b % 5 else "other", life.now_ms + 1_000, b % 3 == 0)),
    on("runs", lambda life, run, b, c: e.GiveUp("user:1", run.id, "lost") if b % 4 == 0 else e.Attend("user:1", run.conversation_id)),
    on("runs", lambda life, run, b, c: e.Resume("user:1", run.id, 1, "", "go on", fresh=b % 3 == 0)),
    on("continuations", lambda life, row, b, c: e.Due("w0", row.id, life.notice())),
    on("continuations", lambda life, row, b, c: e.Due("w0", row.id)),
    on("continuations", lambda life, row, b, c: e.Cancel("user:1", row.id, "no", 1 + b % 2 if c % 2 else None, b % 2 == 0)),
    on("continuations", lambda life, row, b, c: e.WakeNow("user:1", row.id, 1 + b % 2 if c % 2 else None)),
    on("prompts", lambda life, row, b, c: e.Remove("user:1", row.id, "gone", 1 + b % 2 if c % 2 else None)),
    on("prompts", lambda life, row, b, c: e.Edit("gateway", row.id, "y" * (1 + c))),
    on("conversations", lambda life, row, b, c: e.Unpark("user:1", row.id)),
    on("conversations", lambda life, row, b, c: e.Choose("user:1", row.id, b % 2 == 0)),
    on("conversations", lambda life, row, b, c: e.Attend("user:1", row.id)),
    on("conversations", lambda life, row, b, c: e.AskToContinue("w0", row.id, life.notice())),
    on("conversations", lambda life, row, b, c: e.Seen("gateway", row.id, 1 + c, "live", b % 2 == 0)),
    on("conversations", lambda life, row, b, c: e.Stop("user:1", row.id, life.used + c % 5, b % 2 == 0, 1 + b % 2 if c % 3 == 0 else None)),
    on("conversations", lambda life, row, b, c: e.Rebind("config", row.id, "p", "a", ("/p", "/q")[b % 2], c % 5 == 0)),
    on("conversations", lambda life, row, b, c: e.Notify("w0", row.id, (life.notice(),))),
    on("parts", lambda life, row, b, c: e.Send(WORKERS[c % 3], row.id, life.now_ms + 3_000)),
    on("parts", lambda life, row, b, c: e.Send(WORKERS[c % 3], row.id, life.now_ms + 3_000)),
    on("parts", lambda life, row, b, c: e.TakePart(WORKERS[c % 3], row.id, life.now_ms + 3_000, b % 3 == 0)),
    on("parts", lambda life, row, b, c: e.Receipt(row.holder or "w0", row.id, 1 + c, row.attempt if b % 2 else None)),
    on("parts", lambda life, row, b, c: e.Retry(row.holder or "w0", row.id, row.attempt - (b % 5 == 0))),
    on("parts", lambda life, row, b, c: e.Absent(row.holder or "w0", row.id, row.attempt, f"nonce{life.fresh()}", life.now_ms + 3_000)),
    on("parts", lambda life, row, b, c: e.Undecided(row.holder or "w0", row.id, row.attempt, "unclear")),
    on("parts", lambda life, row, b, c: e.Fail(row.holder or "w0", row.id, row.attempt, "forbidden")),
)
#: How far the clock moves before the next event.
LEAPS_MS = (0, 0, 1, 10, 700, 1_000, 4_000, 6_000, 60_000, 200_000, -500, -10_000)

numbers = st.integers(0, 97)
happening = st.tuples(st.integers(0, len(MAKERS) - 1), st.integers(0, len(LEAPS_MS) - 1), numbers, numbers, numbers)


@settings(max_examples=120, deadline=None)
@given(st.booleans(), st.lists(happening, min_size=20, max_size=90))
def test_no_order_of_events_breaks_an_invariant(shared: bool, happenings: list[tuple[int, int, int, int, int]]) -> None:
    conversations = tuple(Conversation(ConversationId(i), 100 + i, 1, "p", "a", "/p", shared, 0, attended_at_ms=1_000_000) for i in (1, 2))
    life = Life(Snapshot(conversations))
    for maker, leap, a, b, c in happenings:
        life.now_ms += LEAPS_MS[leap]
        event = MAKERS[maker](life, a, b, c)
        if isinstance(event, e.Claim) and shared:
            # The store loads one conversation where the folder is shared.
            continue
        if event is not None:
            life.do(event)


def test_such_lives_make_nearly_every_move_of_the_table() -> None:
    """The sequences are worth something: fixed ones get nearly everywhere (the search in `test_explore` gets everywhere)."""
    random = Random(7)
    moves: set[Fired] = set()
    for _ in range(60):
        life = Life(Snapshot((Conversation(ConversationId(1), 101, 1, "p", "a", "/p", False, 0, attended_at_ms=1_000_000),)))
        for _ in range(150):
            life.now_ms += random.choice(LEAPS_MS)
            event = random.choice(MAKERS)(life, random.randrange(98), random.randrange(98), random.randrange(98))
            if event is not None:
                life.do(event)
        moves |= life.moves
    assert len(moves) >= 33, sorted(f"{kind.__name__} {before} -> {after}" for kind, before, after in moves)
