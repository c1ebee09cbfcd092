"""The scripted agent's transcript: one JSON line for each thing that happened, written before anybody is told."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from bot.agents.base import Ended, MessageDone, ToolStarted, Unknown

#: Stands for a line that cannot be read.
_GARBLED: dict[str, object] = {}


class Transcript:
    """One session's file. A line is one write(2) to an append-only descriptor: there completely, or cut at the end."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def exists(self) -> bool:
        """Whether the session is known."""
        return self._path.exists()

    def prompts(self) -> int:
        """How many prompts the session has had."""
        return sum(row.get("kind") == "prompt" for row in self._rows())

    def prompt(self, prompt_uuid: str) -> None:
        """A turn begins."""
        self._write(kind="prompt", uuid=prompt_uuid)

    def said(self, prompt_uuid: str, event: MessageDone) -> None:
        """A text block is complete."""
        self._write(kind="text", uuid=prompt_uuid, block=event.block, text=event.text)

    def used(self, prompt_uuid: str, event: ToolStarted) -> None:
        """A tool is started."""
        self._write(kind="tool", uuid=prompt_uuid, id=event.tool_id, name=event.name, summary=event.summary, ours=event.ours)

    def ended(self, prompt_uuid: str) -> None:
        """The turn ended by itself."""
        self._write(kind="end", uuid=prompt_uuid)

    def outcome(self, prompt_uuid: str) -> Ended | Unknown:
        """What became of the turn with this prompt; see `AgentProvider.outcome`. One that is not whole is unknown."""
        events: list[MessageDone | ToolStarted] = []
        begun = False
        for row in self._rows():
            if row == _GARBLED and begun:
                return Unknown()
            if row.get("uuid") != prompt_uuid:
                continue
            if row.get("kind") == "prompt":
                begun = True
            if not begun:
                # The file was lost in the middle of the turn, and its first words with it.
                return Unknown()
            match row.get("kind"):
                case "text":
                    events.append(MessageDone(str(row["block"]), str(row["text"])))
                case "tool":
                    ours = row["ours"] is True
                    events.append(ToolStarted(str(row["id"]), str(row["name"]), str(row["summary"]), ours=ours, subagent=False))
                case "end":
                    return Ended(tuple(events))
                case _:
                    pass
        return Unknown()

    def _write(self, **row: object) -> None:
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row, ensure_ascii=False) + "\n")

    def _rows(self) -> Iterator[dict[str, object]]:
        try:
            content = self._path.read_text(encoding="utf-8", errors="replace")
        except FileNotFoundError:
            return
        for line in content.splitlines():
            try:
                row = json.loads(line)
            except ValueError:
                # Cut by the end of the process, or garbage.
                row = _GARBLED
            if isinstance(row, dict):
                yield row
