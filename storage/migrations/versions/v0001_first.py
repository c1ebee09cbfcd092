"""The first schema.

The tables as `storage.schema` had them when this was released; it is written out, so that later changes there do not change it.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

BIG = sa.BigInteger().with_variant(sa.Integer(), "sqlite")

JOURNAL_GUARD = {
    "sqlite": ("CREATE TRIGGER journal_append_only BEFORE UPDATE ON journal BEGIN SELECT RAISE(ABORT, 'the journal is append-only'); END",),
    "postgresql": (
        (
            "CREATE FUNCTION journal_append_only() RETURNS trigger LANGUAGE plpgsql AS "
            "$$ BEGIN RAISE EXCEPTION 'the journal is append-only'; END $$"
        ),
        "CREATE TRIGGER journal_append_only BEFORE UPDATE ON journal FOR EACH ROW EXECUTE FUNCTION journal_append_only()",
    ),
}


def _where(condition: str) -> dict[str, Any]:
    return {"sqlite_where": sa.text(condition), "postgresql_where": sa.text(condition)}


def upgrade() -> None:
    """Make all tables."""
    _conversations()
    _journal()
    _meta()
    _sessions()
    _runs()
    _continuations()
    _parts()
    _prompts()
    for statement in JOURNAL_GUARD[op.get_bind().dialect.name]:
        op.execute(statement)


def _conversations() -> None:
    op.create_table(
        "conversations",
        sa.Column("id", BIG, autoincrement=True, nullable=False),
        sa.Column("channel_id", BIG, nullable=False),
        sa.Column("guild_id", BIG, nullable=True),
        sa.Column("project", sa.Text(), nullable=False),
        sa.Column("agent", sa.Text(), nullable=False),
        sa.Column("folder", sa.Text(), nullable=False),
        sa.Column("shared", sa.Boolean(create_constraint=True, name="shared"), nullable=False),
        sa.Column("last_seen_id", BIG, nullable=False),
        sa.Column("stop_id", BIG, nullable=False),
        sa.Column("unattended_runs", BIG, nullable=False),
        sa.Column("attended_at_ms", BIG, nullable=False),
        sa.Column("unattended_asked", sa.Boolean(create_constraint=True, name="unattended_asked"), nullable=False),
        sa.Column("not_before_ms", BIG, nullable=False),
        sa.Column("next_seq", BIG, nullable=False),
        sa.CheckConstraint("next_seq >= 1", name=op.f("ck_conversations_next_seq")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_conversations")),
        sa.UniqueConstraint("channel_id", name=op.f("uq_conversations_channel_id")),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_conversations_folder", "conversations", ["folder"], unique=False)
    op.create_index("ix_conversations_guild_id", "conversations", ["guild_id"], unique=False)


def _journal() -> None:
    op.create_table(
        "journal",
        sa.Column("id", BIG, autoincrement=True, nullable=False),
        sa.Column("at_ms", BIG, nullable=False),
        sa.Column("entity", sa.Text(), nullable=False),
        sa.Column("entity_id", BIG, nullable=False),
        sa.Column("conversation_id", BIG, nullable=False),
        sa.Column("before", sa.Text(), nullable=True),
        sa.Column("after", sa.Text(), nullable=False),
        sa.Column("why", sa.Text(), nullable=False),
        sa.Column("by", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_journal")),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_journal_at_ms", "journal", ["at_ms"], unique=False)
    op.create_index("ix_journal_conversation", "journal", ["conversation_id", "id"], unique=False)
    op.create_index("ix_journal_entity", "journal", ["entity", "entity_id"], unique=False)


def _meta() -> None:
    op.create_table(
        "meta",
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("value", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("key", name=op.f("pk_meta")),
    )


def _sessions() -> None:
    op.create_table(
        "sessions",
        sa.Column("id", BIG, autoincrement=True, nullable=False),
        sa.Column("conversation_id", BIG, nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("agent", sa.Text(), nullable=False),
        sa.Column("folder", sa.Text(), nullable=False),
        sa.Column("native_id", sa.Text(), nullable=False),
        sa.Column("turns", BIG, nullable=False),
        sa.Column("standing", sa.Text(), nullable=False),
        sa.Column("ended_why", sa.Text(), nullable=True),
        sa.CheckConstraint("state IN ('open', 'ended')", name=op.f("ck_sessions_state")),
        sa.ForeignKeyConstraint(["conversation_id"], ["conversations.id"], name=op.f("fk_sessions_conversation_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_sessions")),
        sqlite_autoincrement=True,
    )
    op.create_index("uq_sessions_open", "sessions", ["conversation_id"], unique=True, **_where("state = 'open'"))


def _runs() -> None:
    op.create_table(
        "runs",
        sa.Column("id", BIG, autoincrement=True, nullable=False),
        sa.Column("conversation_id", BIG, nullable=False),
        sa.Column("session_id", BIG, nullable=False),
        sa.Column("workspace", sa.Text(), nullable=True),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("fence", BIG, nullable=False),
        sa.Column("holder", sa.Text(), nullable=False),
        sa.Column("host", sa.Text(), nullable=False),
        sa.Column("lease_until_ms", BIG, nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("began_by", BIG, nullable=False),
        sa.Column("addressed", sa.Boolean(create_constraint=True, name="addressed"), nullable=False),
        sa.Column("claimed_ms", BIG, nullable=False),
        sa.Column("stop_requested", sa.Boolean(create_constraint=True, name="stop_requested"), nullable=False),
        sa.Column("session_replaced", sa.Boolean(create_constraint=True, name="session_replaced"), nullable=False),
        sa.Column("prompt_uuid", sa.Text(), nullable=True),
        sa.Column("process", sa.Text(), nullable=True),
        sa.Column("dispatched_ms", BIG, nullable=True),
        sa.Column("ended_ms", BIG, nullable=True),
        sa.Column("ended_why", sa.Text(), nullable=True),
        sa.Column("skipped_why", sa.Text(), nullable=True),
        sa.Column("receipt_told", sa.Boolean(create_constraint=True, name="receipt_told"), nullable=False),
        sa.Column("record", sa.Text(), nullable=True),
        sa.CheckConstraint("kind IN ('user', 'resume', 'wake', 'event')", name=op.f("ck_runs_kind")),
        sa.CheckConstraint(
            "state IN ('claimed', 'dispatched', 'released', 'succeeded', 'failed', 'cancelled', 'interrupted')", name=op.f("ck_runs_state")
        ),
        sa.CheckConstraint(
            "state NOT IN ('dispatched', 'succeeded', 'interrupted') OR "
            "(prompt_uuid IS NOT NULL AND process IS NOT NULL AND dispatched_ms IS NOT NULL)",
            name=op.f("ck_runs_intent"),
        ),
        sa.CheckConstraint("fence >= 1", name=op.f("ck_runs_fence")),
        sa.ForeignKeyConstraint(["conversation_id"], ["conversations.id"], name=op.f("fk_runs_conversation_id")),
        sa.ForeignKeyConstraint(["session_id"], ["sessions.id"], name=op.f("fk_runs_session_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_runs")),
        sa.UniqueConstraint("prompt_uuid", name=op.f("uq_runs_prompt_uuid")),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_runs_conversation", "runs", ["conversation_id", "id"], unique=False)
    op.create_index(
        "ix_runs_untold",
        "runs",
        ["conversation_id", "id"],
        unique=False,
        **_where("state IN ('cancelled', 'failed', 'interrupted', 'succeeded') AND dispatched_ms IS NOT NULL AND NOT receipt_told"),
    )
    op.create_index("uq_runs_active_conversation", "runs", ["conversation_id"], unique=True, **_where("state IN ('claimed', 'dispatched')"))
    op.create_index(
        "uq_runs_active_workspace",
        "runs",
        ["workspace"],
        unique=True,
        **_where("state IN ('claimed', 'dispatched') AND workspace IS NOT NULL"),
    )


def _continuations() -> None:
    op.create_table(
        "continuations",
        sa.Column("id", BIG, autoincrement=True, nullable=False),
        sa.Column("conversation_id", BIG, nullable=False),
        sa.Column("session_id", BIG, nullable=False),
        sa.Column("origin_run_id", BIG, nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("asked_ms", BIG, nullable=False),
        sa.Column("due_at_ms", BIG, nullable=False),
        sa.Column("expires_at_ms", BIG, nullable=False),
        sa.Column("began_by", BIG, nullable=False),
        sa.Column("ended_by", sa.Text(), nullable=True),
        sa.Column("ended_why", sa.Text(), nullable=True),
        sa.Column("told", sa.Boolean(create_constraint=True, name="told"), nullable=False),
        sa.CheckConstraint(
            "state IN ('requested', 'pending', 'claimed', 'dispatched', 'dropped', 'fenced', 'cancelled', 'replaced', 'expired', 'failed')",
            name=op.f("ck_continuations_state"),
        ),
        sa.CheckConstraint("expires_at_ms >= due_at_ms", name=op.f("ck_continuations_expiry")),
        sa.ForeignKeyConstraint(["conversation_id"], ["conversations.id"], name=op.f("fk_continuations_conversation_id")),
        sa.ForeignKeyConstraint(["origin_run_id"], ["runs.id"], name=op.f("fk_continuations_origin_run_id")),
        sa.ForeignKeyConstraint(["session_id"], ["sessions.id"], name=op.f("fk_continuations_session_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_continuations")),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_continuations_due", "continuations", ["due_at_ms", "id"], unique=False, **_where("state = 'pending'"))
    op.create_index(
        "ix_continuations_live",
        "continuations",
        ["conversation_id"],
        unique=False,
        **_where("state IN ('claimed', 'pending', 'requested')"),
    )
    op.create_index(
        "ix_continuations_untold",
        "continuations",
        ["conversation_id", "id"],
        unique=False,
        **_where("state IN ('cancelled', 'dispatched', 'dropped', 'expired', 'failed', 'fenced', 'replaced') AND NOT told"),
    )
    op.create_index(
        "uq_continuations_armed", "continuations", ["conversation_id"], unique=True, **_where("state IN ('claimed', 'pending')")
    )
    op.create_index("uq_continuations_requested", "continuations", ["origin_run_id"], unique=True, **_where("state = 'requested'"))


def _parts() -> None:
    op.create_table(
        "parts",
        sa.Column("id", BIG, autoincrement=True, nullable=False),
        sa.Column("conversation_id", BIG, nullable=False),
        sa.Column("channel_id", BIG, nullable=False),
        sa.Column("seq", BIG, nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("nonce", sa.Text(), nullable=False),
        sa.Column("queued_ms", BIG, nullable=False),
        sa.Column("run_id", BIG, nullable=True),
        sa.Column("reply_to_id", BIG, nullable=True),
        sa.Column("components", sa.Text(), nullable=True),
        sa.Column("generation", BIG, nullable=False),
        sa.Column("attempt", BIG, nullable=False),
        sa.Column("holder", sa.Text(), nullable=True),
        sa.Column("deadline_ms", BIG, nullable=True),
        sa.Column("first_attempt_ms", BIG, nullable=True),
        sa.Column("withdraw", sa.Boolean(create_constraint=True, name="withdraw"), nullable=False),
        sa.Column("message_id", BIG, nullable=True),
        sa.Column("delivered_ms", BIG, nullable=True),
        sa.Column("failure", sa.Text(), nullable=True),
        sa.CheckConstraint("kind IN ('answer', 'narration', 'sent', 'notice')", name=op.f("ck_parts_kind")),
        sa.CheckConstraint("state <> 'delivered' OR message_id IS NOT NULL", name=op.f("ck_parts_receipt")),
        sa.CheckConstraint(
            "state <> 'sending' OR (holder IS NOT NULL AND deadline_ms IS NOT NULL AND first_attempt_ms IS NOT NULL AND attempt >= 1)",
            name=op.f("ck_parts_attempt"),
        ),
        sa.CheckConstraint(
            "state IN ('ready', 'sending', 'delivered', 'unknown', 'failed', 'withdrawn', 'expired')", name=op.f("ck_parts_state")
        ),
        sa.CheckConstraint("length(nonce) BETWEEN 1 AND 25", name=op.f("ck_parts_nonce")),
        sa.ForeignKeyConstraint(["conversation_id"], ["conversations.id"], name=op.f("fk_parts_conversation_id")),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"], name=op.f("fk_parts_run_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_parts")),
        sa.UniqueConstraint("channel_id", "seq", name=op.f("uq_parts_channel_id_seq")),
        sa.UniqueConstraint("nonce", name=op.f("uq_parts_nonce")),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_parts_open", "parts", ["conversation_id", "seq"], unique=False, **_where("state IN ('ready', 'sending')"))
    op.create_index("ix_parts_delivered", "parts", ["conversation_id", "delivered_ms"])
    op.create_index("ix_parts_troubled", "parts", ["conversation_id", "seq"], **_where("state IN ('expired', 'failed', 'unknown')"))
    op.create_index(
        "ix_parts_run_id",
        "parts",
        ["run_id"],
        unique=False,
        sqlite_where=sa.text("run_id IS NOT NULL"),
        postgresql_where=sa.text("run_id IS NOT NULL"),
    )


def _prompts() -> None:
    op.create_table(
        "prompts",
        sa.Column("id", BIG, autoincrement=True, nullable=False),
        sa.Column("conversation_id", BIG, nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("ordered_ms", BIG, nullable=False),
        sa.Column("created_ms", BIG, nullable=False),
        sa.Column("author_id", BIG, nullable=False),
        sa.Column("author_name", sa.Text(), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("source_key", sa.Text(), nullable=False),
        sa.Column("addressed", sa.Boolean(create_constraint=True, name="addressed"), nullable=False),
        sa.Column("message_id", BIG, nullable=True),
        sa.Column("session_id", BIG, nullable=True),
        sa.Column("continuation_id", BIG, nullable=True),
        sa.Column("run_id", BIG, nullable=True),
        sa.Column("tries", BIG, nullable=False),
        sa.CheckConstraint("kind <> 'wake' OR (session_id IS NOT NULL AND continuation_id IS NOT NULL)", name=op.f("ck_prompts_wake")),
        sa.CheckConstraint("kind IN ('user', 'resume', 'wake', 'event')", name=op.f("ck_prompts_kind")),
        sa.CheckConstraint("state <> 'taken' OR run_id IS NOT NULL", name=op.f("ck_prompts_taken")),
        sa.CheckConstraint("state IN ('offered', 'waiting', 'taken', 'settled', 'withdrawn')", name=op.f("ck_prompts_state")),
        sa.ForeignKeyConstraint(["continuation_id"], ["continuations.id"], name=op.f("fk_prompts_continuation_id")),
        sa.ForeignKeyConstraint(["conversation_id"], ["conversations.id"], name=op.f("fk_prompts_conversation_id")),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"], name=op.f("fk_prompts_run_id")),
        sa.ForeignKeyConstraint(["session_id"], ["sessions.id"], name=op.f("fk_prompts_session_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_prompts")),
        sa.UniqueConstraint("source_key", name=op.f("uq_prompts_source_key")),
        sqlite_autoincrement=True,
    )
    op.create_index(
        "ix_prompts_live",
        "prompts",
        ["conversation_id", "state", "ordered_ms"],
        unique=False,
        **_where("state IN ('offered', 'taken', 'waiting')"),
    )
    op.create_index("ix_prompts_created", "prompts", ["conversation_id", "created_ms"])
    op.create_index(
        "ix_prompts_run_id",
        "prompts",
        ["run_id"],
        unique=False,
        sqlite_where=sa.text("run_id IS NOT NULL"),
        postgresql_where=sa.text("run_id IS NOT NULL"),
    )
