"""Accounts for every message that people wrote during a storm: answered once, or visibly not answered for a reason somebody gave."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from storage.models import PartKind, Prompt, PromptKind, Run, RunId
from storage.states import ContinuationState, PartState, PromptState, RunState
from tests.support.history import History


@dataclass
class Told:
    """One message: the word that its answer has (a new one with each edit), and whether anybody asked to end it."""

    message_id: int
    channel_id: int
    words: list[str] = field(default_factory=list)
    #: It was deleted, or a command that may have ended it was given in its channel.
    commanded: bool = False


def unaccounted(history: History, told: Iterable[Told]) -> list[str]:
    """Each message that has no right end, as a sentence."""
    prompts = {prompt.message_id: prompt for prompt in history.rows.prompts if prompt.message_id is not None}
    posted = Counter(word for record in history.posted() for word in re.findall(r"\b[sw]?m\d+x\b", record.text or ""))
    again = _asked_again(history)
    told = list(told)
    words_again = {word for one in told if one.message_id in again for word in one.words}
    found = [
        f"P6: {word} was posted {count} times"
        for word, count in posted.items()
        if count > 1 and not word.startswith("w") and word.removeprefix("s") not in words_again
    ]
    for one in told:
        prompt = prompts.get(one.message_id)
        if prompt is not None:
            found += _ended(history, one, prompt, posted, asked_again=one.message_id in again)
    return found + list(_waits(history))


def _asked_again(history: History) -> set[int]:
    """Messages that were repeated to a new session, because somebody resumed their turn there."""
    runs = {run.id: run for run in history.rows.runs}
    found: set[int] = set()
    for prompt in history.rows.prompts:
        kind, _, number = prompt.source_key.partition(":")
        resumed, by = (runs.get(RunId(int(number))) if kind == "resume" else None), history.run(prompt.run_id)
        while resumed is not None and by is not None and resumed.session_id != by.session_id:
            asked = [one for one in history.rows.prompts if one.run_id == resumed.id]
            found |= {one.message_id for one in asked if one.message_id is not None}
            before = next((one.source_key.rpartition(":")[2] for one in asked if one.kind is PromptKind.RESUME), None)
            resumed = runs.get(RunId(int(before))) if before is not None else None
    return found


def _ended(history: History, told: Told, prompt: Prompt, posted: Counter[str], *, asked_again: bool) -> Iterator[str]:
    times = sum(posted[word] for word in told.words)
    name = f"message {told.message_id} ({'/'.join(told.words)})"
    run = history.run(prompt.run_id)
    match prompt.state:
        case PromptState.WITHDRAWN:
            if not told.commanded:
                yield f"P1: {name} was withdrawn and nobody asked for it"
            if times:
                yield f"P1: {name} was withdrawn and answered"
        case PromptState.SETTLED if run is not None:
            yield from _answered(history, name, run, times, asked_again=asked_again)
        case _:
            yield f"P1: {name} is {prompt.state} without a run"


def _answered(history: History, name: str, run: Run, times: int, *, asked_again: bool) -> Iterator[str]:
    lost = [part for part in history.parts_of(run.id) if part.kind is not PartKind.NOTICE and part.state is not PartState.DELIVERED]
    # Each of the sessions that were asked may have said it.
    if times > 1 and not asked_again:
        yield f"P6: {name} was answered {times} times"
    if run.state is RunState.SUCCEEDED and (times == 0 or (times > 1 and not asked_again)) and not lost and run.skipped_why is None:
        yield f"P6: {name} was answered {times} times by run {run.id}, which succeeded"
    if run.state in {RunState.INTERRUPTED, RunState.FAILED} and not _told(history, run):
        yield f"P3: run {run.id} of {name} is {run.state} ({run.ended_why}) and nobody was told"


def _told(history: History, run: Run) -> bool:
    notices = (part for part in history.rows.parts if part.kind is PartKind.NOTICE and part.state is PartState.DELIVERED)
    return any(_about(part.components, part.run_id, run.id) for part in notices)


def _about(components: str | None, run_id: int | None, wanted: int) -> bool:
    return run_id == wanted or f':{wanted}"' in (components or "")


def _waits(history: History) -> Iterator[str]:
    """A wait that fired ran once; one that did not has a reason."""
    wakes: defaultdict[int | None, list[Prompt]] = defaultdict(list)
    for prompt in history.rows.prompts:
        wakes[prompt.continuation_id].append(prompt)
    for wait in history.rows.continuations:
        runs = [run for prompt in wakes[wait.id] if (run := history.run(prompt.run_id)) is not None and run.dispatched_ms is not None]
        if wait.state is ContinuationState.DISPATCHED and len(runs) != 1:
            yield f"P4: c{wait.id} was dispatched and has {len(runs)} runs"
        if wait.state is not ContinuationState.DISPATCHED and runs:
            yield f"P4: c{wait.id} is {wait.state} and has run {runs[0].id}"
        if wait.state in {ContinuationState.CANCELLED, ContinuationState.FAILED, ContinuationState.DROPPED} and not wait.ended_why:
            yield f"P4: c{wait.id} is {wait.state} without a reason"
