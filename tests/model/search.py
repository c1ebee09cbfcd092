"""Breadth-first search over a model: every reachable state, the shortest way to a violation, and whether all ways end at rest."""

from __future__ import annotations

import gc
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field
from typing import Any, Protocol

from tests.model.world import Fired


@dataclass(frozen=True, slots=True)
class Step:
    """One step from a state: what happens, where it leads, or what it breaks."""

    label: str
    after: Hashable | None
    #: The system does it by itself; the others are inputs from outside and faults, which may stop coming.
    by_itself: bool
    broken: str | None = None


class Model(Protocol):
    """What is explored."""

    #: Moves of the table that some step made.
    fired: set[Fired]

    def initial(self) -> Any:
        """Where everything begins."""

    def steps(self, state: Any) -> Iterable[Step]:
        """All that can happen next."""

    def at_rest(self, state: Any) -> str | None:
        """None if nothing is left to do; else what is stuck. Asked where the system has no step of its own."""

    def show(self, state: Any) -> str:
        """One line for a person."""


@dataclass(slots=True)
class Found:
    """What a search saw."""

    states: int
    steps: int
    depth: int
    violation: str | None = None
    trace: list[str] = field(default_factory=list)
    complete: bool = True

    def story(self) -> str:
        """The counterexample for people."""
        if self.violation is None:
            return f"no violation in {self.states:,} states"
        lines = [f"{number:3}. {line}" for number, line in enumerate(self.trace, 1)]
        return "\n".join([f"VIOLATION after {len(self.trace)} steps: {self.violation}", *lines])


def explore(model: Model, *, limit: int = 10_000_000, rest: bool = True) -> Found:
    """Visit every state, shortest ways first; stops at the first violation. With `rest`: then prove that the system comes to rest."""
    # Nothing here is garbage until the search is over; looking for it costs half the time.
    collecting = gc.isenabled()
    gc.disable()
    try:
        return _explore(model, limit, rest=rest)
    finally:
        if collecting:
            gc.enable()


def _explore(model: Model, limit: int, *, rest: bool) -> Found:
    start = model.initial()
    number: dict[Hashable, int] = {start: 0}
    states: list[Hashable] = [start]
    parents: list[tuple[int, str]] = [(-1, "")]
    depth = [0]
    own: list[list[int]] = []
    steps = 0
    at = 0
    while at < len(states):
        if len(states) > limit:
            return Found(len(states), steps, depth[-1], complete=False)
        state = states[at]
        mine: list[int] = []
        for step in model.steps(state):
            steps += 1
            if step.broken is not None:
                trace = [*_trace(model, states, parents, at), step.label]
                return Found(len(states), steps, depth[at] + 1, step.broken, trace)
            after = step.after
            index = number.get(after)
            if index is None:
                index = number[after] = len(states)
                states.append(after)
                parents.append((at, step.label))
                depth.append(depth[at] + 1)
            if rest and step.by_itself and index != at:
                mine.append(index)
        own.append(mine)
        at += 1
    found = Found(len(states), steps, depth[-1])
    if rest:
        _comes_to_rest(model, states, parents, own, found)
    return found


def _trace(model: Model, states: list[Hashable], parents: list[tuple[int, str]], at: int) -> list[str]:
    lines: list[str] = []
    while at > 0:
        before, label = parents[at]
        lines.append(f"{label}\n        {model.show(states[at])}")
        at = before
    return lines[::-1]


def _comes_to_rest(model: Model, states: list[Hashable], parents: list[tuple[int, str]], own: list[list[int]], found: Found) -> None:
    """Without inputs and faults every way is finite (no cycle of the system's own steps), and its end is at rest."""
    waiting = [0] * len(states)
    for targets in own:
        for target in targets:
            waiting[target] += 1
    ready = [index for index, number in enumerate(waiting) if number == 0]
    done = 0
    while ready:
        index = ready.pop()
        done += 1
        for target in own[index]:
            waiting[target] -= 1
            if waiting[target] == 0:
                ready.append(target)
    if done != len(states):
        at = next(index for index, number in enumerate(waiting) if number)
        found.violation, found.trace = "the system can go round in a circle by itself", _trace(model, states, parents, at)
        return
    for index, targets in enumerate(own):
        stuck = None if targets else model.at_rest(states[index])
        if stuck is not None:
            found.violation, found.trace = f"the system is stuck: {stuck}", _trace(model, states, parents, index)
            return
