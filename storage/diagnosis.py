"""What a driver's error means for the caller, and the one sentence that says so."""

from __future__ import annotations

from enum import Enum, auto

from sqlalchemy.exc import DBAPIError, SQLAlchemyError
from sqlalchemy.exc import TimeoutError as PoolTimeout


class Fault(Enum):
    """What can be done about it."""

    #: Somebody else stored first (a unique index, a deadlock): decide anew from what is there now.
    LOST_RACE = auto()
    #: A constraint forbids the row: a fault of the program.
    IMPOSSIBLE = auto()
    #: The database cannot at the moment.
    UNABLE = auto()


#: SQLSTATE, PostgreSQL docs appendix A: unique_violation, serialization_failure, deadlock_detected.
_LOST_SQLSTATES = frozenset({"23505", "40001", "40P01"})
_LOST_SQLITE = frozenset({"SQLITE_CONSTRAINT_UNIQUE", "SQLITE_CONSTRAINT_PRIMARYKEY"})

#: sqlite.org/rescode.html, by the beginning of the name.
_SQLITE_SENTENCES = (
    ("SQLITE_FULL", "the disk is full"),
    ("SQLITE_BUSY", "another program holds the database file's lock"),
    ("SQLITE_LOCKED", "another program holds the database file's lock"),
    ("SQLITE_READONLY", "the database file is read-only"),
    ("SQLITE_IOERR", "the disk reports an error"),
    ("SQLITE_CANTOPEN", "the database file cannot be opened"),
    ("SQLITE_CORRUPT", "the database file is damaged"),
    ("SQLITE_NOTADB", "the database file is not a database"),
)
_SQLSTATE_SENTENCES = (
    ("53100", "the database server's disk is full"),
    ("53300", "the database server has too many connections"),
    ("55P03", "another program holds a lock in the database"),
    ("57014", "the database took too long"),
    ("57P", "the database server is shutting down or starting"),
    ("25006", "the database is read-only"),
    ("28", "the database refuses the user or password"),
    ("3D000", "the database does not exist on the server"),
    ("08", "the connection to the database was lost"),
)


def fault_of(error: SQLAlchemyError) -> Fault:
    """What kind of trouble it is."""
    if not isinstance(error, DBAPIError):
        return Fault.UNABLE
    sqlite_name, sqlstate = _codes(error)
    if sqlite_name in _LOST_SQLITE or sqlstate in _LOST_SQLSTATES:
        return Fault.LOST_RACE
    if sqlite_name.startswith("SQLITE_CONSTRAINT") or sqlstate.startswith(("23", "22")):
        return Fault.IMPOSSIBLE
    return Fault.UNABLE


def sentence(error: SQLAlchemyError | OSError) -> str:
    """Half a sentence for a person: what is wrong with the database."""
    if isinstance(error, PoolTimeout):
        return "the database has been busy for too long"
    if isinstance(error, OSError):
        return f"the database cannot be reached ({error.strerror or error})"
    if not isinstance(error, DBAPIError):
        return f"the database could not be used ({error})"
    sqlite_name, sqlstate = _codes(error)
    for begin, words in _SQLITE_SENTENCES:
        if sqlite_name.startswith(begin):
            return words
    for begin, words in _SQLSTATE_SENTENCES:
        if sqlstate.startswith(begin):
            return words
    if error.connection_invalidated:
        return "the connection to the database was lost"
    return f"the database reports: {error.orig}"


def _codes(error: DBAPIError) -> tuple[str, str]:
    return (
        getattr(error.orig, "sqlite_errorname", None) or "",
        getattr(error.orig, "sqlstate", None) or "",
    )


#: SQLite's codes after which COMMIT has written nothing and the rollback that follows is certain.
_UNCOMMITTED_SQLITE = ("SQLITE_FULL", "SQLITE_BUSY", "SQLITE_LOCKED", "SQLITE_READONLY", "SQLITE_CONSTRAINT")


def certainly_not_committed(error: SQLAlchemyError | OSError) -> bool:
    """Whether an error of COMMIT itself says that nothing was stored.

    A server that answers with a code has decided; a connection that is lost, or a disk that fails while it syncs, has not.
    """
    if not isinstance(error, DBAPIError):
        return False
    sqlite_name, sqlstate = _codes(error)
    return sqlite_name.startswith(_UNCOMMITTED_SQLITE) or sqlstate.startswith(("23", "40"))
