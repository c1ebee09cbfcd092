"""Shows a conversation's status as people read it."""

from __future__ import annotations

from typing import Final

import discord

from bot.runtime.views import Status
from storage.models import Part, Run
from storage.states import ContinuationState, RunState

#: Six fields of it and the rest stay below the 6,000 characters of an embed (developer docs, Embed Limits).
_FIELD_LIMIT: Final = 800
_TEXT_LIMIT: Final = 100
#: What the states of a run mean to a person.
_RUNS: Final = {
    RunState.CLAIMED: "starting",
    RunState.DISPATCHED: "working",
    RunState.RELEASED: "put back",
    RunState.SUCCEEDED: "done",
    RunState.FAILED: "failed",
    RunState.CANCELLED: "stopped",
    RunState.INTERRUPTED: "interrupted",
}
_CONTINUATIONS: Final = {ContinuationState.REQUESTED: "once this turn has ended well", ContinuationState.CLAIMED: "its turn comes next"}


def describe(status: Status) -> discord.Embed:
    """All of it in one embed; what there is nothing of is left out."""
    conversation = status.conversation
    embed = discord.Embed(title=f"Project {conversation.project}", colour=discord.Colour.blurple(), description=_now(status))
    for name, lines in (
        ("In the queue", [f"p{prompt.id} <@{prompt.author_id}>: {_short(prompt.text)}" for prompt in status.waiting]),
        ("Too old to run by itself", [f"p{prompt.id} <@{prompt.author_id}>: {_short(prompt.text)}" for prompt in status.offered]),
        (
            "Waits",
            [f"c{c.id} {_CONTINUATIONS.get(c.state, f'<t:{c.due_at_ms // 1_000}:R>')}: {_short(c.reason)}" for c in status.continuations],
        ),
        ("Not in the channel yet", [f"o{part.id} {_short(part.text)}" for part in status.unsent]),
        ("Not delivered", [_trouble(part) for part in status.troubled]),
        ("Last turns", [_turn(run) for run in status.recent]),
    ):
        if lines:
            embed.add_field(name=name, value=_fit(lines), inline=False)
    budget = status.unattended
    held = "; it waits until somebody speaks to it" if budget.met else ""
    embed.set_footer(text=f"{budget.runs_used} of {budget.runs_allowed} turns without anybody speaking to it{held}")
    return embed


def _now(status: Status) -> str:
    lines = []
    run = status.run
    if run is None:
        lines.append("The agent is idle." if status.session is not None else "The agent is idle; the next message begins a new session.")
    else:
        stopping = ", stopping" if run.stop_requested else ""
        since = (run.dispatched_ms or run.claimed_ms) // 1_000
        lines.append(f"The agent is {_RUNS[run.state]}{stopping} (r{run.id}, for <@{run.began_by}>, since <t:{since}:R>).")
    if status.held_until_ms is not None:
        lines.append(f"No turn begins before <t:{status.held_until_ms // 1_000}:f> (<t:{status.held_until_ms // 1_000}:R>).")
    if status.unreachable_since_ms is not None:
        lines.append(f"Nothing could be posted here since <t:{status.unreachable_since_ms // 1_000}:R>; it is kept and will be.")
    return "\n".join(lines)


def _turn(run: Run) -> str:
    when = (run.ended_ms or run.claimed_ms) // 1_000
    why = f": {_short(run.ended_why)}" if run.ended_why and run.state is not RunState.SUCCEEDED else ""
    return f"r{run.id} {run.kind.value}, {_RUNS[run.state]} <t:{when}:R>{why}"


def _trouble(part: Part) -> str:
    return f"o{part.id} {part.state.value}{f' ({_short(part.failure)})' if part.failure else ''}: {_short(part.text)}"


def _short(text: str) -> str:
    line = " ".join(text.split())
    return discord.utils.escape_markdown(line if len(line) <= _TEXT_LIMIT else f"{line[: _TEXT_LIMIT - 1]}…")


def _fit(lines: list[str]) -> str:
    shown: list[str] = []
    for index, line in enumerate(lines):
        if sum(len(one) + 1 for one in shown) + len(line) > _FIELD_LIMIT:
            return "\n".join([*shown, f"… and {len(lines) - index} more"])
        shown.append(line)
    return "\n".join(shown)
