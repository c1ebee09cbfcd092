"""Writes docs/states.md from the table of states: `python -m storage.diagram docs/states.md`. A test keeps the page current."""

from __future__ import annotations

import sys
from pathlib import Path

from storage.states import EDGES, ContinuationState, Edge, PartState, PromptState, RunState, SessionState, State, terminal

_ENTITIES: tuple[tuple[str, type[State]], ...] = (
    ("Prompt", PromptState),
    ("Run", RunState),
    ("Continuation", ContinuationState),
    ("Outbox part", PartState),
    ("Provider session", SessionState),
)

_HEAD = """# States

Generated from `storage/states.py` by `python -m storage.diagram docs/states.md`; the table there is the truth, and
`tests/model` makes every one of these moves. What a state means is said where it is declared.
"""


def page() -> str:
    """The whole page: a diagram and a table for each kind of row."""
    return "\n".join([_HEAD, *(_section(title, states) for title, states in _ENTITIES)])


def _section(title: str, states: type[State]) -> str:
    edges = [edge for edge in EDGES if isinstance(edge.after, states)]
    lines = [f"## {title}", "", "```mermaid", "stateDiagram-v2"]
    lines += [f"    {_name(edge.before)} --> {edge.after.value}" for edge in edges]
    lines += [f"    {state.value} --> [*]" for state in states if terminal(state)]
    lines += ["```", "", "| from | to | when |", "|---|---|---|"]
    lines += [_row(edge) for edge in edges]
    return "\n".join([*lines, ""])


def _row(edge: Edge) -> str:
    before = "" if edge.before is None else f"`{edge.before.value}`"
    return f"| {before} | `{edge.after.value}` | {edge.why} |"


def _name(state: State | None) -> str:
    return "[*]" if state is None else state.value


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(page(), encoding="utf-8")
