"""What follows a turn that the account's usage limit ended: when the agent is tried again, and what people are told. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from bot.agents.base import RunEnded
from bot.runtime import notices, prompting
from storage.events import Again, NewPart
from storage.models import Prompt, Run

#: The source key of a prompt that goes on by itself: `again:<how many times>:<run>`.
AGAIN: Final = "again"

#: The longest limit there is lasts a week; a reset further away than this was misread or mistold.
_FURTHEST_MS: Final = 8 * 24 * 3_600_000
#: Where no usable time of the reset is known.
_CAREFUL_MS: Final = 15 * 60_000
#: Our clock may be ahead of the service's.
_SLACK_MS: Final = 5_000
#: A limit that ends may be met again at once by what waited for it; a guess is not repeated.
_TRIES_KNOWN: Final = 5
_TRIES_GUESSED: Final = 1


@dataclass(frozen=True, slots=True)
class Limited:
    """How it goes on."""

    #: Nothing of the agent begins before, integer milliseconds UTC.
    until_ms: int
    #: The prompt that goes on by itself; None: it was tried often enough, and people decide.
    again: Again | None
    notice: NewPart


def after_limit(run: Run, prompts: Sequence[Prompt], end: RunEnded, now_ms: int) -> Limited:
    """What follows the end of `run`, which was about `prompts`."""
    resets_ms = end.resets_at_ms
    known = resets_ms is not None and now_ms < resets_ms <= now_ms + _FURTHEST_MS
    until_ms = resets_ms + _SLACK_MS if known and resets_ms is not None else now_ms + _CAREFUL_MS
    tried = max((_tries(prompt.source_key) for prompt in prompts), default=0)
    again = None
    if tried < (_TRIES_KNOWN if known else _TRIES_GUESSED):
        again = Again(prompting.again_text(), f"{AGAIN}:{tried + 1}:{run.id}")
    return Limited(until_ms, again, notices.limit(run, resets_ms if known else None, until_ms, goes_on=again is not None))


def _tries(source_key: str) -> int:
    kind, _, rest = source_key.partition(":")
    number = rest.partition(":")[0]
    return int(number) if kind == AGAIN and number.isdigit() else 0
