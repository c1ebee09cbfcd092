"""What can go wrong with the database: each error says whether anything was stored, in one sentence for a person."""

from __future__ import annotations


class StorageError(Exception):
    """Base of all storage errors. `str(error)` is one clear sentence; SQL and drivers' errors are only its cause."""


class StorageUnavailable(StorageError):
    """The database cannot be opened: another process holds it, its schema is newer, it is on a network, or out of reach.

    Nothing was changed.
    """


class StaleFence(StorageError):
    """A row was no longer what the decision was based on, so all of the decision is void. Nothing was changed.

    Whoever gets this no longer owns what it tried to write; it must look again, and never repeat the write blindly.
    """


class NotStored(StorageError):
    """The database could not take the write (disk full, locked, read-only, out of reach). Nothing was changed.

    The same call may be repeated once the fault is mended.
    """


class OutcomeUnknown(StorageError):
    """The connection failed during COMMIT: it is stored completely, or not at all, and only reading can tell.

    Events are compared with what is there when they are applied, so repeating the same one is safe.
    """


class NotRead(StorageError):
    """A query failed (database locked, damaged or out of reach). It may be repeated."""


class Impossible(StorageError):
    """The database refused a row that its constraints forbid, or the rules made a move that the table of states has not.

    A fault of the program. Nothing was changed.
    """
