"""The store: one method that writes (`do`), read-only queries beside it, and nothing that can be half done."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import TypeVar

import structlog
from sqlalchemy import delete, func, insert, select
from sqlalchemy.exc import DBAPIError, SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncConnection

from storage.apply import Writer
from storage.continuations import Continuations
from storage.conversations import Conversations, NewConversation
from storage.diagnosis import Fault, certainly_not_committed, fault_of, sentence
from storage.dispatch import Dispatch
from storage.engine import Engines, open_engines
from storage.errors import Impossible, NotStored, OutcomeUnknown, StaleFence, StorageUnavailable
from storage.events import Change, Claim, Entity, Event, Insert, Refusal, Row
from storage.guard import in_transaction
from storage.journal import Journal
from storage.loaders import Loader
from storage.migrate import migrate
from storage.models import Conversation, Rules, Snapshot
from storage.outbox import Outbox
from storage.points import FaultHook, no_fault, point_of
from storage.prompts import Prompts
from storage.reader import Reader
from storage.rows import CONVERSATIONS
from storage.runs import Runs
from storage.schema import conversations, meta
from storage.sessions import Sessions
from storage.shield import Shield
from storage.snapshots import Candidate
from storage.transitions import decide

#: Wall-clock time, integer milliseconds UTC.
Now = Callable[[], int]
T = TypeVar("T")
log = structlog.get_logger(__name__)

#: How often a unit is decided anew after it lost a race. On SQLite there are none; on PostgreSQL the conversation's lock
#: leaves only races between conversations of one workspace or for one source key, and those end with the winner's commit.
_ATTEMPTS = 5


@dataclass(frozen=True, slots=True)
class Done:
    """What was written, with real ids. It is on disk."""

    changes: tuple[Change, ...]

    def inserted(self, entity: Entity) -> tuple[Row, ...]:
        """The new rows of one kind, in order."""
        return tuple(c.row for c in self.changes if isinstance(c, Insert) and c.entity is entity)


class _LostRace(Exception):
    """Somebody else's commit came first."""


class Store:
    """An open database. Made by `open`; `aclose` must be awaited."""

    def __init__(self, engines: Engines, *, now: Now, rules: Rules, instance: str, fault: FaultHook) -> None:
        self._engines = engines
        self._now = now
        self._fault = fault
        self._shield = Shield()
        self.rules = rules
        #: This process's id, as rows and journal name it.
        self.instance = instance
        reader = Reader(engines.read, self._shield)
        self.conversations = Conversations(reader)
        self.sessions = Sessions(reader)
        self.prompts = Prompts(reader)
        self.runs = Runs(reader)
        self.continuations = Continuations(reader)
        self.outbox = Outbox(reader)
        self.journal = Journal(reader)
        self.dispatch = Dispatch(reader)

    @property
    def exclusive(self) -> bool:
        """Whether every other holder of rows is proven gone, because this process alone has the database."""
        return self._engines.exclusive

    @classmethod
    async def open(
        cls,
        url: str,
        *,
        now: Now,
        rules: Rules,
        instance: str,
        fault: FaultHook = no_fault,
        busy_s: float = 30.0,
    ) -> Store:
        """Open, lock and migrate the database. Raises StorageUnavailable; then nothing is left open.

        `busy_s`: how long a write waits for other programs that hold the database, before it raises NotStored.
        A crash during the migration leaves the schema of before.
        """
        engines = open_engines(url, busy_s=busy_s)
        store = cls(engines, now=now, rules=rules, instance=instance, fault=fault)
        try:
            await store._shield.run(store._prepare())
        except BaseException:
            await engines.aclose()
            raise
        return store

    async def _prepare(self) -> None:
        try:
            await migrate(self._engines)
            async with self._engines.write.begin() as conn:
                await self._engines.queue_for_migration(conn)  # processes that start at once write the same rows
                opened = {"opened_by": self.instance, "opened_at_ms": str(self._now())}
                await conn.execute(delete(meta).where(meta.c.key.in_(opened)))
                await conn.execute(insert(meta), [{"key": key, "value": value} for key, value in opened.items()])
        except (SQLAlchemyError, OSError) as error:
            raise StorageUnavailable(f"The database cannot be opened: {sentence(error)}.") from error

    async def aclose(self) -> None:
        """Wait for running transactions, then close everything and give the database back."""
        await self._shield.drain()
        await self._engines.aclose()

    async def do(self, event: Event) -> Done | Refusal:
        """Decide on an event and write what follows, in one transaction that is shielded from cancellation.

        Raises StaleFence, NotStored, Impossible (nothing was changed) or OutcomeUnknown (repeat the event). A crash before the
        COMMIT changes nothing; after it, everything is there. `Claim` has no target of its own: use `claim`.
        """
        return await self._write(event, lambda loader: loader.event(event))

    async def claim(self, event: Claim, candidate: Candidate) -> Done | Refusal:
        """`do` for a claim, in one of the places that `dispatch.claimable` named."""
        return await self._write(event, lambda loader: loader.claim(candidate))

    async def bind(self, new: NewConversation) -> Conversation:
        """Bind a channel for the first time; whoever comes second gets the row that is there, unchanged."""

        async def work(conn: AsyncConnection) -> Conversation:
            query = CONVERSATIONS.light().where(conversations.c.channel_id == new.channel_id)
            found = (await conn.execute(query)).mappings().one_or_none()
            if found is not None:
                return CONVERSATIONS.read(found)
            now_ms = self._now()
            # A usage limit holds every conversation of the agent, so also one that begins later.
            held = select(func.min(conversations.c.not_before_ms)).where(conversations.c.agent == new.agent)
            row = replace(new.row(now_ms), not_before_ms=(await conn.execute(held)).scalar_one() or 0)
            insert_it = Insert(Entity.CONVERSATION, row, "first binding")
            (written,) = await Writer(conn, self.instance, now_ms).apply((insert_it,))
            if not isinstance(written, Insert) or not isinstance(written.row, Conversation):
                raise TypeError(written)
            return written.row

        return await self._shield.run(self._unit("bind", work))

    async def _write(self, event: Event, load: Callable[[Loader], Awaitable[Snapshot]]) -> Done | Refusal:
        async def work(conn: AsyncConnection) -> Done | Refusal:
            snapshot = await load(Loader(conn, self.rules))
            now_ms = self._now()
            outcome = decide(snapshot, event, now_ms, self.rules)
            if isinstance(outcome, Refusal):
                return outcome
            return Done(await Writer(conn, event.by, now_ms).apply(outcome))

        return await self._shield.run(self._unit(point_of(event), work))

    async def _unit(self, point: str, work: Callable[[AsyncConnection], Awaitable[T]]) -> T:
        """One transaction, decided anew as long as it loses races."""
        lost: _LostRace | None = None
        for _ in range(_ATTEMPTS):
            try:
                return await self._once(point, work)
            except _LostRace as error:
                log.info("storage.lost_race", point=point, cause=str(error))
                lost = error
        raise StaleFence(f"{point}: others were first {_ATTEMPTS} times in a row.") from lost

    async def _once(self, point: str, work: Callable[[AsyncConnection], Awaitable[T]]) -> T:
        token = in_transaction.set(True)
        try:
            async with self._engines.write.connect() as conn:
                result = await work(conn)
                if isinstance(result, Refusal):
                    return result  # leaving without COMMIT rolls back
                await self._fault(f"{point}.before")
                await self._commit(conn)
        except SQLAlchemyError as error:
            match fault_of(error):
                case Fault.LOST_RACE:
                    raise _LostRace(str(error)) from error
                case Fault.IMPOSSIBLE:
                    cause = error.orig if isinstance(error, DBAPIError) else error
                    raise Impossible(f"Nothing was stored: the database forbids the row ({cause}).") from error
                case Fault.UNABLE:
                    raise NotStored(f"Nothing was stored: {sentence(error)}.") from error
        except OSError as error:
            raise NotStored(f"Nothing was stored: {sentence(error)}.") from error
        finally:
            in_transaction.reset(token)
        await self._fault(f"{point}.after")
        return result

    @staticmethod
    async def _commit(conn: AsyncConnection) -> None:
        try:
            await conn.commit()
        except (SQLAlchemyError, OSError) as error:
            if certainly_not_committed(error):
                raise
            raise OutcomeUnknown(f"It is not known whether this was stored: {sentence(error)}; the same call may be repeated.") from error
