"""What the agent is told about the delivery of its words (design section 7). Pure: from rows to lines.

Told is what is known, never what is hoped: every line follows from the states of the parts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bot.runtime.waits import clock_time, minute
from storage.models import Part, PartKind, Run
from storage.states import OPEN_PART, PartState, RunState

#: The words whose delivery is told: the answer, and what `send_message` has put into the channel.
TOLD_KINDS = frozenset({PartKind.ANSWER, PartKind.SENT})


@dataclass(frozen=True, slots=True)
class Channel:
    """Where the words go, and since when nothing could be posted there (None: it can)."""

    name: str
    unreachable_since_ms: int | None


def of_run(run: Run, parts: Sequence[Part], channel: Channel) -> list[str]:
    """The lines about an earlier turn, for the head of the next prompt."""
    lines = _end_of(run)
    if run.skipped_why is not None:
        lines.append(f"[delivered] nothing: kept private (skip_reply: {run.skipped_why})")
    elif run.state is RunState.SUCCEEDED and not any(p.kind in TOLD_KINDS for p in parts):
        lines.append("[delivered] nothing: your last turn ended without an answer")
    return lines + _words_of(run, parts, channel, "your")


def of_earlier(run: Run, parts: Sequence[Part], channel: Channel) -> list[str]:
    """The lines about a turn before the last one, whose words were still on their way when its end was told."""
    return [] if in_flight(parts) else _words_of(run, parts, channel, "your earlier")


def _words_of(run: Run, parts: Sequence[Part], channel: Channel, whose: str) -> list[str]:
    answer = [p for p in parts if p.kind is PartKind.ANSWER]
    lines = of_parts(f"{whose} reply", answer, channel) if answer else []
    # A message's own receipt was the tool's result, unless its fate was decided only after the turn.
    late = [p for p in parts if p.kind is PartKind.SENT and not _told_in_turn(p, run)]
    return lines + of_parts(f"{whose} message (send_message)", late, channel) if late else lines


def _end_of(run: Run) -> list[str]:
    match run.state:
        case RunState.CANCELLED:
            return ["[stopped] your last turn was stopped by a person; what it had not posted by then was withheld"]
        case RunState.INTERRUPTED:
            return [f"[interrupted] your last turn was cut off ({run.ended_why or 'for an unknown reason'}); look at what is done already"]
        case RunState.FAILED:
            return [f"[failed] your last turn ended with an error ({run.ended_why or 'unknown'})"]
        case _:
            return []


def _told_in_turn(part: Part, run: Run) -> bool:
    return part.state is PartState.DELIVERED and (part.delivered_ms or 0) <= (run.ended_ms or 0)


def of_parts(what: str, parts: Sequence[Part], channel: Channel) -> list[str]:
    """The lines about some parts that belong together; `what` is "your reply" or the like."""
    count = len(parts)
    out = [p for p in parts if p.state is PartState.DELIVERED]
    waiting = [p for p in parts if p.state in OPEN_PART]
    lines: list[str] = []
    if waiting and (channel.unreachable_since_ms is not None) and not out:
        since = minute(channel.unreachable_since_ms)
        lines.append(f"[delayed] {what} waits: Discord unreachable since {since}; it will be sent, do not repeat it")
    elif waiting:
        lines.append(f"[sending] {what}: {len(out)} of {_messages(count)} posted so far; the rest follows, do not repeat it")
    elif len(out) == count:
        last_ms = max(p.delivered_ms or 0 for p in out)
        lines.append(f"[delivered] {what} → {channel.name} ({_messages(count)}, {clock_time(last_ms)})")
    elif out:
        lines.append(f"[delivered] {len(out)} of {_messages(count)} of {what} → {channel.name}")
    for number, part in enumerate(parts, 1):
        lines += _trouble(part, f"part {number} of {count}" if count > 1 else what)
    return lines


def _trouble(part: Part, which: str) -> list[str]:
    kept = f"the full text is kept as o{part.id}"
    match part.state:
        case PartState.UNKNOWN:
            return [f"[unknown] {which} got no answer and may be in the channel; check before you repeat it"]
        case PartState.FAILED | PartState.EXPIRED:
            return [f"[not delivered] {part.failure or 'refused'}; {kept}"]
        case PartState.WITHDRAWN:
            return [f"[not delivered] {which} was withheld because a person stopped the turn; {kept}"]
        case _:
            return []


def _messages(count: int) -> str:
    return "1 message" if count == 1 else f"{count} messages"


def in_flight(parts: Sequence[Part]) -> bool:
    """Whether a receipt is still to come."""
    return any(p.kind in TOLD_KINDS and p.state in OPEN_PART for p in parts)
