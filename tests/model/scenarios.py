"""The worlds that are explored: small ones in every test run, the full ones by `python -m tests.model.full`."""

from __future__ import annotations

from collections.abc import Callable

from tests.model import intake
from tests.model.outbox import OutboxModel
from tests.model.outbox_state import Outside
from tests.model.runs import Runs
from tests.model.runs_state import Budget, Scenario
from tests.model.search import Model

Worlds = dict[str, Callable[[], Model]]


def _runs(budget: Budget, **scenario: object) -> Callable[[], Model]:
    return lambda: Runs(Scenario(budget, **scenario))  # type: ignore[arg-type]


def _outbox(parts: str = "aa", **outside: int) -> Callable[[], Model]:
    return lambda: OutboxModel(Outside(**outside), parts)


def _intake(messages: str, **outside: int) -> Callable[[], Model]:
    return lambda: intake.Intake(intake.Outside(messages, **outside))


#: A few seconds each at most.
SMALL: Worlds = {
    "two conversations in one folder": _runs(Budget(messages=3, admin=1)),
    "two conversations, a hang and a crash": _runs(Budget(messages=2, crashes=1, hangs=1)),
    "two conversations in a shared folder": _runs(Budget(messages=2, waits=1), shared=True),
    "a continuation and its successor": _runs(Budget(messages=1, waits=2, admin=1, crashes=1), conversations=1, authors=1),
    "a person and a wake": _runs(Budget(messages=2, waits=1, admin=1, sessions_lost=1), conversations=1, authors=1),
    "the unattended bound": _runs(Budget(messages=2, waits=2, admin=1, expiries=1), unattended_runs=1, conversations=1, authors=1),
    "failures and Resume": _runs(Budget(messages=1, resumes=2, waits=1, open_failures=3, errors=1, deaths=1), conversations=1, authors=1),
    "a hang and a takeover": _runs(Budget(messages=1, waits=1, hangs=1, crashes=1, admin=1), conversations=1, authors=1),
    "a session that ends by another hand": _runs(Budget(messages=1, waits=1, hands=1, crashes=1), conversations=1, authors=1),
    "two claims at once": _runs(Budget(messages=2, races=1), reduce=False),
    "two claims at once in a shared folder": _runs(
        Budget(messages=2, waits=1, races=1), shared=True, conversations=1, authors=1, reduce=False
    ),
    "intake by two processes": _intake("pb", crashes=1, drops=1, replays=1, page=1),
    "intake and stop": _intake("pp", stops=2, crashes=1, drops=0, replays=1, processes=1),
    "intake of old messages": _intake("pp", old_until=10, stops=1, choices=1, crashes=1, drops=0, replays=0, processes=1),
    "outbox with a lost answer": _outbox(),
    "outbox and a process that hangs": _outbox(hangs=1, crashes=0),
    "outbox and stop": _outbox("an", stops=1),
    "outbox that cannot know": _outbox("a", lost=1, unclear=1, refusals=1, late=1),
    "outbox and a clock that goes backwards": _outbox("a", lost=1, clock=1),
}

#: What the design promises, with as many things from outside at once as can be explored in minutes.
FULL: Worlds = {
    "two people, two conversations in one folder, a wait, an admin, a crash": _runs(Budget(messages=2, waits=1, admin=1, crashes=1)),
    "the same with a hang": _runs(
        Budget(messages=2, waits=1, admin=1, hangs=1), admin=frozenset({"stop", "reset", "cancel", "remove"}), authors=1
    ),
    "two conversations in a shared folder, a wait, an admin, a crash": _runs(Budget(messages=2, waits=1, admin=1, crashes=1), shared=True),
    "a shared folder, a hang and a crash": _runs(Budget(messages=2, waits=1, crashes=1, hangs=1), shared=True, authors=1),
    "a continuation and its successor, expiry, a crash, a hang": _runs(
        Budget(messages=1, waits=2, admin=1, crashes=1, hangs=1, expiries=1), unattended_runs=2
    ),
    "two admin's actions, two crashes, two hangs": _runs(
        Budget(messages=1, waits=1, admin=2, crashes=2, hangs=2), conversations=1, authors=1
    ),
    "three waits in a row, two admin's actions, a crash": _runs(
        Budget(messages=1, waits=3, admin=2, crashes=1), conversations=1, authors=1
    ),
    "the unattended bound, an admin, a crash": _runs(
        Budget(messages=2, waits=2, admin=1, crashes=1, expiries=1), unattended_runs=1, conversations=1
    ),
    "failures, Resume pressed twice, a lost session, a crash": _runs(
        Budget(messages=1, resumes=2, waits=1, open_failures=3, sessions_lost=1, errors=1, deaths=1, crashes=1), conversations=1, authors=1
    ),
    "failures and Resume behind another message": _runs(
        Budget(messages=2, resumes=1, waits=1, open_failures=1, sessions_lost=1, errors=1, crashes=1), conversations=1, authors=1
    ),
    "three messages, a wait, a lost session, an admin": _runs(Budget(messages=3, waits=1, admin=1, sessions_lost=1), authors=1),
    "two messages, two waits, a lost session, an admin, a crash": _runs(
        Budget(messages=2, waits=2, admin=1, crashes=1, sessions_lost=1), conversations=1
    ),
    "third release": _runs(Budget(messages=1, waits=1, open_failures=4, crashes=2, resumes=1), conversations=1, authors=1),
    "a session that ends by another hand": _runs(Budget(messages=2, waits=2, hands=1, crashes=1, hangs=1), conversations=1, authors=1),
    "two claims at once": _runs(Budget(messages=2, races=1, open_failures=1, admin=1), reduce=False),
    "two claims at once in a shared folder": _runs(
        Budget(messages=2, waits=1, races=1, admin=1), shared=True, conversations=1, authors=1, reduce=False
    ),
    "intake of three messages by two processes": _intake("pbp", crashes=1, drops=1, replays=1),
    "intake by two processes and stop": _intake("pp", crashes=1, drops=1, replays=1, stops=1, page=1),
    "intake of old messages, stop, Run and Discard": _intake("ppp", old_until=20, stops=1, choices=2, crashes=1, drops=1, processes=1),
    "outbox with two lost answers, a crash, a stop": _outbox("an", lost=2, crashes=1, stops=1),
    "outbox with three parts": _outbox("aaa", lost=1, crashes=1),
    "outbox that cannot know, refusals, words too late": _outbox(lost=2, crashes=1, unclear=1, refusals=1, late=1),
    "outbox, hangs, a crash, a stop": _outbox(lost=1, crashes=1, hangs=1, stops=1),
    "outbox and a clock that goes backwards": _outbox(lost=1, crashes=1, clock=2),
}
