"""The SQLite file on disk: private, local, owned by one process for life, copied before it is changed in shape."""

from __future__ import annotations

import asyncio
import errno
import fcntl
import os
import sqlite3
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from storage.errors import StorageUnavailable

_MOUNTS = Path("/proc/self/mountinfo")
#: File systems that are somewhere else. Locks and shared memory, which SQLite needs, do not hold on them
#: (sqlite.org/useovernet.html, sqlite.org/wal.html).
_REMOTE = frozenset(
    {
        "9p",
        "afs",
        "beegfs",
        "ceph",
        "cifs",
        "coda",
        "davfs",
        "gfs2",
        "glusterfs",
        "gpfs",
        "lustre",
        "ncpfs",
        "nfs",
        "nfs4",
        "ocfs2",
        "smb3",
        "smbfs",
    }
)
_REMOTE_FUSE = frozenset({"ceph", "davfs2", "gcsfuse", "glusterfs", "juicefs", "rclone", "s3fs", "sshfs"})


def prepare_file(path: Path) -> Path:
    """Make the file and its folder if they are missing, both for the owner only, and return the path without links.

    SQLite gives its -wal and -shm files the mode of the database, so that they are private too. Raises StorageUnavailable.
    """
    try:
        path = path.expanduser().absolute()
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        path = path.resolve()
        refuse_network(path.parent)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            os.fchmod(descriptor, 0o600)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise StorageUnavailable(f"The database file {path} cannot be opened for writing: {error.strerror}.") from error
    return path


def refuse_network(folder: Path, mounts: Path = _MOUNTS) -> None:
    """Raise StorageUnavailable if the folder is on a network file system. Where the system does not tell, it is believed local."""
    try:
        lines = mounts.read_text("utf-8", "surrogateescape").splitlines()
    except FileNotFoundError:
        return
    kind = _file_system(folder, lines)
    if kind in _REMOTE or kind.removeprefix("fuse.") in _REMOTE_FUSE:
        raise StorageUnavailable(
            f"The database folder {folder} is on a network file system ({kind}), where SQLite files break; "
            "use a local folder, or PostgreSQL."
        )


def _file_system(folder: Path, lines: list[str]) -> str:
    """The type of the mount that holds the folder: the longest mount point above it; of equals the last, which covers the others.

    proc(5): mountinfo has the mount point as field 5, with spaces as octal escapes, and the type first after " - ".
    """
    best, kind = -1, ""
    for line in lines:
        head, _, tail = line.partition(" - ")
        fields = head.split(" ")
        point = Path(fields[4].replace("\\040", " ").replace("\\011", "\t").replace("\\134", "\\"))
        if folder.is_relative_to(point) and len(point.parts) >= best:
            best, kind = len(point.parts), tail.split(" ")[0]
    return kind


@dataclass(frozen=True, slots=True)
class FileLock:
    """The right to use a file, held until release or death: the kernel gives it back, no pid is guessed."""

    path: Path
    descriptor: int

    @classmethod
    def take(cls, file: Path) -> FileLock:
        """Lock `<file>.lock` at once or raise StorageUnavailable: a second process never waits for the first.

        The lock file stays when it is released: to remove it would let two processes hold two files of one name.
        """
        path = file.with_name(f"{file.name}.lock")
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise StorageUnavailable(f"The lock file {path} cannot be opened: {error.strerror}.") from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(descriptor)
            if error.errno in {errno.EWOULDBLOCK, errno.EACCES}:
                raise StorageUnavailable(f"Another process uses {file} (it holds {path}).") from error
            raise StorageUnavailable(f"The lock file {path} cannot be locked: {error.strerror}.") from error
        return cls(path, descriptor)

    def release(self) -> None:
        """Give the file back."""
        os.close(self.descriptor)


async def copy_database(file: Path, suffix: str) -> Path:
    """Write a consistent, compact copy to `<file>.<suffix>`, replacing an older one only when it is complete.

    A crash leaves at most a `.part` file, which the next copy overwrites. Raises StorageUnavailable.
    """
    target = file.with_name(f"{file.name}.{suffix}")
    try:
        await asyncio.to_thread(_copy, file, target)
    except (OSError, sqlite3.Error) as error:
        raise StorageUnavailable(f"The database {file} was not upgraded: its copy {target} cannot be written ({error}).") from error
    return target


def _copy(file: Path, target: Path) -> None:
    part = target.with_name(f"{target.name}.part")
    part.unlink(missing_ok=True)
    # VACUUM INTO accepts an empty file, and this one is private from its first byte.
    os.close(os.open(part, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    with closing(sqlite3.connect(file, isolation_level=None)) as connection:
        connection.execute("VACUUM INTO ?", (str(part),))
    with part.open("rb") as written:
        os.fsync(written.fileno())
    part.replace(target)
    descriptor = os.open(target.parent, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
