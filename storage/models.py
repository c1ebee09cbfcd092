"""The rows as frozen values, exactly as the tables hold them; standard library only.

Times are integer milliseconds UTC and end in `_ms`. Discord's ids (snowflakes, 64 bit) are integers.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import NewType

from storage.states import (
    ContinuationState,
    PartState,
    PromptState,
    RunState,
    SessionState,
)

ConversationId = NewType("ConversationId", int)
SessionId = NewType("SessionId", int)
PromptId = NewType("PromptId", int)
RunId = NewType("RunId", int)
ContinuationId = NewType("ContinuationId", int)
PartId = NewType("PartId", int)


class PromptKind(StrEnum):
    """Why a prompt exists. People's kinds go before the others."""

    #: A person's message.
    USER = "user"
    #: A person pressed Resume after an interrupted or failed run: continue the same session.
    RESUME = "resume"
    #: A continuation came due.
    WAKE = "wake"
    #: Something outside happened (CI, a review).
    EVENT = "event"

    @property
    def of_people(self) -> bool:
        """Whether a person asked for it; those go first and are never held by the unattended bound."""
        return self in {PromptKind.USER, PromptKind.RESUME}


class PartKind(StrEnum):
    """What a message is."""

    #: The agent's answer.
    ANSWER = "answer"
    #: Text between tool calls: small and silent.
    NARRATION = "narration"
    #: Sent by the agent with `send_message`.
    SENT = "sent"
    #: Nightporter's own words to people. Kept until delivered; `/stop` does not withdraw them.
    NOTICE = "notice"

    @property
    def of_agent(self) -> bool:
        """Whether these are the agent's own words."""
        return self is not PartKind.NOTICE


@dataclass(frozen=True, slots=True)
class Conversation:
    """One channel, thread or DM, bound to a project and an agent; the unit of ordering."""

    id: ConversationId
    channel_id: int
    guild_id: int | None
    project: str
    agent: str
    #: The resolved project folder: only one run at a time in it, unless `shared`.
    folder: str
    shared: bool
    #: Newest message of the channel that is stored, with everything before it.
    last_seen_id: int
    #: Snowflake of the last /stop or /reset: older messages found later are withdrawn.
    stop_id: int = 0
    #: Runs in a row without an addressed message or a button press.
    unattended_runs: int = 0
    #: When the last addressed message or button press came.
    attended_at_ms: int = 0
    #: People were asked to continue; asked once for each time the bound is met.
    unattended_asked: bool = False
    #: No claim before this; grows when the agent cannot be opened.
    not_before_ms: int = 0
    #: Number of the next part of this channel.
    next_seq: int = 1

    @property
    def workspace(self) -> str | None:
        """What the workspace index holds: the folder, or None where it is shared."""
        return None if self.shared else self.folder


@dataclass(frozen=True, slots=True)
class Session:
    """Our row for one session of the agent (ProviderSession). Fences compare this row's id, never the native id."""

    id: SessionId
    conversation_id: ConversationId
    state: SessionState
    agent: str
    folder: str
    #: The agent's own id; chosen by us, may change.
    native_id: str
    #: Turns dispatched so far; a warm process is used again only if it saw the last one. 0: never dispatched, opened fresh.
    turns: int = 0
    #: What the agent is always told; does not change within the session.
    standing: str = ""
    ended_why: str | None = None


@dataclass(frozen=True, slots=True)
class Prompt:
    """One accepted reason to run; the queued unit."""

    id: PromptId
    conversation_id: ConversationId
    kind: PromptKind
    state: PromptState
    #: The snowflake's time for messages, the time of arrival for wakes and events; then id.
    ordered_ms: int
    #: When it was stored.
    created_ms: int
    #: The person it came from, or goes back to.
    author_id: int
    author_name: str
    text: str
    #: Unique: `message:<id>`, `continuation:<id>`, `resume:<run>`, `event:<…>`.
    source_key: str
    #: The person mentioned the bot, replied to it, wrote in a DM or pressed a button.
    addressed: bool
    #: The chat message, to reply to.
    message_id: int | None = None
    #: Wakes and events belong to one session row.
    session_id: SessionId | None = None
    continuation_id: ContinuationId | None = None
    run_id: RunId | None = None
    #: Claims that were released without a dispatch.
    tries: int = 0


@dataclass(frozen=True, slots=True)
class Run:
    """One turn of the agent for one or several prompts, from claim to settlement."""

    id: RunId
    conversation_id: ConversationId
    session_id: SessionId
    #: NULL where the folder is shared, so that only the conversation's index holds.
    workspace: str | None
    state: RunState
    #: Begins at 1, grows by 1 at each takeover. Every write of the owner carries it.
    fence: int
    #: The process (its instance id) that owns it.
    holder: str
    #: Where that process runs; only the same host may take over.
    host: str
    lease_until_ms: int
    kind: PromptKind
    #: The person it goes back to.
    began_by: int
    #: One of its prompts was addressed to the bot.
    addressed: bool
    claimed_ms: int
    stop_requested: bool = False
    #: A stale session was replaced for this claim; it happens once.
    session_replaced: bool = False
    #: Fresh for each dispatch.
    prompt_uuid: str | None = None
    #: JSON of the agent's process (bot.agents.base.AgentProcess), stored with the intent.
    process: str | None = None
    dispatched_ms: int | None = None
    ended_ms: int | None = None
    #: Why it ended, one plain sentence where people or the agent are told.
    ended_why: str | None = None
    #: `skip_reply` was called: the reason.
    skipped_why: str | None = None
    #: The agent's next prompt has told it about this run's delivery.
    receipt_told: bool = False
    #: JSON: everything the agent said, and tokens and cost. Not loaded into snapshots.
    record: str | None = None


@dataclass(frozen=True, slots=True)
class Continuation:
    """The stored promise to prompt the same session once, later."""

    id: ContinuationId
    conversation_id: ConversationId
    session_id: SessionId
    origin_run_id: RunId
    state: ContinuationState
    reason: str
    asked_ms: int
    due_at_ms: int
    expires_at_ms: int
    began_by: int
    ended_by: str | None = None
    ended_why: str | None = None
    #: The agent's next prompt has told it how this ended.
    told: bool = False


@dataclass(frozen=True, slots=True)
class Part:
    """One message to post in a channel, in order."""

    id: PartId
    conversation_id: ConversationId
    channel_id: int
    #: Order within the channel; unique.
    seq: int
    kind: PartKind
    state: PartState
    text: str
    #: At most 25 characters, unique, stored before the first attempt (C6); a new one is a new generation.
    nonce: str
    queued_ms: int
    run_id: RunId | None = None
    #: The message this one answers, if any.
    reply_to_id: int | None = None
    #: JSON of the buttons below it (bot.gateway.render), or None.
    components: str | None = None
    generation: int = 1
    #: Grows with every attempt: the part's fence.
    attempt: int = 0
    holder: str | None = None
    #: The attempt's hard end, the library's own retries included.
    deadline_ms: int | None = None
    #: Of this generation; opens the nonce window.
    first_attempt_ms: int | None = None
    #: /stop came while an attempt might be in the channel: history decides, nothing is posted any more.
    withdraw: bool = False
    message_id: int | None = None
    delivered_ms: int | None = None
    failure: str | None = None


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The rows a decision looks at. A loader puts in all rows that the event's rule reads, see `storage.store`.

    `conversations` with the rows of each: all active runs and waiting, offered or taken prompts, every live continuation, the
    open session and those that live rows refer to; `parts` only for delivery, stop and reset.
    """

    conversations: tuple[Conversation, ...] = ()
    sessions: tuple[Session, ...] = ()
    prompts: tuple[Prompt, ...] = ()
    runs: tuple[Run, ...] = ()
    continuations: tuple[Continuation, ...] = ()
    parts: tuple[Part, ...] = ()


@dataclass(frozen=True, slots=True)
class Rules:
    """The bounds that decisions use; from the config."""

    unattended_runs: int = 24
    unattended_ms: int = 72 * 3_600_000
    #: Claims of a prompt before its run fails.
    max_tries: int = 3
    #: People's prompts waiting in a conversation.
    queue_limit: int = 50
    #: Prompts of one author claimed together.
    batch_prompts: int = 10
    batch_characters: int = 16_000
    #: A piece this long probably goes on in the next message (a client cuts at 2,000) …
    piece_characters: int = 1_900
    #: … so it waits this long for it.
    piece_wait_ms: int = 700
    #: Older messages found by catch-up are offered, not run.
    catch_up_max_age_ms: int = 3_600_000
    #: An unknown outcome is resent with the same nonce this long after the first attempt. Discord says "the past few
    #: minutes" without a number (developer docs, Create Message); 60 s is a careful reading.
    nonce_window_ms: int = 60_000
    #: The agent's own words, never attempted, are not sent later than this.
    words_expire_ms: int = 6 * 3_600_000
    #: First wait before a conversation whose agent could not be opened is claimed again; doubles with each try.
    backoff_ms: int = 2_000
