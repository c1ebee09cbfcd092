"""How alembic runs here: always on the connection, and in the transaction, that `storage.migrate` hands over."""

from __future__ import annotations

from alembic import context

from storage.schema import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    # SQLite cannot alter a table in place; alembic then makes a new one and copies.
    render_as_batch=True,
    # All scripts or none: the transaction belongs to the caller.
    transaction_per_migration=False,
)
context.run_migrations()
