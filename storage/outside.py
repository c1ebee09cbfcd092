"""Looks into the SQLite file of a running Nightporter from another process: for the demo's recorder and the history checker.

It opens the file read-only, so that an observer can neither change nor hold up what it observes (a reader of a write-ahead log
takes no lock that a writer needs).
"""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from sqlalchemy import Connection, create_engine, select
from sqlalchemy.exc import OperationalError
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
    """A read-only connection to `file`, which need not exist yet."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._engine = create_engine("sqlite://", creator=self._connect, poolclass=StaticPool)
        self._version: int | None = None

    def changed(self) -> bool:
        """Whether anybody committed since the last call; True at first, False while there is no file."""
        if not self._file.exists():
            return False
        try:
            with self._engine.connect() as conn:
                version: int = conn.exec_driver_sql("PRAGMA data_version").scalar_one()
        except OperationalError:
            return False
        before, self._version = self._version, version
        return version != before

    def view(self, after_entry: int = 0) -> View | None:
        """All rows, and the journal behind that entry; None while there is no file, no table, or no way in."""
        if not self._file.exists():
            return None
        try:
            with self._engine.connect() as conn:
                # One read transaction: rows and journal belong together.
                conn.exec_driver_sql("BEGIN")
                try:
                    return _view(conn, after_entry)
                finally:
                    conn.exec_driver_sql("ROLLBACK")
        except OperationalError:
            return None

    def close(self) -> None:
        """Let go of the file. Idempotent."""
        self._engine.dispose()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _connect(self) -> sqlite3.Connection:
        # The library must not begin transactions by itself.
        return sqlite3.connect(f"{self._file.as_uri()}?mode=ro", uri=True, isolation_level=None, timeout=5)


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
