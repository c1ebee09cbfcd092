"""How a tool call is named to people: the bare name, whether it is ours, and a few words on its object."""

from __future__ import annotations

from collections.abc import Mapping

from bot.agents.claude.permissions import OURS_PREFIX

#: The argument that says best what a call is about, the first that is there.
_TELLING = ("command", "file_path", "notebook_path", "pattern", "url", "query", "description", "path")

#: Enough for a line of progress.
_SUMMARY = 120


def shown_tool(name: str, arguments: Mapping[str, object]) -> tuple[str, bool, str]:
    """The bare name, whether it is one of ours, and the summary."""
    ours = name.startswith(OURS_PREFIX)
    told = next((value for key in _TELLING if isinstance(value := arguments.get(key), str) and value.strip()), "")
    line = " ".join(told.split())
    summary = line if len(line) <= _SUMMARY else line[: _SUMMARY - 1] + "…"
    return name.removeprefix(OURS_PREFIX), ours, "" if ours else summary
