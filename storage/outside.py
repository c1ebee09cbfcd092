"""Looks into the database of a running Nightporter from another process: for the demo's recorder and the history checker.

It opens an SQLite file read-only, so that an observer can neither change nor hold up what it observes (a reader of a write-ahead
log takes no lock that a writer needs).
"""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from sqlalchemy import Connection, Engine, create_engine, select
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import StaticPool

from storage.events import Entity
from storage.journal import Entry
from storage.models import Snapshot
from storage.rows import CONTINUATIONS, CONVERSATIONS, PARTS, PROMPTS, RUNS, SESSIONS, Kind, R
from storage.schema import journal


@dataclass(frozen=True, slots=True)
class View:
    """One consistent look: every row with all its columns, and the journal's entries that are new."""

    rows: Snapshot
    entries: tuple[Entry, ...]


class Outside:
    """A connection that only reads. `version` is a query whose answer changes with every commit, `begin` begins a snapshot.

    The engine's driver must begin no transaction by itself.
    """

    def __init__(self, engine: Engine, version: str, begin: str) -> None:
        self._engine = engine
        self._version_query = version
        self._begin = begin
        self._version: str | None = None

    @classmethod
    def of_file(cls, file: Path) -> Self:
        """Of an SQLite file, which need not exist yet."""

        def connect() -> sqlite3.Connection:
            return sqlite3.connect(f"{file.as_uri()}?mode=ro", uri=True, isolation_level=None, timeout=5)

        engine = create_engine("sqlite://", creator=connect, poolclass=StaticPool)
        return cls(engine, "PRAGMA data_version", "BEGIN")

    def changed(self) -> bool:
        """Whether anybody committed since the last call; True at first, False while there is no database."""
        try:
            with self._engine.connect() as conn:
                version = str(conn.exec_driver_sql(self._version_query).scalar_one())
        except DBAPIError:
            return False
        before, self._version = self._version, version
        return version != before

    def view(self, after_entry: int = 0) -> View | None:
        """All rows, and the journal behind that entry; None while there is no database, no table, or no way in."""
        try:
            with self._engine.connect() as conn:
                # One read transaction: rows and journal belong together.
                conn.exec_driver_sql(self._begin)
                try:
                    return _view(conn, after_entry)
                finally:
                    # A connection that the server has cut has nothing to roll back.
                    if not conn.invalidated:
                        conn.exec_driver_sql("ROLLBACK")
        except DBAPIError:
            return None

    def close(self) -> None:
        """Let go of the file. Idempotent."""
        self._engine.dispose()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _view(conn: Connection, after_entry: int) -> View:
    snapshot = Snapshot(
        conversations=_all(conn, CONVERSATIONS),
        sessions=_all(conn, SESSIONS),
        prompts=_all(conn, PROMPTS),
        runs=_all(conn, RUNS),
        continuations=_all(conn, CONTINUATIONS),
        parts=_all(conn, PARTS),
    )
    found = conn.execute(select(journal).where(journal.c.id > after_entry).order_by(journal.c.id)).mappings()
    return View(snapshot, tuple(Entry(**{**record, "entity": Entity(record["entity"])}) for record in found))


def _all(conn: Connection, kind: Kind[R]) -> tuple[R, ...]:
    return tuple(kind.read(record) for record in conn.execute(kind.full().order_by(kind.id())).mappings())
