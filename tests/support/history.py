"""The history checker: looks at everything that was observed of a run and says which promises it breaks.

It reads the database from outside, the loopback Discord's log and the loopback model's log (where there is one), and shares no
rule with the program: what must hold is written here once more, in other words.

P1 accepted once, none lost. P2 one run at a time, people first, in order. P3 handed over at most once. P4 a wake at most once,
not early, only after a succeeded origin, in the same session. P6 every part once, in order, and receipts that are true.
P7 what was told is stored. P12 no process left.
"""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from bot.agents import procs
from bot.loopback.discord import EventLog, Record
from bot.loopback.model import Entry as ModelEntry
from bot.loopback.model import ModelLog
from storage.events import Entity
from storage.journal import Entry
from storage.models import Continuation, Part, PartKind, Prompt, Run, Snapshot
from storage.outside import Outside, View
from storage.states import ACTIVE_RUN, ContinuationState, PartState, PromptState, RunState, State, terminal

#: A wake comes at most this much after its due time while a process is up (P4), and a little for a slow machine.
_OVERDUE_MS = 5_000
_SCHEDULED = re.compile(r"\[scheduled\] c(\d+):")
_WAKE = re.compile(r"^\[wake\] c(\d+),", re.MULTILINE)

_ENDED_RUN = {RunState.SUCCEEDED, RunState.FAILED, RunState.CANCELLED, RunState.INTERRUPTED, RunState.RELEASED}


@dataclass(frozen=True)
class History:
    """All that was observed. `heard` says which messages had to become prompts."""

    view: View
    discord: Sequence[Record]
    model: Sequence[ModelEntry] = ()
    heard: Callable[[Record], bool] = lambda _: True
    #: The wall clock when it was looked; None: work was still going on, so nothing is called lost or overdue.
    at_rest_ms: int | None = None
    #: Whether Nightporter (and with it the warm agents) had ended.
    ended: bool = False
    #: The wall clock was moved back meanwhile, so that of two times the later one may be the smaller one.
    clock_went_back: bool = False
    #: Processes that still run, for P12: pid and start time; by default /proc is asked.
    alive: Callable[[int, int], bool] = field(default=procs.alive)

    @property
    def rows(self) -> Snapshot:
        return self.view.rows

    def moves(self, entity: Entity) -> Iterator[Entry]:
        return (entry for entry in self.view.entries if entry.entity is entity)

    def run(self, run_id: int | None) -> Run | None:
        return self._runs.get(run_id)

    @cached_property
    def _runs(self) -> Mapping[int | None, Run]:
        return {row.id: row for row in self.rows.runs}

    def parts_of(self, run_id: int) -> Sequence[Part]:
        return self._parts[run_id]

    @cached_property
    def _parts(self) -> Mapping[int | None, Sequence[Part]]:
        found: defaultdict[int | None, list[Part]] = defaultdict(list)
        for part in self.rows.parts:
            found[part.run_id].append(part)
        return found

    @cached_property
    def spans(self) -> Mapping[int, tuple[int | None, int | None]]:
        """Of each prompt the journal's positions: when it last began to wait, and when it was last taken."""
        waits: dict[int, int] = {}
        taken: dict[int, int] = {}
        for entry in self.moves(Entity.PROMPT):
            if entry.after == PromptState.WAITING:
                waits[entry.entity_id] = entry.id
            if entry.after == PromptState.TAKEN:
                taken[entry.entity_id] = entry.id
        return {row.id: (waits.get(row.id), taken.get(row.id)) for row in self.rows.prompts}

    def messages(self) -> list[Record]:
        """What people wrote that had to become a prompt."""
        return [
            record for record in self.discord if record.kind == "message.create" and not record.bot and record.text and self.heard(record)
        ]

    def posted(self) -> list[Record]:
        """What the bot posted, answers to commands aside."""
        return [record for record in self.discord if record.kind == "message.create" and record.bot and record.interaction_id is None]

    def turns(self) -> list[tuple[str | None, str]]:
        """Session and prompt of every turn that the model saw begin: several requests of one turn are one."""
        seen: dict[tuple[str | None, int, str], None] = {}
        for entry in self.model:
            request = entry.request
            # A sub-agent has prompts of its own; a retry has the same history.
            if entry.kind == "request" and request.subagent is None and request.last_prompt_at is not None:
                seen[request.session, len(request.prompts), request.last_prompt] = None
        return [(session, prompt) for session, _, prompt in seen]


def read_history(
    database: Outside,
    discord: EventLog,
    model: ModelLog | None = None,
    *,
    heard: Callable[[Record], bool] = lambda _: True,
    at_rest_ms: int | None = None,
    ended: bool = False,
) -> History:
    """Everything so far; the database must exist."""
    with database as outside:
        view = outside.view()
    assert view is not None, "there is no database"
    return History(view, tuple(discord), tuple(model or ()), heard, at_rest_ms, ended)


def assert_kept(history: History) -> None:
    """Fail with every broken promise."""
    broken = violations(history)
    assert not broken, "broken promises:\n" + "\n".join(broken)


def violations(history: History) -> list[str]:
    """Each broken promise as a sentence that begins with its name."""
    return [sentence for promise in _PROMISES for sentence in promise(history)]


# --- P1 --------------------------------------------------------------------------------------------------------------


def _accepted_once(history: History) -> Iterator[str]:
    prompts = Counter(prompt.message_id for prompt in history.rows.prompts if prompt.message_id is not None)
    for message_id, count in prompts.items():
        if count > 1:
            yield f"P1: message {message_id} became {count} prompts"
    if history.at_rest_ms is not None:
        for record in history.messages():
            if record.message_id not in prompts:
                yield f"P1: message {record.message_id} ({record.text!r}) is lost"
        for prompt in history.rows.prompts:
            if prompt.state is PromptState.TAKEN or (prompt.state is PromptState.WAITING and prompt.kind.of_people):
                yield f"P1: prompt {prompt.id} ({prompt.text!r}) is still {prompt.state} at rest"


def _said_means_stored(history: History) -> Iterator[str]:
    """P7, as far as people and the agent can see it."""
    stored = {prompt.message_id for prompt in history.rows.prompts}
    for record in history.discord:
        if record.kind == "reaction.add" and record.bot and record.message_id not in stored:
            yield f"P7: message {record.message_id} was marked as seen but is not stored"
    known = {row.id for row in history.rows.continuations}
    for entry in history.model:
        for result in entry.request.tool_results if entry.kind == "request" else ():
            for found in _SCHEDULED.findall(json.dumps(result.get("content"))):
                if int(found) not in known:
                    yield f"P7: the agent was told of c{found}, which is not stored"


# --- P2 --------------------------------------------------------------------------------------------------------------


def _one_at_a_time(history: History) -> Iterator[str]:
    holders: dict[object, int] = {}
    for entry in history.moves(Entity.RUN):
        run = history.run(entry.entity_id)
        if run is None:
            yield f"P2: the journal tells of run {entry.entity_id}, which is not there"
            continue
        for key in (f"conversation {run.conversation_id}", f"folder {run.workspace}" if run.workspace else None):
            if key is None:
                continue
            if entry.after in ACTIVE_RUN:
                holder = holders.setdefault(key, run.id)
                if holder != run.id:
                    yield f"P2: runs {holder} and {run.id} were active in {key} at once"
            elif holders.get(key) == run.id:
                del holders[key]


def _in_order(history: History) -> Iterator[str]:
    """First come, first served within people's prompts of a conversation; a wake never goes before a waiting person."""
    rooms: defaultdict[int, list[Prompt]] = defaultdict(list)
    for prompt in history.rows.prompts:
        rooms[prompt.conversation_id].append(prompt)
    for prompts in rooms.values():
        people = [prompt for prompt in prompts if prompt.kind.of_people and prompt.state is not PromptState.WITHDRAWN]
        for later in prompts:
            yield from _before_its_turn(history, later, people)


def _before_its_turn(history: History, later: Prompt, people: Sequence[Prompt]) -> Iterator[str]:
    left = history.spans[later.id][1]
    if left is None:
        return
    for earlier in people:
        began, ended = history.spans[earlier.id]
        if earlier is later or began is None or began >= left or (ended is not None and ended <= left):
            continue
        if not later.kind.of_people:
            yield f"P2: {later.kind} prompt {later.id} was taken while person's prompt {earlier.id} waited"
        elif (earlier.ordered_ms, earlier.id) < (later.ordered_ms, later.id) and earlier.run_id != later.run_id:
            yield f"P2: prompt {later.id} was taken before prompt {earlier.id}, which came first"


# --- P3, P5 ----------------------------------------------------------------------------------------------------------


def _handed_over_once(history: History) -> Iterator[str]:
    dispatched = Counter(
        entry.entity_id for entry in history.moves(Entity.RUN) if entry.after == RunState.DISPATCHED and entry.before == RunState.CLAIMED
    )
    for run_id, count in dispatched.items():
        if count > 1:
            yield f"P3: run {run_id} was dispatched {count} times"
    if not history.model:
        return
    turns = history.turns()
    texts = [_plain(record.text or "") for record in history.messages()]
    for text in dict.fromkeys(texts):
        # A message may be said twice, and be contained in another one.
        said = sum(text in other for other in texts)
        got = sum(text in prompt for _, prompt in turns)
        if got > said:
            yield f"P3: {text!r} was said {said} times and handed over {got} times"


def _plain(text: str) -> str:
    """Without a mention at its beginning, which the program may cut off."""
    return re.sub(r"^<@!?\d+>\s*", "", text)


def _ends_stay(history: History) -> Iterator[str]:
    """First terminal state wins: nothing moves what has ended (a late echo of an unknown part aside)."""
    words: dict[Entity, Callable[[str], State]] = {
        Entity.RUN: RunState,
        Entity.CONTINUATION: ContinuationState,
        Entity.PROMPT: PromptState,
        Entity.PART: PartState,
    }
    for entry in history.view.entries:
        if entry.entity not in words or entry.before is None:
            continue
        before = words[entry.entity](entry.before)
        if terminal(before) and before is not PartState.UNKNOWN:
            yield f"P5: {entry.entity} {entry.entity_id} moved from {entry.before} to {entry.after} after its end"


# --- P4 --------------------------------------------------------------------------------------------------------------


def _woken_once(history: History) -> Iterator[str]:
    wakes: dict[int, list[Prompt]] = {}
    for prompt in history.rows.prompts:
        if prompt.continuation_id is not None:
            wakes.setdefault(prompt.continuation_id, []).append(prompt)
    told = Counter(int(found) for _, prompt in history.turns() for found in _WAKE.findall(prompt))
    fired: defaultdict[int, list[int]] = defaultdict(list)
    for entry in history.moves(Entity.CONTINUATION):
        if entry.after == ContinuationState.CLAIMED:
            fired[entry.entity_id].append(entry.at_ms)
    for wait in history.rows.continuations:
        name, prompts = f"c{wait.id}", wakes.get(wait.id, [])
        if len(prompts) > 1:
            yield f"P4: {name} became {len(prompts)} prompts"
        if told[wait.id] > 1:
            yield f"P4: {name} woke the agent {told[wait.id]} times"
        if told[wait.id] and wait.state is not ContinuationState.DISPATCHED:
            yield f"P4: {name} is {wait.state} but woke the agent"
        for at_ms in fired[wait.id]:
            if at_ms < wait.due_at_ms:
                yield f"P4: {name} fired {wait.due_at_ms - at_ms} ms early"
        if prompts:
            yield from _woken_rightly(history, wait, prompts[0])
        overdue = history.at_rest_ms is not None and history.at_rest_ms > wait.due_at_ms + _OVERDUE_MS
        if overdue and wait.state in {ContinuationState.PENDING, ContinuationState.REQUESTED}:
            yield f"P4: {name} is still {wait.state} long after its time"


def _woken_rightly(history: History, wait: Continuation, wake: Prompt) -> Iterator[str]:
    name = f"c{wait.id}"
    origin, run = history.run(wait.origin_run_id), history.run(wake.run_id)
    if origin is None or origin.state is not RunState.SUCCEEDED:
        yield f"P4: {name} woke although its origin run is {origin.state if origin else 'unknown'}"
    if wake.session_id != wait.session_id or (run is not None and run.session_id != wait.session_id):
        yield f"P4: {name} was asked for in session {wait.session_id} and woke another one"
    dispatched_ms = None if run is None or history.clock_went_back else run.dispatched_ms
    if run is not None and dispatched_ms is not None and dispatched_ms < wait.due_at_ms:
        yield f"P4: run {run.id} of {name} was dispatched before its time"
    native = next((row.native_id for row in history.rows.sessions if row.id == wait.session_id), None)
    for session, prompt in history.turns():
        if str(wait.id) in _WAKE.findall(prompt) and session != native:
            yield f"P4: {name} woke session {session} instead of {native}"


# --- P6 --------------------------------------------------------------------------------------------------------------


def _posted_once(history: History) -> Iterator[str]:
    by_nonce = {part.nonce: part for part in history.rows.parts}
    posted = {record.message_id: record for record in history.posted()}
    by_its_nonce = {record.nonce: record for record in posted.values()}
    for nonce, count in Counter(record.nonce for record in posted.values()).items():
        if count > 1:
            yield f"P6: the part with nonce {nonce} is in the channel {count} times"
        if nonce not in by_nonce:
            yield f"P6: the bot posted a message that is no part, or an earlier generation of one (nonce {nonce})"
    for part in history.rows.parts:
        yield from _receipt(part, posted, by_its_nonce.get(part.nonce))
    if history.at_rest_ms is not None:
        for part in history.rows.parts:
            if part.state in {PartState.READY, PartState.SENDING}:
                yield f"P6: part {part.id} ({part.text!r}) is still {part.state} at rest"
    for channel in {part.channel_id for part in history.rows.parts}:
        ids = [part.message_id or 0 for part in _delivered(history.rows.parts, channel)]
        if ids != sorted(ids):
            yield f"P6: the parts of channel {channel} were posted out of order"
    yield from _answers_of_their_run(history)


def _receipt(part: Part, posted: Mapping[int | None, Record], record: Record | None) -> Iterator[str]:
    # Message id 0: it was there and somebody deleted it.
    if part.state is PartState.DELIVERED and part.message_id and part.message_id not in posted:
        yield f"P6: part {part.id} is called delivered as message {part.message_id}, which was never posted"
    if part.state in {PartState.WITHDRAWN, PartState.EXPIRED, PartState.FAILED} and record is not None:
        yield f"P6: part {part.id} is called {part.state} but was posted as message {record.message_id}"


def _delivered(parts: Iterable[Part], channel: int) -> list[Part]:
    found = [part for part in parts if part.channel_id == channel and part.state is PartState.DELIVERED and part.message_id]
    return sorted(found, key=lambda part: part.seq)


def _answers_of_their_run(history: History) -> Iterator[str]:
    """A run that did not succeed, or kept quiet, has no answer in the outbox."""
    for part in history.rows.parts:
        run = history.run(part.run_id)
        if part.kind is PartKind.ANSWER and run is not None and run.skipped_why is not None:
            yield f"P6: run {run.id} kept quiet, and yet part {part.id} is its answer"


# --- P12 -------------------------------------------------------------------------------------------------------------


def _nothing_left(history: History) -> Iterator[str]:
    if not history.ended:
        return
    processes = procs.table()
    seen: set[str] = set()
    for run in history.rows.runs:
        # The turns of one warm agent have the same process.
        if run.process is None or run.process in seen:
            continue
        seen.add(run.process)
        process = json.loads(run.process)
        for role in ("launcher", "agent"):
            if history.alive(process[f"{role}_pid"], process[f"{role}_start"]):
                yield f"P12: the {role} of run {run.id} (pid {process[f'{role}_pid']}) still runs"
        left = [pid for pid in procs.marked(process["mark"], processes) if processes[pid].runs]
        if left:
            yield f"P12: run {run.id} left processes {left}"


def _at_rest(history: History) -> Iterator[str]:
    if history.at_rest_ms is not None:
        for run in history.rows.runs:
            if run.state not in _ENDED_RUN:
                yield f"P3: run {run.id} is still {run.state} at rest"


_PROMISES: tuple[Callable[[History], Iterator[str]], ...] = (
    _accepted_once,
    _said_means_stored,
    _one_at_a_time,
    _in_order,
    _handed_over_once,
    _ends_stay,
    _woken_once,
    _posted_once,
    _nothing_left,
    _at_rest,
)
