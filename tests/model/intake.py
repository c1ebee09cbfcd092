"""Intake: messages of one channel that come live, again, or from history, to two processes that may die between any two commits.

The channel holds messages 10, 20, 30 …; each is a person's word, or one that is no prompt. A gateway session delivers what is posted
while it lasts, in order; its events may come again. A new session knows nothing of before: its catch-up reads history page by page.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from storage import events as e
from storage.events import Event, Refusal
from storage.models import Conversation, ConversationId, PromptKind, Rules, Snapshot
from storage.states import PromptState as P
from storage.transitions import decide as product_decide
from tests.model.search import Step
from tests.model.world import ALL_INDEXES, Decide, Fired, Indexes, NotInTable, Void, apply

NOW = 100_000_000
OLD_MS = NOW - 4_000_000
RULES = Rules()
_CONVERSATION = ConversationId(1)


@dataclass(frozen=True, slots=True)
class Outside:
    """What may happen; `messages` is one letter for each: `p` a prompt, `b` somebody who is not heard."""

    messages: str = "pbp"
    crashes: int = 1
    #: A gateway session is lost and another begins; or it is resumed, and its last events come again.
    drops: int = 1
    replays: int = 1
    #: /stop commands, typed between any two messages and handled at any later time.
    stops: int = 0
    #: The newest message that is older than `catch_up_max_age` when it is found in history; 0: none.
    old_until: int = 0
    #: Run, Discard, or the deletion of a message.
    choices: int = 0
    processes: int = 2
    page: int = 2


class Process(NamedTuple):
    """A process and its gateway session."""

    #: Events that were delivered and not looked at yet, in order.
    events: tuple[int, ...]
    #: Events that a resumed session may deliver again.
    handled: tuple[int, ...]
    #: Messages of the page that catch-up read, not stored yet; None: no page.
    page: tuple[int, ...] | None
    #: Whether that page was the last one.
    last: bool
    caught_up: bool


class World(NamedTuple):
    """One state."""

    db: int
    posted: int
    processes: tuple[Process, ...]
    #: Commands typed and not handled yet: their snowflakes.
    commands: tuple[int, ...]
    #: Snowflake of the newest command that was handled.
    stopped: int
    crashes: int
    drops: int
    replays: int
    stops: int
    choices: int
    #: Messages that a person took back or discarded.
    deleted: tuple[int, ...] = ()


FRESH = Process((), (), None, False, False)


@dataclass(slots=True)
class Intake:
    """The model; `tests.model.search.explore` walks through it."""

    outside: Outside
    decide: Decide = product_decide
    indexes: Indexes = ALL_INDEXES
    fired: set[Fired] = field(default_factory=set)
    snaps: list[Snapshot] = field(default_factory=list)
    _numbers: dict[Snapshot, int] = field(default_factory=dict)

    def number(self, snap: Snapshot) -> int:
        index = self._numbers.setdefault(snap, len(self.snaps))
        if index == len(self.snaps):
            self.snaps.append(snap)
        return index

    def initial(self) -> World:
        """An empty channel, bound just now."""
        conversation = Conversation(_CONVERSATION, 101, 1, "p", "a", "/p", False, 0, attended_at_ms=NOW)
        o = self.outside
        return World(
            self.number(Snapshot((conversation,))), 0, (FRESH,) * o.processes, (), 0, o.crashes, o.drops, o.replays, o.stops, o.choices
        )

    def show(self, state: World) -> str:
        """What is stored, and what the processes have before them."""
        snap = self.snaps[state.db]
        stored = [f"{p.message_id} {p.state}" for p in snap.prompts]
        seen = snap.conversations[0].last_seen_id
        ways = [
            f"events {list(p.events)}{'' if p.page is None else f' page {list(p.page)}'}{' caught up' if p.caught_up else ''}"
            for p in state.processes
        ]
        return f"posted up to {state.posted * 10}; stored {stored}; last seen {seen}; {ways}"

    def at_rest(self, state: World) -> str | None:
        """Every person's message is stored. (The mark may stay behind what came live during catch-up; it is only read again then.)"""
        snap = self.snaps[state.db]
        stored = {p.message_id for p in snap.prompts}
        for number in range(1, state.posted + 1):
            if self.outside.messages[number - 1] == "p" and number * 10 not in stored:
                return f"P1: message {number * 10} is lost"
        return None

    def steps(self, state: World) -> Iterator[Step]:
        """Everything that can happen next."""
        if state.posted < len(self.outside.messages):
            number = state.posted + 1
            all_of_them = tuple(p._replace(events=(*p.events, number * 10)) for p in state.processes)
            yield self._step(f"message {number * 10} is posted", state, own=False, posted=number, processes=all_of_them)
        for index, process in enumerate(state.processes):
            yield from self._process(state, index, process)
            yield from self._faults(state, index, process)
        if state.stops:
            typed = tuple(sorted((*state.commands, state.posted * 10 + 5)))
            yield self._step(f"/stop is typed after message {state.posted * 10}", state, own=False, stops=state.stops - 1, commands=typed)
        if state.choices:
            yield from self._people(state)
        for command in state.commands:
            stop = e.Stop("user:1", _CONVERSATION, command)
            rest = tuple(c for c in state.commands if c != command)
            yield from self._commit(f"/stop {command}", state, stop, commands=rest, stopped=max(state.stopped, command))

    def _people(self, state: World) -> Iterator[Step]:
        left = state.choices - 1
        for run in (True, False):
            label = "Run" if run else "Discard"
            yield from self._commit(label, state, e.Choose("user:1", _CONVERSATION, run), own=False, choices=left)
        for p in self.snaps[state.db].prompts:
            event = e.Remove("gateway", p.id, "deleted")
            gone = tuple(sorted({*state.deleted, p.message_id or 0}))
            yield from self._commit(f"message {p.message_id} is deleted", state, event, own=False, choices=left, deleted=gone)

    def _process(self, state: World, index: int, process: Process) -> Iterator[Step]:
        name = f"process {index}"
        if process.events:
            first = process.events[0]
            after = process._replace(events=process.events[1:], handled=(*process.handled, first)[-1:])
            event = self._event(first, "live", caught_up=process.caught_up)
            yield from self._commit(f"{name}: live {first}", state, event, processes=_put(state.processes, index, after))
        if process.caught_up:
            return
        if process.page is None:
            seen = self.snaps[state.db].conversations[0].last_seen_id
            page = tuple(range(seen + 10, state.posted * 10 + 1, 10))[: self.outside.page]
            read = process._replace(page=page, last=len(page) < self.outside.page)
            yield self._step(f"{name}: reads history after {seen}: {list(page)}", state, processes=_put(state.processes, index, read))
        elif process.page:
            first = process.page[0]
            after = process._replace(page=process.page[1:])
            event = self._event(first, "catch_up", caught_up=False)
            yield from self._commit(f"{name}: catch-up {first}", state, event, processes=_put(state.processes, index, after))
        else:
            done = process._replace(page=None, last=False, caught_up=process.last)
            yield self._step(f"{name}: the page is done", state, processes=_put(state.processes, index, done))

    def _faults(self, state: World, index: int, process: Process) -> Iterator[Step]:
        if state.crashes and process != FRESH:
            fresh = _put(state.processes, index, FRESH)
            yield self._step(f"process {index}: dies and starts again", state, own=False, processes=fresh, crashes=state.crashes - 1)
        if state.drops and process != FRESH:
            fresh = _put(state.processes, index, FRESH)
            yield self._step(f"process {index}: a new gateway session", state, own=False, processes=fresh, drops=state.drops - 1)
        if state.replays and process.handled:
            again = process._replace(events=(*process.handled, *process.events))
            left = state.replays - 1
            label = f"process {index}: the gateway delivers {list(process.handled)} again"
            yield self._step(label, state, own=False, processes=_put(state.processes, index, again), replays=left)

    def _event(self, message: int, source: Any, *, caught_up: bool) -> Event:
        if self.outside.messages[message // 10 - 1] == "b":
            return e.Seen("gateway", _CONVERSATION, message, source, caught_up)
        ordered_ms = OLD_MS if message <= self.outside.old_until else NOW
        return e.Arrive(
            "gateway",
            _CONVERSATION,
            PromptKind.USER,
            ordered_ms,
            1,
            "",
            "",
            f"message:{message}",
            addressed=True,
            message_id=message,
            source=source,
            caught_up=caught_up,
        )

    def _commit(self, label: str, state: World, event: Event, *, own: bool = True, **after: Any) -> Iterator[Step]:
        snap = self.snaps[state.db]
        changes = self.decide(snap, event, NOW, RULES)
        if isinstance(changes, Refusal):
            if own:
                yield self._step(f"{label}: {changes.code}", state, **after)
            return
        try:
            applied = apply(snap, changes, self.indexes)
        except (Void, NotInTable) as error:
            yield Step(label, None, own, f"{type(event).__name__} cannot be committed: {error}")
            return
        self.fired.update(applied.moves)
        if isinstance(event, e.Choose) and not event.run:
            gone = {p.message_id or 0 for p in snap.prompts if p.state is P.OFFERED}
            after["deleted"] = tuple(sorted({*state.deleted, *gone}))
        if isinstance(event, e.Arrive) and event.source == "catch_up" and event.ordered_ms == OLD_MS:
            new = applied.snapshot.prompts[len(snap.prompts) :]
            if any(p.state is P.WAITING for p in new):
                yield Step(label, None, own, f"P1: {event.source_key} is too old to be run without being offered")
                return
        yield self._step(label, state, own=own, db=self.number(applied.snapshot), **after)

    def _step(self, label: str, state: World, *, own: bool = True, **after: Any) -> Step:
        new = state._replace(**after)
        broken = self._broken(new)
        if broken is not None:
            return Step(label, None, own, broken)
        if len(new.processes) == 2 and _key(new.processes[1]) < _key(new.processes[0]):
            new = new._replace(processes=new.processes[::-1])
        return Step(label, new, own)

    def _broken(self, state: World) -> str | None:
        snap = self.snaps[state.db]
        seen = snap.conversations[0].last_seen_id
        messages = [p.message_id for p in snap.prompts]
        for message in messages:
            if messages.count(message) > 1:
                return f"P1: message {message} became {messages.count(message)} prompts"
        for number, kind in enumerate(self.outside.messages, 1):
            if kind == "p" and number * 10 <= seen and number * 10 not in messages:
                return f"P1: the last-seen message is {seen}, but {number * 10} is not stored: it is lost"
        for p in snap.prompts:
            message = p.message_id or 0
            if p.state in {P.WAITING, P.OFFERED} and message < state.stopped:
                return f"/stop {state.stopped}: message {message}, which is older, is {p.state}"
            if p.state is P.WITHDRAWN and message > state.stopped and message not in state.deleted:
                return f"/stop {state.stopped}: message {message}, which is newer, was withdrawn"
        return None


def _key(process: Process) -> tuple[Any, ...]:
    return (process.events, process.handled, process.page or (), process.page is None, process.last, process.caught_up)


def _put(processes: tuple[Process, ...], index: int, process: Process) -> tuple[Process, ...]:
    return (*processes[:index], process, *processes[index + 1 :])
