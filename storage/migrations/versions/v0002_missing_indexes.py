"""Indexes that the first databases lack.

For an hour of its first day the first schema was without these three; it was changed in place, which a schema that anybody may
have must never be. Where they are there already, this changes nothing.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

_TROUBLED = sa.text("state IN ('expired', 'failed', 'unknown')")


def upgrade() -> None:
    """Make what is missing."""
    op.create_index("ix_parts_delivered", "parts", ["conversation_id", "delivered_ms"], if_not_exists=True)
    op.create_index(
        "ix_parts_troubled",
        "parts",
        ["conversation_id", "seq"],
        if_not_exists=True,
        sqlite_where=_TROUBLED,
        postgresql_where=_TROUBLED,
    )
    op.create_index("ix_prompts_created", "prompts", ["conversation_id", "created_ms"], if_not_exists=True)
