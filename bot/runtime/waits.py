"""The bounds of `wait`, and the words in which times are told to the agent. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from bot.durations import ACCEPTED, DurationError, format_duration, parse_duration
from bot.runtime.ports import WaitBounds

#: A reason is a reminder to the agent itself; what is longer is cut.
_REASON_CHARACTERS = 1_000


@dataclass(frozen=True, slots=True)
class Planned:
    """When a wait wakes and expires, and what the agent is told about its own wish."""

    due_at_ms: int
    expires_at_ms: int
    delay_ms: int
    #: Empty, or why the delay is not the one asked for.
    clamped: str


@dataclass(frozen=True, slots=True)
class BadDelay:
    """Not a delay; `says` what is accepted."""

    says: str


def plan(delay: object, now_ms: int, bounds: WaitBounds) -> Planned | BadDelay:
    """Read a delay as the model wrote it, counted from now. Outside the bounds it is clamped and the result says so."""
    accepted = f"Write {ACCEPTED}, between {format_duration(bounds.min_ms)} and {format_duration(bounds.max_ms)}."
    try:
        asked_ms = parse_duration(delay)
    except DurationError:
        return BadDelay(f"[error] {_shown(delay)} is not a delay. {accepted} Nothing was scheduled.")
    delay_ms = min(max(asked_ms, bounds.min_ms), bounds.max_ms)
    clamped = ""
    if asked_ms < bounds.min_ms:
        clamped = f"The delay was raised to {format_duration(bounds.min_ms)}, the shortest allowed."
    elif asked_ms > bounds.max_ms:
        clamped = f"The delay was cut to {format_duration(bounds.max_ms)}, the longest allowed."
    grace_ms = min(max(bounds.expire_after_ms, delay_ms), bounds.expire_max_ms)
    due_at_ms = now_ms + delay_ms
    return Planned(due_at_ms, due_at_ms + grace_ms, delay_ms, clamped)


def reason_of(value: object) -> str | None:
    """The reason as it is stored, on one line; None if there is none."""
    if not isinstance(value, str) or not value.strip():
        return None
    return " ".join(value.split())[:_REASON_CHARACTERS]


def scheduled(continuation_id: int, planned: Planned, replaces: int | None = None) -> str:
    """What `wait` answers (design section 6)."""
    wakes = f"[scheduled] c{continuation_id}: wakes at {clock_time(planned.due_at_ms)} (in {format_duration(planned.delay_ms)})."
    lines = [wakes, "End your turn now. It is dropped if this turn fails or is stopped."]
    if planned.clamped:
        lines.append(planned.clamped)
    if replaces is not None:
        lines.append(f"It takes the place of c{replaces} when this turn has ended well.")
    return " ".join(lines)


def clock_time(at_ms: int) -> str:
    """A time of day for the agent: "14:32:05Z"."""
    return datetime.fromtimestamp(at_ms / 1_000, UTC).strftime("%H:%M:%SZ")


def minute(at_ms: int) -> str:
    """The same without seconds: "14:32Z"."""
    return datetime.fromtimestamp(at_ms / 1_000, UTC).strftime("%H:%MZ")


def moment(at_ms: int, now_ms: int) -> str:
    """The time of day, with the date where that is another day: "14:32:05Z", "2026-11-29 14:32:05Z"."""
    at, now = (datetime.fromtimestamp(ms / 1_000, UTC) for ms in (at_ms, now_ms))
    return clock_time(at_ms) if at.date() == now.date() else at.strftime("%Y-%m-%d %H:%M:%SZ")


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}…"  # noqa: PLR2004 - enough to recognise it
