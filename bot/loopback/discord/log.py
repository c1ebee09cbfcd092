"""The append-only log of everything the loopback Discord saw, to read, to wait on and to check afterwards."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from types import MappingProxyType
from typing import Any

from .timing import LoopbackClock


@dataclass(slots=True, frozen=True)
class Record:
    """One observed thing.

    ``kind`` is one of: ``message.create``, ``message.edit``, ``message.delete``, ``message.duplicate`` (a POST answered
    with an earlier message because of its nonce), ``reaction.add``, ``reaction.remove``, ``typing``, ``thread.create``,
    ``thread.update``, ``channel.delete``, ``interaction.create``, ``interaction.ack``, ``interaction.expired``,
    ``interaction.followup``, ``commands.sync``, ``request``, ``request.malformed``, ``fault``, ``gateway.connect``,
    ``gateway.identify``, ``gateway.resume``, ``gateway.refuse``, ``gateway.close``. A refused identify has the close
    code as ``status``, a refused resume has 9.
    """

    seq: int
    t_ms: int
    mono: float
    kind: str
    guild_id: int | None = None
    channel_id: int | None = None
    message_id: int | None = None
    interaction_id: int | None = None
    author_id: int | None = None
    author: str | None = None
    bot: bool | None = None
    text: str | None = None
    nonce: str | None = None
    method: str | None = None
    path: str | None = None
    status: int | None = None
    detail: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))

    def to_json(self) -> str:
        """One line of JSON without the fields that are not set; ids are strings, as in the API."""
        row: dict[str, Any] = {}
        for spec in fields(self):
            value = getattr(self, spec.name)
            if value is None or (spec.name == "detail" and not value):
                continue
            if spec.name == "detail":
                value = dict(value)
            elif spec.name.endswith("_id"):
                value = str(value)
            row[spec.name] = value
        return json.dumps(row, ensure_ascii=False, default=str)


Predicate = Callable[[Record], bool]
Subscriber = Callable[[Record], None]


class WaitedTooLongError(AssertionError):
    """What was waited for in the log did not come; the message shows the last records."""


class EventLog:
    """Records in order. Appending is synchronous; waiters are futures, nothing polls."""

    def __init__(self, clock: LoopbackClock) -> None:
        self._clock = clock
        self._records: list[Record] = []
        self._subscribers: list[Subscriber] = []
        self._waiters: list[tuple[Predicate, asyncio.Future[Record]]] = []

    def __len__(self) -> int:
        return len(self._records)

    def __iter__(self) -> Iterator[Record]:
        return iter(tuple(self._records))

    def append(self, kind: str, **values: Any) -> Record:  # noqa: ANN401  # fields of Record
        """Add a record with the time of now, tell subscribers and waiters."""
        detail = MappingProxyType(dict(values.pop("detail", None) or {}))
        record = Record(
            seq=len(self._records), t_ms=self._clock.now_ms(), mono=self._clock.monotonic_s(), kind=kind, detail=detail, **values
        )
        self._records.append(record)
        for subscriber in tuple(self._subscribers):
            subscriber(record)
        for waiter in tuple(self._waiters):
            predicate, future = waiter
            if not future.done() and predicate(record):
                future.set_result(record)
        return record

    def subscribe(self, subscriber: Subscriber) -> Callable[[], None]:
        """Call ``subscriber`` with each new record; the returned function ends that."""
        self._subscribers.append(subscriber)
        return lambda: self._subscribers.remove(subscriber)

    def of(self, *kinds: str, since: int = 0) -> list[Record]:
        """The records of these kinds from position ``since`` on."""
        return [record for record in self._records[since:] if record.kind in kinds]

    async def wait_for(self, predicate: Predicate, *, since: int = 0, timeout_s: float = 10.0) -> Record:
        """The first record from position ``since`` on that satisfies ``predicate``, now or later.

        Take ``since = len(log)`` before the act to see only what follows it. Raises :class:`WaitedTooLongError`.
        """
        for record in self._records[since:]:
            if predicate(record):
                return record
        waiter = (predicate, asyncio.get_running_loop().create_future())
        self._waiters.append(waiter)
        try:
            return await asyncio.wait_for(waiter[1], timeout_s)
        except TimeoutError:
            tail = "\n".join(record.to_json() for record in self._records[-15:])
            message = f"nothing like that within {timeout_s} s; the last records are:\n{tail}"
            raise WaitedTooLongError(message) from None
        finally:
            self._waiters.remove(waiter)

    async def wait_kind(self, kind: str, *, since: int = 0, timeout_s: float = 10.0) -> Record:
        """The first record of this kind from position ``since`` on."""
        return await self.wait_for(lambda record: record.kind == kind, since=since, timeout_s=timeout_s)

    def to_json_lines(self) -> str:
        """The whole log, one JSON object a line."""
        return "".join(record.to_json() + "\n" for record in self._records)
