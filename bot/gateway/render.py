"""Cuts text into messages that Discord takes: at most 2,000 code points each, code fences whole in every one."""

from __future__ import annotations

import re
from dataclasses import dataclass

#: Content limit of a message, in code points (developer docs, Create Message).
MESSAGE_LIMIT = 2_000
_FENCE = "```"
_CLOSE = f"\n{_FENCE}"
#: What Discord takes for the language of a code block: a word right behind the fence that ends with the line.
_LANGUAGE = re.compile(r"[A-Za-z0-9_+\-.#]{1,40}(?=\n)")
#: A cut at a line's or a word's end is worth this share of a message.
_WORTH = 0.5


def split(text: str, limit: int = MESSAGE_LIMIT) -> list[str]:
    """The text as messages in order; none is longer than `limit`, none is blank, none leaves a code fence open.

    A code block that goes over a boundary is closed there and opened again with its language. White space around a boundary
    outside of code is dropped, as Discord itself drops it; nothing else is. `limit` is at least 100.
    """
    chunks: list[str] = []
    place = _Place(0, None)
    while place.at < len(text):
        chunk, place = _next(text, place, limit)
        if chunk.replace(_FENCE, "").strip() or (chunk.strip() and not chunks and place.at >= len(text)):
            chunks.append(chunk)
    return chunks


@dataclass(frozen=True, slots=True)
class _Place:
    """How far the text is cut, and the line that opens the code block there again (None outside of code)."""

    at: int
    reopen: str | None


def _next(text: str, place: _Place, limit: int) -> tuple[str, _Place]:
    prefix = place.reopen or ""
    rest = text[place.at :]
    opened = _open_after(rest, place.reopen)
    whole = prefix + rest.rstrip() + (_CLOSE if opened is not None else "")
    if len(whole) <= limit:
        return whole if place.reopen else whole.lstrip("\n"), _Place(len(text), None)
    end = place.at + limit - len(prefix) - len(_CLOSE)
    cut = _cut(text, place, end)
    piece = text[place.at : cut]
    opened = _open_after(piece, place.reopen)
    if opened is None:
        following = cut + len(text[cut:]) - len(text[cut:].lstrip())
        # Indentation of the next line stays; only whole blank lines and the space at a word's end go.
        line = text.rfind("\n", cut, following)
        next_at = following if line < 0 else line + 1
        body = prefix + piece.rstrip()
        return body if place.reopen else body.lstrip("\n"), _Place(next_at, None)
    next_at = cut + 1 if text.startswith("\n", cut) else cut
    body = prefix + piece.removesuffix("\n") + _CLOSE
    closing = re.compile(r"\s*```(?!`)").match(text, cut)
    if closing is not None:
        # The block ends right here: our closing fence is its own, and nothing is left to open again.
        return body, _Place(closing.end(), None)
    return body, _Place(next_at, opened)


def _open_after(piece: str, reopen: str | None) -> str | None:
    """The line that would open the code block again after this piece, or None where no block is open."""
    at = 0
    while (at := piece.find(_FENCE, at)) >= 0:
        at += len(_FENCE)
        if reopen is not None:
            reopen = None
            continue
        language = _LANGUAGE.match(piece, at)
        reopen = f"{_FENCE}{language.group() if language else ''}\n"
    return reopen


def _cut(text: str, place: _Place, end: int) -> int:
    """Where to cut in `text[place.at:end]`: behind a paragraph, a line, a word, else hard; never inside a run of backticks."""
    begin = place.at
    least = begin + int((end - begin) * _WORTH)
    candidates = (text.rfind("\n\n", least, end), text.rfind("\n", least, end), text.rfind(" ", least, end))
    cut = next((found for found in candidates if found > begin), end)
    cut = _outside_backticks(text, begin, cut)
    # A block that would only open at the very end opens in the next message instead.
    opening = text.rfind(_FENCE, begin, cut)
    if opening > begin and place.reopen is None and _opens_empty(text[begin:cut], opening - begin) and text[begin:opening].strip():
        return opening
    return cut


def _opens_empty(piece: str, opening: int) -> bool:
    """Whether the last fence of the piece opens a block that holds nothing yet."""
    if _open_after(piece, None) is None:
        return False
    tail = piece[opening + len(_FENCE) :]
    return re.fullmatch(r"[A-Za-z0-9_+\-.#]*\s*", tail) is not None


def _outside_backticks(text: str, begin: int, cut: int) -> int:
    if not (text[cut - 1] == "`" and text.startswith("`", cut)):
        return cut
    start = cut
    while start > begin and text[start - 1] == "`":
        start -= 1
    # A run that fills the whole message is cut between two fences.
    return start if start > begin else begin + (cut - begin) // len(_FENCE) * len(_FENCE)
