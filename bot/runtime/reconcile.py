"""Looks for a message of ours in a channel's history: is it there, is it not, or can nobody tell? Pure (design section 7).

The history shows no nonce, so a message is known by its words, what it replies to, and its place: after what was posted
before it. Messages that are known as other parts' are accounted for.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from bot.runtime.ports import Posted
from storage.models import Part


@dataclass(frozen=True, slots=True)
class Found:
    """It is there."""

    message_id: int


@dataclass(frozen=True, slots=True)
class Missing:
    """The history is complete and does not show it."""


@dataclass(frozen=True, slots=True)
class Ambiguous:
    """More than one message could be it."""


def look(part: Part, history: Sequence[Posted], known: Sequence[Part]) -> Found | Missing | Ambiguous:
    """What the history says about a part; `known` are parts of the channel whose message is known."""
    taken = {other.message_id for other in known if other.id != part.id}
    # A channel's messages are in the order of their ids, and so are a conversation's parts.
    after = max((other.message_id or 0 for other in known if other.seq < part.seq), default=0)
    matches = [
        posted.message_id for posted in history if posted.message_id > after and posted.message_id not in taken and _same(part, posted)
    ]
    match matches:
        case []:
            return Missing()
        case [message_id]:
            return Found(message_id)
        case _:
            return Ambiguous()


def _same(part: Part, posted: Posted) -> bool:
    if _plain(part.text) != _plain(posted.text):
        return False
    # A reply whose target is gone is posted without one.
    return posted.reply_to_id is None or posted.reply_to_id == part.reply_to_id


def _plain(text: str) -> str:
    """As compared: the chat trims the ends, and white space may come back changed."""
    return re.sub(r"\s+", " ", text).strip()
