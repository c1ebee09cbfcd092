"""The database file: private, local, and one process's own for life."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import stat
import sys
from contextlib import closing
from pathlib import Path

import pytest

from storage.engine import open_engines
from storage.errors import StorageUnavailable
from storage.files import refuse_network
from storage.models import Rules
from storage.store import Store
from tests.support.storage import Driver, Time

HOLD = """
import asyncio, sys
from storage.models import Rules
from storage.store import Store
async def main():
    await Store.open(sys.argv[1], now=lambda: 1, rules=Rules(), instance="holder")
    print("open", flush=True)
    await asyncio.Event().wait()
asyncio.run(main())
"""


async def test_a_second_process_is_refused_until_the_first_is_gone_even_killed(sqlite_url: str, time: Time) -> None:
    holder = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", HOLD, sqlite_url),
        stdout=asyncio.subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    try:
        assert holder.stdout is not None
        while (line := await holder.stdout.readline()) != b"open\n":
            assert line, "the holder ended"
        with pytest.raises(StorageUnavailable, match=r"Another process uses .*np\.db \(it holds .*np\.db\.lock\)"):
            await Store.open(sqlite_url, now=time, rules=Rules(), instance="second")
    finally:
        holder.kill()
        await holder.wait()
    store = await Store.open(sqlite_url, now=time, rules=Rules(), instance="second")
    assert store.exclusive
    await store.aclose()


async def test_another_name_of_the_same_file_is_the_same_file(sqlite_url: str, tmp_path: Path, time: Time) -> None:
    (tmp_path / "link.db").symlink_to(tmp_path / "state" / "np.db")
    store = await Store.open(sqlite_url, now=time, rules=Rules(), instance="first")
    try:
        with pytest.raises(StorageUnavailable, match="Another process"):
            await Store.open(f"sqlite:///{tmp_path}/link.db", now=time, rules=Rules(), instance="second")
    finally:
        await store.aclose()


async def test_nobody_else_can_read_the_files(tmp_path: Path, time: Time) -> None:
    folder = tmp_path / "new" / "state"
    store = await Store.open(f"sqlite+aiosqlite:///{folder}/np.db", now=time, rules=Rules(), instance="worker-1")
    try:
        await Driver(store, time).bind()
        modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()}
    finally:
        await store.aclose()
    assert modes == dict.fromkeys(("np.db", "np.db-wal", "np.db-shm", "np.db.lock"), 0o600)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


async def test_every_connection_fsyncs_and_checks_references(sqlite_url: str) -> None:
    engines = open_engines(sqlite_url)
    try:
        for engine in (engines.write, engines.read):
            async with engine.connect() as conn:
                found = [
                    (await conn.exec_driver_sql(f"PRAGMA {name}")).scalar() for name in ("journal_mode", "synchronous", "foreign_keys")
                ]
                assert found == ["wal", 2, 1]
    finally:
        await engines.aclose()


async def test_a_writer_holds_the_file_from_its_first_statement(sqlite_url: str) -> None:
    """BEGIN IMMEDIATE: what it reads cannot change before it writes."""
    engines = open_engines(sqlite_url)
    try:
        assert engines.file is not None
        async with engines.write.connect() as conn:
            await conn.exec_driver_sql("SELECT 1")
            with closing(sqlite3.connect(engines.file, timeout=0)) as second, pytest.raises(sqlite3.OperationalError, match="locked"):
                second.execute("BEGIN IMMEDIATE")
    finally:
        await engines.aclose()


MOUNTS = """\
22 1 254:1 / / rw,relatime - ext4 /dev/vda1 rw
30 22 0:40 / /srv rw,relatime shared:1 - nfs4 server:/export rw
31 30 254:2 / /srv/local rw - xfs /dev/vdb rw
32 22 0:41 / /mnt/two\\040words rw - fuse.sshfs me@there rw
33 22 0:42 / /data rw - ext4 /dev/vdc rw
34 33 0:43 / /data rw - cifs //server/share rw
"""


@pytest.mark.parametrize(
    ("folder", "kind"),
    [("/srv/state", "nfs4"), ("/mnt/two words", "fuse.sshfs"), ("/data/x", "cifs"), ("/srv/local/x", None), ("/srvx", None), ("/", None)],
)
def test_a_network_file_system_is_refused(tmp_path: Path, folder: str, kind: str | None) -> None:
    mounts = tmp_path / "mountinfo"
    mounts.write_text(MOUNTS)
    if kind is None:
        refuse_network(Path(folder), mounts)
    else:
        with pytest.raises(StorageUnavailable, match=rf"network file system \({kind}\)"):
            refuse_network(Path(folder), mounts)


def test_where_mounts_are_not_told_a_folder_is_believed_local(tmp_path: Path) -> None:
    refuse_network(tmp_path, tmp_path / "missing")


@pytest.mark.parametrize(
    ("url", "sentence"),
    [
        ("sqlite+aiosqlite:///:memory:", "must be a file"),
        ("sqlite://", "must be a file"),
        ("mysql://localhost/np", "SQLite or PostgreSQL, not mysql"),
        ("what is this", "cannot be read"),
    ],
)
async def test_a_database_that_cannot_hold_promises_is_refused(url: str, sentence: str, time: Time) -> None:
    with pytest.raises(StorageUnavailable, match=sentence):
        await Store.open(url, now=time, rules=Rules(), instance="worker-1")
