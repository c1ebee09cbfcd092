"""The full bounds: `just model-full`."""

from __future__ import annotations

import pytest

from tests.model.full import main


@pytest.mark.full
@pytest.mark.timeout(3_600)
def test_no_state_within_the_full_bounds_breaks_a_promise() -> None:
    assert main(workers=2) == 0
