"""What the rules decide is kept whole: every decision of a unit test, with all columns that it writes, is in `__snapshots__`.

A test says what matters about a decision; the file shows the rest, so that no change of a rule goes unseen. After one that is
meant: `just decisions`, then read what `git diff` shows.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from syrupy.assertion import SnapshotAssertion

from tests.unit import rows


@pytest.fixture(autouse=True)
def whole_decisions(snapshot: SnapshotAssertion) -> Iterator[None]:
    """Compare the decisions of a test with those that are kept."""
    rows.decisions.clear()
    yield
    if rows.decisions:
        assert "\n".join(rows.decisions) == snapshot
