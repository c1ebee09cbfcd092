"""The tables, and the constraints that make impossible rows impossible on both databases.

A column has the name of its field in `storage.models`; a test keeps them equal, and equal to the migrations. The conditions of
partial indexes are written out as literals: SQLite uses such an index only for a query that repeats the condition literally.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from sqlalchemy import (
    DDL,
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    ColumnElement,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    Table,
    Text,
    UniqueConstraint,
    and_,
    event,
    literal_column,
)

from storage.models import PartKind, PromptKind
from storage.states import (
    ACTIVE_RUN,
    LIVE_CONTINUATION,
    OPEN_PART,
    ContinuationState,
    PartState,
    PromptState,
    RunState,
    SessionState,
)

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)

#: 64 bits on PostgreSQL; on SQLite every INTEGER has 64, and only a column declared INTEGER is the row id.
Big = BigInteger().with_variant(Integer, "sqlite")


def one_of(column: ColumnElement[Any], *values: StrEnum) -> ColumnElement[bool]:
    """`column IN (…)` (or `=`) with literals in a fixed order, so that index and query conditions are the same text."""
    words = sorted(value.value for value in values)
    if len(words) == 1:
        return column == literal_column(f"'{words[0]}'")
    return column.in_([literal_column(f"'{word}'") for word in words])


def _not(flag: str) -> ColumnElement[bool]:
    """`NOT flag`, which both databases read and SQLAlchemy would write differently for each."""
    return literal_column(f"NOT {flag}")


def _id() -> Column[int]:
    return Column("id", Big, primary_key=True, autoincrement=True)


def _ref(name: str, target: str, *, nullable: bool = False) -> Column[int]:
    return Column(name, Big, ForeignKey(f"{target}.id"), nullable=nullable)


def _big(name: str, *, nullable: bool = False) -> Column[int]:
    return Column(name, Big, nullable=nullable)


def _text(name: str, *, nullable: bool = False) -> Column[str]:
    return Column(name, Text, nullable=nullable)


def _flag(name: str) -> Column[bool]:
    return Column(name, Boolean(create_constraint=True, name=name), nullable=False)


def _vocabulary(column: str, words: type[StrEnum]) -> CheckConstraint:
    listed = ", ".join(f"'{word.value}'" for word in words)
    return CheckConstraint(f"{column} IN ({listed})", name=column)


conversations = Table(
    "conversations",
    metadata,
    _id(),
    _big("channel_id"),
    _big("guild_id", nullable=True),
    _text("project"),
    _text("agent"),
    _text("folder"),
    _flag("shared"),
    _big("last_seen_id"),
    _big("stop_id"),
    _big("unattended_runs"),
    _big("attended_at_ms"),
    _flag("unattended_asked"),
    _big("not_before_ms"),
    _big("next_seq"),
    UniqueConstraint("channel_id"),
    CheckConstraint("next_seq >= 1", name="next_seq"),
    sqlite_autoincrement=True,
)
Index("ix_conversations_guild_id", conversations.c.guild_id)
Index("ix_conversations_folder", conversations.c.folder)

sessions = Table(
    "sessions",
    metadata,
    _id(),
    _ref("conversation_id", "conversations"),
    _text("state"),
    _text("agent"),
    _text("folder"),
    _text("native_id"),
    _big("turns"),
    _text("standing"),
    _text("ended_why", nullable=True),
    _vocabulary("state", SessionState),
    sqlite_autoincrement=True,
)
OPEN_SESSION = one_of(sessions.c.state, SessionState.OPEN)

runs = Table(
    "runs",
    metadata,
    _id(),
    _ref("conversation_id", "conversations"),
    _ref("session_id", "sessions"),
    _text("workspace", nullable=True),
    _text("state"),
    _big("fence"),
    _text("holder"),
    _text("host"),
    _big("lease_until_ms"),
    _text("kind"),
    _big("began_by"),
    _flag("addressed"),
    _big("claimed_ms"),
    _flag("stop_requested"),
    _flag("session_replaced"),
    _text("prompt_uuid", nullable=True),
    _text("process", nullable=True),
    _big("dispatched_ms", nullable=True),
    _big("ended_ms", nullable=True),
    _text("ended_why", nullable=True),
    _text("skipped_why", nullable=True),
    _flag("receipt_told"),
    _text("record", nullable=True),
    UniqueConstraint("prompt_uuid"),
    _vocabulary("state", RunState),
    _vocabulary("kind", PromptKind),
    CheckConstraint("fence >= 1", name="fence"),
    # The intent is stored with the call's uuid and process, before the call.
    CheckConstraint(
        "state NOT IN ('dispatched', 'succeeded', 'interrupted') OR "
        "(prompt_uuid IS NOT NULL AND process IS NOT NULL AND dispatched_ms IS NOT NULL)",
        name="intent",
    ),
    sqlite_autoincrement=True,
)
ACTIVE_RUNS = one_of(runs.c.state, *ACTIVE_RUN)
#: Ended runs that the agent was called for, and whose delivery it has not been told.
UNTOLD_RUNS = and_(
    one_of(runs.c.state, RunState.SUCCEEDED, RunState.FAILED, RunState.CANCELLED, RunState.INTERRUPTED),
    runs.c.dispatched_ms.is_not(None),
    _not("receipt_told"),
)

continuations = Table(
    "continuations",
    metadata,
    _id(),
    _ref("conversation_id", "conversations"),
    _ref("session_id", "sessions"),
    _ref("origin_run_id", "runs"),
    _text("state"),
    _text("reason"),
    _big("asked_ms"),
    _big("due_at_ms"),
    _big("expires_at_ms"),
    _big("began_by"),
    _text("ended_by", nullable=True),
    _text("ended_why", nullable=True),
    _flag("told"),
    _vocabulary("state", ContinuationState),
    CheckConstraint("expires_at_ms >= due_at_ms", name="expiry"),
    sqlite_autoincrement=True,
)
REQUESTED = one_of(continuations.c.state, ContinuationState.REQUESTED)
PENDING = one_of(continuations.c.state, ContinuationState.PENDING)
PENDING_OR_CLAIMED = one_of(continuations.c.state, ContinuationState.PENDING, ContinuationState.CLAIMED)
LIVE_CONTINUATIONS = one_of(continuations.c.state, *LIVE_CONTINUATION)
#: Ended continuations whose end the agent has not been told.
UNTOLD_CONTINUATIONS = and_(
    one_of(continuations.c.state, *(frozenset(ContinuationState) - LIVE_CONTINUATION)),
    _not("told"),
)

prompts = Table(
    "prompts",
    metadata,
    _id(),
    _ref("conversation_id", "conversations"),
    _text("kind"),
    _text("state"),
    _big("ordered_ms"),
    _big("created_ms"),
    _big("author_id"),
    _text("author_name"),
    _text("text"),
    _text("source_key"),
    _flag("addressed"),
    _big("message_id", nullable=True),
    _ref("session_id", "sessions", nullable=True),
    _ref("continuation_id", "continuations", nullable=True),
    _ref("run_id", "runs", nullable=True),
    _big("tries"),
    # Also: one wake prompt for a continuation, since its source key is made of the continuation's id.
    UniqueConstraint("source_key"),
    _vocabulary("state", PromptState),
    _vocabulary("kind", PromptKind),
    CheckConstraint("state <> 'taken' OR run_id IS NOT NULL", name="taken"),
    CheckConstraint("kind <> 'wake' OR (session_id IS NOT NULL AND continuation_id IS NOT NULL)", name="wake"),
    sqlite_autoincrement=True,
)
LIVE_PROMPTS = one_of(prompts.c.state, PromptState.OFFERED, PromptState.WAITING, PromptState.TAKEN)

parts = Table(
    "parts",
    metadata,
    _id(),
    _ref("conversation_id", "conversations"),
    _big("channel_id"),
    _big("seq"),
    _text("kind"),
    _text("state"),
    _text("text"),
    _text("nonce"),
    _big("queued_ms"),
    _ref("run_id", "runs", nullable=True),
    _big("reply_to_id", nullable=True),
    _text("components", nullable=True),
    _big("generation"),
    _big("attempt"),
    _text("holder", nullable=True),
    _big("deadline_ms", nullable=True),
    _big("first_attempt_ms", nullable=True),
    _flag("withdraw"),
    _big("message_id", nullable=True),
    _big("delivered_ms", nullable=True),
    _text("failure", nullable=True),
    UniqueConstraint("nonce"),
    # A conversation is one channel, so this is the order of the conversation too, notices included.
    UniqueConstraint("channel_id", "seq"),
    _vocabulary("state", PartState),
    _vocabulary("kind", PartKind),
    # Discord's limit for a nonce (developer docs, Create Message).
    CheckConstraint("length(nonce) BETWEEN 1 AND 25", name="nonce"),
    CheckConstraint(
        "state <> 'sending' OR (holder IS NOT NULL AND deadline_ms IS NOT NULL AND first_attempt_ms IS NOT NULL AND attempt >= 1)",
        name="attempt",
    ),
    CheckConstraint("state <> 'delivered' OR message_id IS NOT NULL", name="receipt"),
    sqlite_autoincrement=True,
)
OPEN_PARTS = one_of(parts.c.state, *OPEN_PART)
#: Words that did not arrive for sure.
TROUBLED_PARTS = one_of(parts.c.state, PartState.UNKNOWN, PartState.FAILED, PartState.EXPIRED)

#: Append-only: triggers refuse UPDATE. No foreign keys and an index on the time, so that old rows can be removed in slices.
journal = Table(
    "journal",
    metadata,
    _id(),
    _big("at_ms"),
    _text("entity"),
    _big("entity_id"),
    _big("conversation_id"),
    _text("before", nullable=True),
    _text("after"),
    _text("why"),
    _text("by"),
    sqlite_autoincrement=True,
)

#: Append-only is a rule of the database, not a habit. DELETE stays possible, for retention.
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
for _dialect, _statements in JOURNAL_GUARD.items():
    for _statement in _statements:
        event.listen(journal, "after_create", DDL(_statement).execute_if(dialect=_dialect))  # type: ignore[no-untyped-call]

#: Facts about the database itself, such as who opened it last.
meta = Table("meta", metadata, Column("key", Text, primary_key=True), _text("value"))


def _index(name: str, *columns: Column[Any], where: ColumnElement[bool], unique: bool = False) -> None:
    Index(name, *columns, unique=unique, sqlite_where=where, postgresql_where=where)


# One at a time (design section 4): these, not a query or a lock in memory, are the authority.
_index("uq_sessions_open", sessions.c.conversation_id, where=OPEN_SESSION, unique=True)
_index("uq_runs_active_conversation", runs.c.conversation_id, where=ACTIVE_RUNS, unique=True)
_index(
    "uq_runs_active_workspace",
    runs.c.workspace,
    where=and_(ACTIVE_RUNS, runs.c.workspace.is_not(None)),
    unique=True,
)
_index("uq_continuations_armed", continuations.c.conversation_id, where=PENDING_OR_CLAIMED, unique=True)
_index("uq_continuations_requested", continuations.c.origin_run_id, where=REQUESTED, unique=True)

# What is looked for again and again stays cheap however much has been settled.
_index("ix_prompts_live", prompts.c.conversation_id, prompts.c.state, prompts.c.ordered_ms, where=LIVE_PROMPTS)
_index("ix_prompts_run_id", prompts.c.run_id, where=prompts.c.run_id.is_not(None))
Index("ix_prompts_created", prompts.c.conversation_id, prompts.c.created_ms)
_index("ix_runs_untold", runs.c.conversation_id, runs.c.id, where=UNTOLD_RUNS)
Index("ix_runs_conversation", runs.c.conversation_id, runs.c.id)
_index("ix_continuations_due", continuations.c.due_at_ms, continuations.c.id, where=PENDING)
_index("ix_continuations_live", continuations.c.conversation_id, where=LIVE_CONTINUATIONS)
_index("ix_continuations_untold", continuations.c.conversation_id, continuations.c.id, where=UNTOLD_CONTINUATIONS)
_index("ix_parts_open", parts.c.conversation_id, parts.c.seq, where=OPEN_PARTS)
Index("ix_parts_delivered", parts.c.conversation_id, parts.c.delivered_ms)
_index("ix_parts_troubled", parts.c.conversation_id, parts.c.seq, where=TROUBLED_PARTS)
_index("ix_parts_run_id", parts.c.run_id, where=parts.c.run_id.is_not(None))
Index("ix_journal_at_ms", journal.c.at_ms)
Index("ix_journal_entity", journal.c.entity, journal.c.entity_id)
Index("ix_journal_conversation", journal.c.conversation_id, journal.c.id)
