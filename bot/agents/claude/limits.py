"""Reads when a usage limit ends from the program's own words, where it does not send the time itself. Pure."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Final
from zoneinfo import ZoneInfo

#: How its words for a used-up subscription begin (2.1.332: "You've hit your 5-hour limit · resets 9:13pm (UTC)").
_LIMIT: Final = re.compile(r"you['\u2019]ve (?:hit|reached) your .{0,40}limit", re.IGNORECASE)
#: The day is only named where it is not within a day: "resets Dec 9 at 5pm (Europe/Berlin)".
_RESET: Final = re.compile(
    r"resets\s+(?:(?P<month>[a-z]{3})[a-z]*\s+(?P<day>\d{1,2}),?\s+(?:at\s+)?)?"
    r"(?P<hour>\d{1,2})(?::(?P<minute>\d{2}))?\s*(?P<half>am|pm)\s*\((?P<zone>[A-Za-z0-9_+/-]{1,64})\)",
    re.IGNORECASE,
)
_MONTHS: Final = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_NOON: Final = 12


def is_limit(said: str) -> bool:
    """Whether the program's last words are those of a used-up subscription."""
    return _LIMIT.search(said) is not None


def reset_ms(said: str, now_ms: int) -> int | None:
    """When the limit ends, integer milliseconds UTC: the next such time of that zone's clock; None if the words do not tell."""
    found = _RESET.search(said)
    if found is None:
        return None
    hour = int(found["hour"])
    if not 1 <= hour <= _NOON:
        return None
    hour = hour % _NOON + (_NOON if found["half"].lower() == "pm" else 0)
    try:
        now = datetime.fromtimestamp(now_ms / 1000, ZoneInfo(found["zone"]))
        at = now.replace(hour=hour, minute=int(found["minute"] or 0), second=0, microsecond=0)
        if found["month"] is not None:
            at = at.replace(month=_MONTHS.index(found["month"].lower()) + 1, day=int(found["day"]))
            # Named at the end of a year, meant for the beginning of the next one.
            at = at if at > now - timedelta(days=1) else at.replace(year=at.year + 1)
        elif at <= now:
            at += timedelta(days=1)
    except (ValueError, KeyError, OSError):
        # No such day or month; no such zone here (ZoneInfoNotFoundError is a KeyError), or a name that is none.
        return None
    return int(at.astimezone(UTC).timestamp() * 1000)
