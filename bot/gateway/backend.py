"""What the gateway and the cogs ask of the runtime, as one interface; `bot.runtime.runtime.Runtime` provides it.

Expected outcomes are values. What the database cannot do raises `storage.errors.StorageError`; nothing else is expected.
"""

from __future__ import annotations

from typing import Literal, Protocol

from bot.runtime.ports import AcceptResult, Incoming, Person
from bot.runtime.views import Status
from storage.events import Refusal
from storage.models import Continuation, ContinuationId, Conversation, ConversationId, Prompt, PromptId, RunId
from storage.store import Done

Outcome = Done | Refusal


class Backend(Protocol):
    """The durable half of the bot, as the chat side sees it."""

    # --- which channel is which conversation ---------------------------------------------------------------------------

    async def conversation(self, channel_id: int) -> Conversation | None:
        """The conversation that a channel, thread or DM is bound to."""
        ...

    async def conversation_by_id(self, conversation_id: ConversationId) -> Conversation | None:
        """The conversation with this id."""
        ...

    async def bound(self) -> tuple[Conversation, ...]:
        """All conversations there are."""
        ...

    async def bind(
        self, *, channel_id: int, guild_id: int | None, project: str, agent: str, folder: str, shared: bool, last_seen_id: int
    ) -> Conversation:
        """Bind a channel once, beginning after `last_seen_id`; a bound one takes a changed project over (Rebind) and keeps its mark.

        A crash before: it is bound at the next start. After: nothing happens again.
        """
        ...

    # --- what is heard ---------------------------------------------------------------------------------------------------

    async def accept(self, msg: Incoming) -> AcceptResult:
        """C1: store a message as a prompt, once."""
        ...

    async def seen(self, conversation_id: ConversationId, message_id: int, source: Literal["live", "catch_up"], caught_up: bool) -> None:  # noqa: FBT001  # the facade's own signature
        """A message that is no prompt was looked at: only the last-seen mark may move."""
        ...

    async def caught_up(self, conversation_id: ConversationId) -> None:
        """Catch-up of this conversation is complete: people are asked once about what is offered."""
        ...

    async def edited(self, message_id: int, text: str) -> Outcome:
        """A person edited a message; a waiting prompt gets the new text."""
        ...

    async def deleted(self, message_id: int) -> Outcome:
        """A person deleted a message; a waiting prompt is withdrawn."""
        ...

    async def echo(self, nonce: str, message_id: int, channel_id: int) -> None:
        """Our own message came back from the gateway: a second receipt."""
        ...

    # --- what people command ---------------------------------------------------------------------------------------------

    async def stop_conversation(self, conversation_id: ConversationId, *, stop_id: int, by: Person, reset: bool = False) -> Outcome:
        """/stop and /reset, in one transaction. `stop_id` is the command's snowflake."""
        ...

    async def cancel(self, continuation_id: ContinuationId, by: Person) -> Outcome:
        """Cancel a wait."""
        ...

    async def wake_now(self, continuation_id: ContinuationId, by: Person) -> Outcome:
        """Make a wait due at once."""
        ...

    async def remove_prompt(self, prompt_id: PromptId, by: Person) -> Outcome:
        """Take a waiting prompt out of the queue."""
        ...

    async def choose(self, conversation_id: ConversationId, run: bool, by: Person) -> Outcome:  # noqa: FBT001  # the facade's own signature
        """Run or discard what catch-up offered."""
        ...

    async def attend(self, conversation_id: ConversationId, by: Person) -> Outcome:
        """Continue: the unattended budget begins anew."""
        ...

    async def unpark(self, conversation_id: ConversationId, by: Person) -> Outcome:
        """Try the conversation's agent now, before its usage limit is said to end."""
        ...

    async def start_fresh(self, run_id: RunId, by: Person) -> Outcome:
        """Go on with a failed run in a new session that is told what was said last."""
        ...

    async def give_up(self, run_id: RunId, by: Person) -> Outcome:
        """End a run whose process can no longer be reached, on an admin's word that nothing of it runs any more."""
        ...

    async def resume(self, run_id: RunId, by: Person) -> Outcome:
        """Go on with an interrupted or failed run."""
        ...

    # --- what people look at ---------------------------------------------------------------------------------------------

    async def status(self, conversation_id: ConversationId) -> Status:
        """What runs, waits and is pending in a conversation."""
        ...

    async def live_continuations(self, guild_id: int) -> tuple[Continuation, ...]:
        """All waits of a guild that may still wake somebody, the next due first."""
        ...

    async def continuation(self, continuation_id: ContinuationId) -> Continuation | None:
        """A wait by its id, ended ones too."""
        ...

    async def origin_message(self, run_id: RunId) -> int | None:
        """The message that a run answered, where it answered one; for a link."""
        ...

    async def waiting(self, conversation_id: ConversationId) -> tuple[Prompt, ...]:
        """The queue of a conversation, in its order."""
        ...

    async def prompt(self, prompt_id: PromptId) -> Prompt | None:
        """A prompt by its id."""
        ...

    async def run_conversation(self, run_id: RunId) -> Conversation | None:
        """The conversation that a run belongs to."""
        ...
