"""The database behind the store: which one it is, how it is opened, locked and left. The only place that asks.

SQLite: one file, one writer connection (the pool of one is the queue: first come, first served), BEGIN IMMEDIATE, WAL, fsync at
every commit, readers that cannot write, and a lock file held for life. PostgreSQL: one pool with time limits.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import event, make_url, text
from sqlalchemy.engine import URL, Connection
from sqlalchemy.exc import ArgumentError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine

from storage.errors import StorageUnavailable
from storage.files import FileLock, copy_database, prepare_file

#: Any number will do, but it must never change: it makes migrating processes of one PostgreSQL database queue up.
_MIGRATION_LOCK = 0x4E50_0001
_MIGRATION_WAIT_MS = 60_000


@dataclass(frozen=True, slots=True)
class Engines:
    """An opened database. `aclose` must be awaited: a driver's thread that is left would keep the process alive."""

    write: AsyncEngine
    read: AsyncEngine
    #: SQLite only: the file, and the lock on it.
    file: Path | None
    lock: FileLock | None

    @property
    def exclusive(self) -> bool:
        """Whether no other process can have this database open: every earlier holder is proven gone."""
        return self.lock is not None

    async def queue_for_migration(self, conn: AsyncConnection) -> None:
        """Inside the migrating transaction: wait until no other process migrates."""
        if self.lock is not None:
            return  # the file's lock was taken before, and BEGIN IMMEDIATE holds the rest
        await conn.execute(text(f"SET LOCAL lock_timeout = {_MIGRATION_WAIT_MS}"))
        await conn.execute(text("SET LOCAL statement_timeout = 0"))
        await conn.execute(text(f"SELECT pg_advisory_xact_lock({_MIGRATION_LOCK})"))

    async def copy_aside(self, suffix: str) -> Path | None:
        """Before an upgrade: a copy of the file beside it. On PostgreSQL backups are the server's matter: None."""
        if self.file is None:
            return None
        return await copy_database(self.file, suffix)

    async def aclose(self) -> None:
        """Close every connection, then give the file back."""
        try:
            await self.read.dispose()
            await self.write.dispose()
        finally:
            if self.lock is not None:
                self.lock.release()


def open_engines(url: str, *, busy_s: float = 30.0) -> Engines:
    """Prepare both engines; nothing connects yet, but the file is made, checked and locked.

    `busy_s`: how long a writer waits for another writer (a backup tool, a person with a shell) and for its turn.
    Raises StorageUnavailable.
    """
    try:
        parsed = make_url(url)
    except ArgumentError as error:
        raise StorageUnavailable("The database URL cannot be read; expected sqlite+aiosqlite:///PATH or postgresql://…") from error
    match parsed.get_backend_name():
        case "sqlite":
            return _open_sqlite(parsed.set(drivername="sqlite+aiosqlite"), busy_s)
        case "postgresql":
            return _open_postgresql(parsed.set(drivername="postgresql+asyncpg"), busy_s)
        case other:
            raise StorageUnavailable(f"The database must be SQLite or PostgreSQL, not {other}.")


def _open_sqlite(url: URL, busy_s: float) -> Engines:
    if not url.database or url.database == ":memory:" or url.database.startswith("file:"):
        raise StorageUnavailable("The database must be a file: in memory nothing would outlive the process.")
    file = prepare_file(Path(url.database))
    lock = FileLock.take(file)
    url = url.set(database=str(file))
    write = create_async_engine(
        url,
        pool_size=1,
        max_overflow=0,
        pool_timeout=busy_s,
        connect_args={"timeout": busy_s},
    )
    read = create_async_engine(
        url,
        pool_size=4,
        max_overflow=0,
        connect_args={"timeout": 5},
        execution_options={"sqlite_begin": "DEFERRED"},
    )
    for engine, query_only in ((write, False), (read, True)):
        _set_up_connections(engine, query_only=query_only)
    return Engines(write=write, read=read, file=file, lock=lock)


def _set_up_connections(engine: AsyncEngine, *, query_only: bool) -> None:
    @event.listens_for(engine.sync_engine, "connect")
    def _on_connect(connection: Any, _record: object) -> None:  # noqa: ANN401 - the driver's own connection
        # Python's sqlite3 must not begin transactions by itself: it begins them DEFERRED, and a writer that upgrades fails at once.
        connection.isolation_level = None
        cursor = connection.cursor()
        cursor.execute("PRAGMA journal_mode=WAL")
        mode = cursor.fetchone()[0]
        if mode != "wal":
            raise StorageUnavailable(f"The database file cannot use write-ahead logging here (SQLite says {mode!r}).")
        # People and agents are told "stored" after a commit, so it must survive power loss: FULL, not NORMAL.
        cursor.execute("PRAGMA synchronous=FULL")
        cursor.execute("PRAGMA foreign_keys=ON")
        cursor.execute("PRAGMA trusted_schema=OFF")
        if query_only:
            cursor.execute("PRAGMA query_only=ON")
        cursor.close()

    @event.listens_for(engine.sync_engine, "begin")
    def _on_begin(connection: Connection) -> None:
        # IMMEDIATE: a second writer waits instead of losing an update or failing at its first write.
        mode = connection.get_execution_options().get("sqlite_begin", "IMMEDIATE")
        connection.exec_driver_sql(f"BEGIN {mode}")


def _open_postgresql(url: URL, busy_s: float) -> Engines:
    engine = create_async_engine(
        url,
        # After a restart of the server the pool's connections are dead; without this each one fails once.
        pool_pre_ping=True,
        pool_size=10,
        pool_timeout=busy_s,
        connect_args={
            "timeout": 10,
            "server_settings": {
                "application_name": "nightporter",
                "statement_timeout": "15000",
                "lock_timeout": str(int(min(busy_s, 4.0) * 1000)),
                "idle_in_transaction_session_timeout": "15000",
            },
        },
    )
    return Engines(write=engine, read=engine, file=None, lock=None)
