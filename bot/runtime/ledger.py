"""Writes events and wakes whoever has to act on what changed; the one place where a change becomes a hint.

A hint is never the truth: every loop that is woken by one also looks by itself, once in a sweep.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from typing import TypeVar

import structlog

from bot.clock import Clock
from bot.runtime.timing import Pulse
from storage.errors import NotRead, NotStored, OutcomeUnknown, StaleFence
from storage.events import Change, Claim, Entity, Event, Move, Refusal
from storage.models import PartId, RunId, SessionId
from storage.snapshots import Candidate
from storage.states import OPEN_PART, RunState, SessionState
from storage.store import Done, Store

log = structlog.get_logger(__name__)
T = TypeVar("T")

#: First and longest pause between two tries of a write that the database could not take.
_FIRST_PAUSE_S = 0.1
_LONGEST_PAUSE_S = 2.0


class Ledger:
    """The store's writes, with hints. Also the place where runs of this process are told that they were stopped."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._stops: dict[RunId, asyncio.Event] = {}
        #: Somebody might be claimable.
        self.work = asyncio.Event()
        #: Some part might be sendable.
        self.outbox = asyncio.Event()
        #: A due time came, went or changed.
        self.alarm = asyncio.Event()
        #: A part became terminal.
        self.parts_ended = Pulse()
        #: A session row ended: whoever keeps a warm process of it lets it go.
        self.session_ended: Callable[[SessionId], None] = lambda _session_id: None
        #: A COMMIT's outcome was not known: this process may hold a claim that it does not know of.
        self.in_doubt = False

    @property
    def instance(self) -> str:
        """This process, as rows name it."""
        return self._store.instance

    async def do(self, event: Event) -> Done | Refusal:
        """`Store.do`, then the hints. Raises what that raises."""
        try:
            return self._hinted(await self._store.do(event))
        except OutcomeUnknown:
            self.hint_all()
            raise

    async def claim(self, event: Claim, candidate: Candidate) -> Done | Refusal:
        """`Store.claim`, then the hints. Raises what that raises."""
        try:
            return self._hinted(await self._store.claim(event, candidate))
        except OutcomeUnknown:
            self.in_doubt = True
            raise

    async def keep_trying(self, event: Event) -> Done | Refusal:
        """`do`, again and again until the database takes it or refuses it: for what must not be lost while the process lives.

        An event whose first COMMIT was in doubt may come back refused although it is stored; the caller looks.
        """
        pause_s = _FIRST_PAUSE_S
        while True:
            try:
                return await self.do(event)
            except (NotStored, OutcomeUnknown, StaleFence) as error:
                log.warning("storage.retrying", event_type=type(event).__name__, error=str(error))
            await self._clock.sleep(pause_s)
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)

    async def keep_reading(self, read: Callable[[], Awaitable[T]]) -> T:
        """A query, again and again until the database answers."""
        while True:
            try:
                return await read()
            except NotRead as error:
                log.warning("storage.rereading", error=str(error))
            await self._clock.sleep(_LONGEST_PAUSE_S)

    async def stored(self, nonces: Iterable[str]) -> list[PartId]:
        """The parts with those nonces that are there: after a COMMIT in doubt."""
        found = [await self.keep_reading(partial(self._store.outbox.by_nonce, nonce)) for nonce in nonces]
        return [part.id for part in found if part is not None]

    def stop_of(self, run_id: RunId) -> asyncio.Event:
        """Set when the run is stopped or cancelled by anybody in this process; `forget` it at the end of the turn."""
        return self._stops.setdefault(run_id, asyncio.Event())

    def forget(self, run_id: RunId) -> None:
        """The turn has ended."""
        self._stops.pop(run_id, None)

    def hint_all(self) -> None:
        """Everybody looks."""
        self.work.set()
        self.outbox.set()
        self.alarm.set()
        self.parts_ended.beat()

    def _hinted(self, outcome: Done | Refusal) -> Done | Refusal:
        if isinstance(outcome, Done):
            for change in outcome.changes:
                self._hint(change)
        return outcome

    def _hint(self, change: Change) -> None:
        match change.entity:
            case Entity.PART:
                self.outbox.set()
                if isinstance(change, Move) and change.after not in OPEN_PART:
                    self.parts_ended.beat()
            case Entity.CONTINUATION:
                self.alarm.set()
            case Entity.RUN:
                self.work.set()
                if isinstance(change, Move) and self._stopped(change):
                    self._tell(RunId(change.id))
            case Entity.PROMPT | Entity.CONVERSATION:
                self.work.set()
            case Entity.SESSION:
                if isinstance(change, Move) and change.after is SessionState.ENDED:
                    self.session_ended(SessionId(change.id))

    @staticmethod
    def _stopped(move: Move) -> bool:
        marked = move.after is RunState.DISPATCHED and "stop_requested" in move.sets
        return marked or (move.after is RunState.CANCELLED and move.before is RunState.CLAIMED)

    def _tell(self, run_id: RunId) -> None:
        if run_id in self._stops:
            self._stops[run_id].set()
