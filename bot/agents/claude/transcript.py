"""Reads the program's transcript: does it know a session, and did the turn of a prompt end by itself.

Measured on CLI 2.1.332. One JSON line for each block. A prompt is a `user` line with our uuid and a `promptSource`. A message
that was cut off in the stream is written with `stop_reason` "end_turn" too, but without `stop_details`. What proves the end of
a turn is the line `stop_hook_summary`, written because a Stop hook is registered, after the last message and before the result
is sent: it is there even if the program is killed the moment its result arrives. Absence proves nothing: the program acts
before it writes.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Literal, cast

from bot.agents.base import Ended, MessageDone, ToolStarted, Unknown
from bot.agents.claude.names import shown_tool

Row = Mapping[str, object]

#: Stands for a line that cannot be read.
_GARBLED: Row = {}

#: known: it can be resumed. missing, empty, garbage, foreign: the program would not find it, or find another one.
Knowledge = Literal["known", "missing", "empty", "garbage", "foreign"]


def find(transcripts: Path, native_id: str) -> Path | None:
    """The transcript of a session, in whichever project folder it is; None if there is none.

    Raises:
        OSError: the folder cannot be read, so nothing is known.
    """
    if not transcripts.exists():
        return None
    for project in sorted(transcripts.iterdir()):
        path = project / f"{native_id}.jsonl"
        if path.is_file():
            return path
    return None


def knowledge(path: Path | None, native_id: str) -> Knowledge:
    """What the transcript is worth for a resume. Raises OSError if it cannot be read."""
    if path is None:
        return "missing"
    if path.stat().st_size == 0:
        return "empty"
    ids = {row.get("sessionId") for row in _rows(path) if isinstance(row.get("sessionId"), str)}
    if not ids:
        return "garbage"
    return "known" if native_id in ids else "foreign"


def cost_usd(path: Path | None) -> float:
    """What the session had cost when its last process ended, as the program counts; 0 if it does not say."""
    cost = 0.0
    for row in _rows(path) if path is not None else ():
        if row.get("type") == "cost-state" and isinstance(row.get("totalCostUSD"), int | float):
            cost = float(cast("float", row["totalCostUSD"]))
    return cost


def outcome(path: Path | None, prompt_uuid: str) -> Ended | Unknown:
    """Whether the turn of this prompt ended by itself, and what it said. Raises OSError if the file cannot be read."""
    if path is None:
        return Unknown()
    turn = list(_turn(_rows(path), prompt_uuid))
    ends = [at for at, row in enumerate(turn) if row.get("subtype") == "stop_hook_summary"]
    if not ends:
        return Unknown()
    if _GARBLED in turn[: ends[-1]]:
        # Something that was said may stand in a line that nobody can read.
        return Unknown()
    said = [row for row in turn[: ends[-1]] if row.get("type") in {"assistant", "user"}]
    if not said or not _is_end(said[-1]) or any(row.get("type") in {"assistant", "user"} for row in turn[ends[-1] :]):
        return Unknown()
    return Ended(tuple(_events(said)))


def _turn(rows: Iterable[Row], prompt_uuid: str) -> Iterator[Row]:
    """The lines after our prompt, up to the next prompt; lines of sub-agents are left out."""
    ours = False
    for row in rows:
        if row.get("type") == "user" and "promptSource" in row:
            ours = row.get("uuid") == prompt_uuid
        elif ours and row.get("isSidechain") is not True:
            yield row


def _is_end(row: Row) -> bool:
    message = _message(row)
    return (
        row.get("type") == "assistant"
        and row.get("isApiErrorMessage") is not True
        and message.get("model") != "<synthetic>"
        and message.get("stop_reason") in {"end_turn", "stop_sequence", "refusal"}
        and "stop_details" in message
    )


def _events(rows: Iterable[Row]) -> Iterator[MessageDone | ToolStarted]:
    count = 0
    for row in rows:
        if row.get("type") != "assistant":
            continue
        content = _message(row).get("content")
        for block in content if isinstance(content, list) else ():
            match block:
                case {"type": "text", "text": str(text)} if text:
                    yield MessageDone(f"b{count}", text)
                    count += 1
                case {"type": "tool_use", "id": str(tool_id), "name": str(name)}:
                    arguments = block.get("input")
                    shown, ours, summary = shown_tool(name, arguments if isinstance(arguments, dict) else {})
                    yield ToolStarted(tool_id, shown, summary, ours=ours, subagent=False)
                case _:
                    pass


def _message(row: Row) -> Row:
    message = row.get("message")
    return message if isinstance(message, dict) else {}


def _rows(path: Path) -> Iterator[Row]:
    with path.open(encoding="utf-8", errors="replace") as file:
        for line in file:
            try:
                row = json.loads(line)
            except ValueError:
                # Cut by the end of a process, or garbage; the other lines count.
                row = _GARBLED
            if isinstance(row, dict):
                yield row
