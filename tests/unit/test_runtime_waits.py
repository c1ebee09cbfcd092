"""The bounds of `wait`, and what the agent reads about them."""

from __future__ import annotations

import pytest

from bot.runtime.ports import WaitBounds
from bot.runtime.waits import BadDelay, Planned, moment, plan, reason_of, scheduled

NOW_MS = 1_700_000_000_000
BOUNDS = WaitBounds()


@pytest.mark.parametrize(("delay", "delay_ms"), [("20m", 1_200_000), (90, 90_000), ("2h", 7_200_000), ("1h30m", 5_400_000)])
def test_a_delay_counts_from_now(delay: object, delay_ms: int) -> None:
    planned = plan(delay, NOW_MS, BOUNDS)
    assert isinstance(planned, Planned)
    assert planned.due_at_ms == NOW_MS + delay_ms
    assert planned.clamped == ""


@pytest.mark.parametrize("delay", [0, -5, "-1m", "soon", "", None, True, [], float("nan"), "9" * 400])
def test_what_is_no_delay_is_an_error_that_says_what_is_accepted(delay: object) -> None:
    bad = plan(delay, NOW_MS, BOUNDS)
    assert isinstance(bad, BadDelay)
    assert "between 30s and 24h" in bad.says
    assert "Nothing was scheduled" in bad.says
    assert len(bad.says) < 300


@pytest.mark.parametrize(("delay", "delay_ms", "word"), [("1s", 30_000, "raised to 30s"), ("40d", 86_400_000, "cut to 24h")])
def test_outside_the_bounds_it_is_clamped_and_the_result_says_so(delay: str, delay_ms: int, word: str) -> None:
    planned = plan(delay, NOW_MS, BOUNDS)
    assert isinstance(planned, Planned)
    assert planned.delay_ms == delay_ms
    assert word in scheduled(17, planned)


@pytest.mark.parametrize(("delay", "grace_ms"), [("1m", 3_600_000), ("5h", 18_000_000), ("24h", 86_400_000)])
def test_it_expires_an_hour_or_the_delay_after_its_due_time_and_a_day_at_most(delay: str, grace_ms: int) -> None:
    planned = plan(delay, NOW_MS, BOUNDS)
    assert isinstance(planned, Planned)
    assert planned.expires_at_ms - planned.due_at_ms == grace_ms


def test_the_result_is_the_sentence_of_the_design() -> None:
    planned = plan("20m", 1_700_000_000_000 + 1_805_000, BOUNDS)
    assert isinstance(planned, Planned)
    assert scheduled(17, planned) == (
        "[scheduled] c17: wakes at 23:03:25Z (in 20m). End your turn now. It is dropped if this turn fails or is stopped."
    )


def test_a_reason_is_one_bounded_line_and_must_be_there() -> None:
    assert reason_of("look\nat  CI") == "look at CI"
    assert reason_of("  ") is None
    assert reason_of(5) is None
    assert len(reason_of("x" * 5_000) or "") == 1_000


def test_another_day_is_told_with_its_date() -> None:
    assert moment(NOW_MS - 86_400_000, NOW_MS) == "2023-11-13 22:13:20Z"
    assert moment(NOW_MS, NOW_MS) == "22:13:20Z"
