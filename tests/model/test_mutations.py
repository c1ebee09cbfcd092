"""A rule broken on purpose is found: otherwise the search proves nothing."""

from __future__ import annotations

import pytest

from tests.model.mutations import MUTATIONS, Mutation


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda m: m.name)
def test_a_broken_rule_has_a_counterexample(mutation: Mutation) -> None:
    found = mutation.search()
    print(f"{mutation.name} ({mutation.broken_rule})\n{found.story()}")  # noqa: T201 - the counterexample is what this is for
    assert found.violation is not None
    assert found.violation.startswith(mutation.expect), found.story()
    assert found.trace
