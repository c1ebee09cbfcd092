"""Durations as people and agents write them (`90s`, `20m`, `1h30m`) to whole milliseconds and back."""

from __future__ import annotations

import math
import re
import reprlib
from decimal import Decimal

_MS = {"d": 86_400_000, "h": 3_600_000, "m": 60_000, "s": 1_000, "ms": 1}
#: A bounded number of digits: a duration is typed by a person or a model, and a longer one is a mistake.
_AMOUNT = r"[0-9]{1,18}(?:\.[0-9]{1,9})?"
_BARE = re.compile(_AMOUNT)
_WHOLE = re.compile(rf"(?:{_AMOUNT}\s*(?:ms|[dhms])\s*)+")
_PART = re.compile(rf"({_AMOUNT})\s*(ms|[dhms])")

#: What `parse_duration` reads, for messages that must say so.
ACCEPTED = "seconds as a number, or text such as '90s', '20m', '2h' or '1h30m'"


class DurationError(ValueError):
    """Not a duration, or not a positive one; the text says what is accepted."""


def parse_duration(value: object) -> int:
    """Milliseconds of `value`: a number is seconds; text is one or more amounts with `d`, `h`, `m`, `s` or `ms`.

    A number in text without a unit is seconds too. There is no upper bound here: whoever asks knows what is too long.

    Raises:
        DurationError: unreadable, zero, negative, or less than a millisecond.
    """
    milliseconds = _milliseconds(value)
    if milliseconds is None:
        raise DurationError(f"{reprlib.repr(value)} is not a duration: write {ACCEPTED}")
    if milliseconds < 1:
        raise DurationError(f"a duration must be longer than nothing: write {ACCEPTED}")
    return milliseconds


def _milliseconds(value: object) -> int | None:
    """The value in milliseconds, zero and negative ones included; None if it cannot be read."""
    match value:
        case bool():
            return None  # True is an int in Python, and never a duration
        case int():
            return value * 1_000
        case float():
            return round(value * 1_000) if math.isfinite(value * 1_000) else None
        case str():
            text = value.strip().lower()
            sign = -1 if text.startswith("-") else 1
            text = text.removeprefix("-").strip() if sign < 0 else text
            if _BARE.fullmatch(text):
                return sign * int(Decimal(text) * 1_000)
            if not _WHOLE.fullmatch(text):
                return None
            return sign * sum(int(Decimal(amount) * _MS[unit]) for amount, unit in _PART.findall(text))
        case _:
            return None


def format_duration(duration_ms: int) -> str:
    """The shortest usual way to write it: `20m`, `1h30m`, `45s`; below a second `250ms`.

    Rounded to whole seconds from one second on; whole seconds survive `parse_duration(format_duration(x))`.
    """
    if duration_ms < 0:
        return "-" + format_duration(-duration_ms)
    if duration_ms < _MS["s"]:
        return f"{duration_ms}ms" if duration_ms else "0s"
    seconds = (duration_ms + 500) // 1_000
    hours, rest = divmod(seconds, 3_600)
    minutes, seconds = divmod(rest, 60)
    return "".join(f"{amount}{unit}" for amount, unit in ((hours, "h"), (minutes, "m"), (seconds, "s")) if amount)
