from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.durations import DurationError, format_duration, parse_duration


@pytest.mark.parametrize(
    ("written", "expected_ms"),
    [
        ("90s", 90_000),
        ("20m", 1_200_000),
        ("2h", 7_200_000),
        ("1h30m", 5_400_000),
        ("1h 30m", 5_400_000),
        (" 2 H ", 7_200_000),
        ("1.5h", 5_400_000),
        ("3d", 259_200_000),
        ("250ms", 250),
        ("90", 90_000),
        (90, 90_000),
        (1.5, 1_500),
    ],
)
def test_every_usual_way_to_write_a_duration_is_read(written: object, expected_ms: int) -> None:
    assert parse_duration(written) == expected_ms


@pytest.mark.parametrize(
    "written", ["soon", "", "5x", "20m later", "m", "1:30", "0x10", "٣m", None, True, [], float("nan"), float("inf"), 1e308, "9" * 100]
)
def test_what_is_no_duration_is_refused_and_the_error_says_what_is_accepted(written: object) -> None:
    with pytest.raises(DurationError, match=r"is not a duration: write seconds as a number, or text such as '90s', '20m'"):
        parse_duration(written)


@pytest.mark.parametrize("written", [0, -5, "0", "-20m", "0s", "0.0001ms", -0.5])
def test_nothing_and_less_than_nothing_are_refused(written: object) -> None:
    with pytest.raises(DurationError, match="longer than nothing"):
        parse_duration(written)


def test_an_absurd_number_of_seconds_is_read_exactly_so_that_the_caller_can_clamp_it() -> None:
    assert parse_duration(10**30) == 10**33


@given(st.integers(min_value=1, max_value=10**9))
def test_whole_seconds_survive_being_written_and_read(seconds: int) -> None:
    assert parse_duration(format_duration(seconds * 1_000)) == seconds * 1_000


@pytest.mark.parametrize(
    ("duration_ms", "expected"),
    [
        (0, "0s"),
        (250, "250ms"),
        (1_000, "1s"),
        (1_499, "1s"),
        (59_999, "1m"),
        (1_200_000, "20m"),
        (5_400_000, "1h30m"),
        (259_200_000, "72h"),
        (-90_000, "-1m30s"),
    ],
)
def test_a_duration_is_written_as_people_write_it(duration_ms: int, expected: str) -> None:
    assert format_duration(duration_ms) == expected
