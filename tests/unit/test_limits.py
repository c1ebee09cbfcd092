"""When a usage limit ends, and what follows: the program's own words, times that cannot be, and tries that are enough."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from bot.agents.base import EndKind, RunEnded
from bot.agents.claude.limits import is_limit, reset_ms
from bot.runtime.limits import after_limit
from tests.unit.rows import NOW, prompt, run

MINUTE, DAY = 60_000, 24 * 3_600_000


def at(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1000)


@pytest.mark.parametrize(
    ("said", "now", "resets"),
    [
        ("You've hit your limit - resets 4am (Asia/Dhaka)", "2026-03-01T12:00", "2026-03-01T22:00"),
        ("You've hit your 5-hour limit · resets 9:13pm (UTC)", "2026-03-01T20:00", "2026-03-01T21:13"),
        # Past by a moment: the same hour of tomorrow.
        ("You've hit your 5-hour limit · resets 9:13pm (UTC)", "2026-03-01T21:13", "2026-03-02T21:13"),
        ("You've hit your session limit · resets 3:20am (America/New_York)", "2026-07-01T06:00", "2026-07-01T07:20"),
        ("resets 12am (UTC)", "2026-03-01T20:00", "2026-03-02T00:00"),
        ("resets 12:30pm (UTC)", "2026-03-01T11:00", "2026-03-01T12:30"),
        # The night in which the clocks go forward.
        ("resets 5am (Europe/Berlin)", "2026-03-28T22:00", "2026-03-29T03:00"),
        ("You've hit your weekly limit · resets Dec 9 at 5pm (Europe/Berlin)", "2026-12-07T10:00", "2026-12-09T16:00"),
        ("You've hit your weekly limit · resets Jan 2, 9am (UTC)", "2026-12-30T10:00", "2027-01-02T09:00"),
        ("resets 4am (Mars/Olympus)", "2026-03-01T12:00", None),
        ("resets 4am (../../etc/passwd)", "2026-03-01T12:00", None),
        ("resets 14pm (UTC)", "2026-03-01T12:00", None),
        ("resets 4:75am (UTC)", "2026-03-01T12:00", None),
        ("resets Feb 31 at 4am (UTC)", "2026-03-01T12:00", None),
        ("resets Foo 3 at 4am (UTC)", "2026-03-01T12:00", None),
        ("You've hit your limit", "2026-03-01T12:00", None),
    ],
)
def test_the_programs_words_say_when(said: str, now: str, resets: str | None) -> None:
    assert reset_ms(said, at(now)) == (None if resets is None else at(resets))


@pytest.mark.parametrize(
    ("said", "limit"),
    [("You\u2019ve reached your 5-hour limit", True), ("you've hit your limit", True), ("The limit of the pool is 4", False)],
)
def test_only_the_programs_words_for_it_are_a_limit(said: str, limit: bool) -> None:
    assert is_limit(said) is limit


def limited(resets_ms: int | None, tried: int = 0) -> tuple[int, str | None, str]:
    prompts = [prompt(1), prompt(2, source_key=f"again:{tried}:55" if tried else "resume:55")]
    after = after_limit(run(7), prompts, RunEnded(EndKind.LIMIT, resets_at_ms=resets_ms), NOW)
    return after.until_ms - NOW, None if after.again is None else after.again.source_key, after.notice.text


@pytest.mark.parametrize(
    ("resets_ms", "held_ms"),
    [
        (NOW + MINUTE, MINUTE + 5_000),
        (NOW + 8 * DAY, 8 * DAY + 5_000),
        (NOW + 8 * DAY + 1, 15 * MINUTE),
        (NOW, 15 * MINUTE),
        (NOW - DAY, 15 * MINUTE),
        (None, 15 * MINUTE),
    ],
)
def test_a_time_that_cannot_be_is_not_believed(resets_ms: int | None, held_ms: int) -> None:
    until_ms, again, text = limited(resets_ms)
    assert (until_ms, again) == (held_ms, "again:1:7")
    assert ("It is not known until when" in text) is (held_ms == 15 * MINUTE)


@pytest.mark.parametrize(
    ("resets_ms", "tried", "again"),
    [(NOW + MINUTE, 4, "again:5:7"), (NOW + MINUTE, 5, None), (None, 1, None), (NOW - 1, 1, None)],
)
def test_it_is_tried_so_often_and_then_people_decide(resets_ms: int | None, tried: int, again: str | None) -> None:
    _, key, text = limited(resets_ms, tried)
    assert key == again
    assert ("only goes on if you resume it" in text) is (again is None)
