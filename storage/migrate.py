"""Brings the schema to this version at start: in one transaction, under a lock, after a copy; or leaves it exactly as it was."""

from __future__ import annotations

import structlog
from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection
from sqlalchemy.ext.asyncio import AsyncConnection

from storage.engine import Engines
from storage.errors import StorageUnavailable

#: Part of the package, so that a wheel has it.
MIGRATIONS = "storage:migrations"
log = structlog.get_logger(__name__)


async def migrate(engines: Engines, *, migrations: str = MIGRATIONS) -> None:
    """Upgrade to the newest schema. Raises StorageUnavailable if the database is newer than this program.

    Any other error, or a crash, leaves the old schema. An existing SQLite file is copied first, to `<file>.before-<revision>`.
    """
    config = Config()
    config.set_main_option("script_location", migrations)
    config.set_main_option("path_separator", "os")
    script = ScriptDirectory.from_config(config)
    (newest,) = script.get_heads()
    known = {revision.revision for revision in script.walk_revisions()}
    async with engines.write.connect() as conn:
        found = await conn.run_sync(_current)
    _refuse_newer(found, known)
    if found == newest:
        return
    if found is not None:
        copy = await engines.copy_aside(f"before-{newest}")
        log.info("storage.copied", copy=None if copy is None else str(copy))
    async with engines.write.begin() as conn:
        await engines.queue_for_migration(conn)
        # Another process may have migrated while this one stood in the queue.
        _refuse_newer(await conn.run_sync(_current), known)
        await _upgrade(conn, config)
    log.info("storage.migrated", before=found, after=newest)


def _refuse_newer(found: str | None, known: set[str]) -> None:
    if found is not None and found not in known:
        raise StorageUnavailable(f"The database was written by a newer Nightporter (schema {found}); install that version again.")


def _current(connection: Connection) -> str | None:
    return MigrationContext.configure(connection).get_current_revision()


async def _upgrade(conn: AsyncConnection, config: Config) -> None:
    def upgrade(connection: Connection) -> None:
        config.attributes["connection"] = connection
        command.upgrade(config, "head")

    await conn.run_sync(upgrade)
