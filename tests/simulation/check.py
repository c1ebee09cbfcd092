"""What must hold after a story: the history checker's promises, and what only the simulation can see of them."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import TYPE_CHECKING

from storage.events import Entity
from storage.models import Part, PartKind, Run
from storage.states import ContinuationState, PartState, PromptState, RunState
from tests.simulation.agent import TOKEN, Turn
from tests.simulation.virtual import EPOCH_MS
from tests.support import history as promises

if TYPE_CHECKING:
    from tests.simulation.world import World

HOST = "host-1"


def violations(world: World, history: promises.History) -> list[str]:
    """Each broken promise as a sentence."""
    found = promises.violations(history)
    for check in (_handed_over, _words_once, _words_arrive, _people_are_told, _receipts, _at_rest, _acknowledged, _in_time, _decided):
        found += check(world, history)
    return found


def _turns_of(world: World) -> dict[str, Turn]:
    return {turn.uuid: turn for turn in world.agent_log.turns}


def _handed_over(world: World, history: promises.History) -> Iterator[str]:
    """P3, with the uuid of each dispatch; and a run that is called succeeded has really brought its prompts to the agent."""
    for uuid, count in Counter(turn.uuid for turn in world.agent_log.turns).items():
        if count > 1:
            yield f"P3: the agent got the prompt {uuid} {count} times"
    runs = {run.prompt_uuid: run for run in history.rows.runs if run.prompt_uuid is not None}
    turns = _turns_of(world)
    for uuid in turns:
        if uuid not in runs:
            yield f"P3: the agent got the prompt {uuid}, which no run has stored"
    for run in runs.values():
        turn = turns.get(run.prompt_uuid or "")
        if run.state is RunState.SUCCEEDED and turn is None:
            yield f"P1: run {run.id} succeeded, but its prompt never reached the agent"
        if turn is None:
            continue
        for prompt in history.rows.prompts:
            if prompt.run_id == run.id and prompt.text not in turn.prompt:
                yield f"P1: prompt {prompt.id} was taken by run {run.id}, but the agent was not told it"


def _of_agent(world: World) -> list[tuple[int, str]]:
    """The agent's words in the channels."""
    kinds = {kind.value for kind in PartKind if kind.of_agent}
    return [(r.message_id or 0, r.text or "") for r in world.discord.log if r.kind == "message.create" and r.detail.get("kind") in kinds]


def _words_once(world: World, _history: promises.History) -> Iterator[str]:
    """P6, by the words themselves: nothing that the agent said once is in the channels twice."""
    said = Counter(word for _, text in _of_agent(world) for word in TOKEN.findall(text))
    for word, count in said.items():
        if count > 1:
            yield f"P6: {word} is in the channels {count} times"


def _words_arrive(world: World, history: promises.History) -> Iterator[str]:
    """P6: what an agent said in a turn that succeeded, and wanted to say, is in a part of that run; and sent means sent."""
    parts: dict[int, list[Part]] = defaultdict(list)
    for part in history.rows.parts:
        if part.run_id is not None and part.kind.of_agent:
            parts[part.run_id].append(part)
    turns = _turns_of(world)
    for run in history.rows.runs:
        turn = turns.get(run.prompt_uuid or "")
        if turn is None:
            continue
        words = Counter(word for part in parts[run.id] for word in TOKEN.findall(part.text))
        told = [str(args["text"]) for name, args, result, _ in turn.calls if name == "send_message" and not result.is_error]
        for text in told:
            for word in TOKEN.findall(text):
                if not words[word]:
                    yield f"P6: run {run.id} sent {word}, which no part holds"
        if run.state is not RunState.SUCCEEDED or run.skipped_why is not None or world.config.narration == "off":
            continue
        for text in turn.said:
            for word in TOKEN.findall(text):
                if words[word] != 1:
                    yield f"P6: run {run.id} said {word}, and {words[word]} of its parts hold it"


def _people_are_told(_world: World, history: promises.History) -> Iterator[str]:
    """A turn that ended in another way than by itself or by a stop is told to people."""
    told = {part.run_id for part in history.rows.parts if part.kind is PartKind.NOTICE}
    for run in history.rows.runs:
        if run.state in {RunState.FAILED, RunState.INTERRUPTED} and not run.stop_requested and run.id not in told:
            yield f"P3: run {run.id} ended {run.state}, and nobody was told"


_KEPT = re.compile(r"kept as o(\d+)")
_NOT_DELIVERED = {PartState.FAILED, PartState.EXPIRED, PartState.WITHDRAWN}
_LINE = re.compile(r"^\[(delivered|sending|delayed|unknown|not delivered)\] (.*)$")


def _receipts(world: World, history: promises.History) -> Iterator[str]:
    """P6: what the agent is told as delivered is in the channel by then; what it is told as kept private is not."""
    posted = {r.message_id: r.t_ms for r in world.discord.log if r.kind == "message.create" and r.bot}
    turns = _turns_of(world)
    before: dict[int, Run] = {}
    called = [run for run in history.rows.runs if run.prompt_uuid is not None]
    for run in sorted(called, key=lambda run: _journal_place(history, run)):
        last, before[run.conversation_id] = before.get(run.conversation_id), run
        turn = turns.get(run.prompt_uuid or "")
        if turn is None:
            continue
        lines = [(m[1], m[2]) for line in turn.prompt.split("\n\n")[0].splitlines() if (m := _LINE.match(line))]
        if lines and (last is None or last.session_id != run.session_id):
            yield f"P6: run {run.id} was told {lines[0]} although there was no earlier turn in its session"
            continue
        if last is not None:
            yield from _lines_true(history, last, turn, lines, posted)
    for turn in turns.values():
        for name, args, result, at_ms in turn.calls:
            if name == "send_message" and result.text.startswith("[delivered] your message →"):
                for word in TOKEN.findall(str(args["text"])):
                    if not any(word in text and posted[message_id] <= at_ms for message_id, text in _of_agent(world)):
                        yield f"P6: the agent was told that {word} is delivered, and it is not in the channel"


def _journal_place(history: promises.History, run: Run) -> int:
    return next(e.id for e in history.view.entries if e.entity is Entity.RUN and e.entity_id == run.id and e.after == RunState.DISPATCHED)


def _lines_true(
    history: promises.History, last: Run, turn: Turn, lines: list[tuple[str, str]], posted: dict[int | None, int]
) -> Iterator[str]:
    answer = _answers(history, last)
    for word, rest in lines:
        if word == "delivered" and rest.startswith("nothing: kept private"):
            if last.skipped_why is None or answer:
                yield f"P6: the agent was told that run {last.id} was kept private"
        elif word == "delivered" and rest.startswith("nothing"):
            if answer:
                yield f"P6: the agent was told that run {last.id} had no answer"
        elif word == "delivered" and rest.startswith("your reply →"):
            if not _told_rightly(answer, rest, turn, posted):
                yield f"P6: run {last.id}'s answer of {len(answer)} parts was told as {rest!r}, and not all were in the channel"
        elif word == "not delivered" and (kept := _KEPT.search(rest)) is not None:
            part = next((p for p in history.rows.parts if p.id == int(kept[1])), None)
            if part is None or part.state not in _NOT_DELIVERED:
                yield f"P6: the agent was told {rest!r}, and that part is {part.state if part else 'not there'}"
        elif word == "delivered" and rest.startswith("your earlier reply →"):
            earlier = [_answers(history, run) for run in history.rows.runs if run.session_id == last.session_id and run.id < last.id]
            if not any(_told_rightly(answer, rest, turn, posted) for answer in earlier):
                yield f"P6: the agent was told {rest!r}, which is true of no earlier turn"


def _answers(history: promises.History, run: Run) -> list[Part]:
    return [p for p in history.rows.parts if p.run_id == run.id and p.kind is PartKind.ANSWER]


def _told_rightly(answer: list[Part], told: str, turn: Turn, posted: dict[int | None, int]) -> bool:
    """Whether "delivered" was true when the prompt came: as many messages, and all in the channel."""
    in_channel = all(p.state is PartState.DELIVERED and posted.get(p.message_id, 1 << 62) <= turn.at_ms for p in answer)
    return in_channel and f"({len(answer)} message" in told


def _at_rest(world: World, history: promises.History) -> Iterator[str]:
    """Liveness: nothing waits for anything."""
    if world.at_rest_ms is None:
        yield "liveness: the story has no end"
        return
    for prompt in history.rows.prompts:
        if prompt.state not in {PromptState.SETTLED, PromptState.WITHDRAWN}:
            yield f"liveness: {prompt.kind} prompt {prompt.id} is still {prompt.state}"
    live = {ContinuationState.REQUESTED, ContinuationState.PENDING, ContinuationState.CLAIMED}
    for wait in history.rows.continuations:
        if wait.state in live:
            yield f"liveness: c{wait.id} is still {wait.state}"


def _acknowledged(world: World, history: promises.History) -> Iterator[str]:
    """P7: what was called stored is stored."""
    stored = {prompt.message_id for prompt in history.rows.prompts}
    for message_id in world.acknowledged - stored:
        yield f"P7: message {message_id} was called stored, and is not"


def _in_time(world: World, history: promises.History) -> Iterator[str]:
    """P4: while a process is up and its database answers, a wake is queued within a second (a sweep, where the clock was moved)."""
    if world.jumps_s:
        return
    slack_s = world.config.sweep_s + 1.0
    for entry in history.moves(Entity.CONTINUATION):
        if entry.after != ContinuationState.CLAIMED:
            continue
        wait = next(c for c in history.rows.continuations if c.id == entry.entity_id)
        due_s, at_s = (wait.due_at_ms - EPOCH_MS) / 1_000, (entry.at_ms - EPOCH_MS) / 1_000
        armed_s = max(((e.at_ms - EPOCH_MS) / 1_000 for e in history.moves(Entity.CONTINUATION)
                       if e.entity_id == wait.id and e.after == ContinuationState.PENDING), default=due_s)  # fmt: skip
        began_s = max((began for began, _ in world.up_s if began <= at_s + 0.01), default=0.0)
        # Stored times are whole milliseconds.
        excused = any(due_s - slack_s <= trouble <= at_s + 0.001 for trouble in world.trouble_s)
        limit_s = max(due_s, armed_s, began_s) + (1.0 if world.database_mood.slow_s < 0.1 else 3.0)
        if at_s > limit_s and not excused:
            yield f"P4: c{wait.id} was queued {at_s - due_s:.1f} s late"


def _decided(world: World, history: promises.History) -> Iterator[str]:
    """P6: `unknown` is only what nobody can decide: a history that cannot be read, words that are there twice, or a refusal."""
    if world.discord.ever_unreadable:
        return
    texts = Counter((part.channel_id, part.text) for part in history.rows.parts)
    for part in history.rows.parts:
        refused = (part.failure or "").startswith("missing permission")
        if part.state is PartState.UNKNOWN and texts[part.channel_id, part.text] == 1 and not refused:
            yield f"P6: part {part.id} is unknown ({part.failure}), although the history could tell"


__all__ = ["HOST", "violations"]
