"""Every reachable state of small worlds, with the product's own rules."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from storage.states import EDGES
from tests.model.scenarios import SMALL
from tests.model.search import Found, explore
from tests.model.world import Fired


@dataclass
class Explored:
    """Each world is explored once, whichever test asks first."""

    found: dict[str, Found] = field(default_factory=dict)
    fired: set[Fired] = field(default_factory=set)

    def world(self, name: str) -> Found:
        if name not in self.found:
            model = SMALL[name]()
            self.found[name] = explore(model)
            self.fired |= model.fired
        return self.found[name]


@pytest.fixture(scope="module")
def explored() -> Explored:
    return Explored()


@pytest.mark.parametrize("name", SMALL)
def test_no_reachable_state_breaks_a_promise_and_everything_comes_to_rest(name: str, explored: Explored) -> None:
    found = explored.world(name)
    print(f"{name}: {found.states:,} states, {found.steps:,} steps, {found.depth} deep")  # noqa: T201 - the number is part of the proof
    assert found.violation is None, found.story()
    assert found.complete


def test_every_move_of_the_table_happens(explored: Explored) -> None:
    for name in SMALL:
        explored.world(name)
    never = [
        f"{type(edge.after).__name__} {edge.before} -> {edge.after}"
        for edge in EDGES
        if (type(edge.after), edge.before, edge.after) not in explored.fired
    ]
    print(f"{sum(found.states for found in explored.found.values()):,} states in all; moves that never happen: {never or 'none'}")  # noqa: T201 - as above
    assert never == []
