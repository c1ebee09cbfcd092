"""The runtime as the gateway, the cogs and app.py see it: starts and stops its parts, and hands every call on to one of them.

Expected outcomes are values (`Done | Refusal`); what the database cannot do raises `storage.errors.StorageError`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import structlog

from bot.agents.pool import AgentPool
from bot.clock import Clock
from bot.runtime import notices, prompting, views
from bot.runtime.alarm import Alarm
from bot.runtime.dispatcher import Dispatcher
from bot.runtime.intake import Intake
from bot.runtime.ledger import Ledger
from bot.runtime.outbox import Reach, Senders
from bot.runtime.ports import AcceptResult, Chat, Incoming, Person, RuntimeConfig
from bot.runtime.recovery import Recovery
from bot.runtime.resumes import chain_of, said_before
from bot.runtime.services import Services
from bot.runtime.supervisor import Supervisor
from bot.runtime.views import Status
from storage.conversations import NewConversation
from storage.errors import StorageError
from storage.events import Attend, Cancel, Choose, Code, GiveUp, Rebind, Receipt, Refusal, Remove, Resume, Stop, Unpark, WakeNow
from storage.models import Continuation, ContinuationId, Conversation, ConversationId, Prompt, PromptId, RunId, SessionId
from storage.states import RunState
from storage.store import Done, Store

log = structlog.get_logger(__name__)

Outcome = Done | Refusal

#: How long the last words get to be posted at shutdown; what is left goes out at the next start.
_FLUSH_S = 3.0
_STOP_S = 5.0


class Runtime:
    """One process's runtime. `start` once, `stop` once."""

    def __init__(self, store: Store, pool: AgentPool, chat: Chat, clock: Clock, config: RuntimeConfig) -> None:
        ledger, supervisor, self._reach = Ledger(store, clock), Supervisor(clock), Reach()
        self._services = Services(store, ledger, pool, chat, clock, config, supervisor, self._reach.since_ms)
        self._intake = Intake(self._services)
        self._dispatcher = Dispatcher(self._services)
        self._senders = Senders(self._reach)
        self._alarm = Alarm(self._services)
        self._recovery = Recovery(self._services, lambda: self._dispatcher.running)
        ledger.session_ended = self._drop_warm

    @property
    def store(self) -> Store:
        """For read-only queries."""
        return self._services.store

    # --- life ------------------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Begin all loops. They look at the database first, so whatever a former process left is found."""
        supervisor = self._services.supervisor
        self._alarm.start()
        supervisor.loop("recovery", self._recovery.step)
        supervisor.loop("alarm", self._alarm.step)
        supervisor.loop("outbox", lambda: self._senders.step(self._services))
        supervisor.loop("dispatcher", self._dispatcher.step)
        self._services.ledger.hint_all()
        log.info("runtime.started", instance=self._services.instance, host=self._services.config.host)

    async def stop(self, drain_s: float | None = None) -> None:
        """Claim nothing more, let turns end for `drain_s` seconds, interrupt the rest, post what is queued, end every task."""
        log.info("runtime.stopping", runs=list(self._dispatcher.running))
        await self._dispatcher.drain(self._services.config.drain_s if drain_s is None else drain_s)
        await self._flush()
        self._alarm.stop()
        await self._services.supervisor.stop(_STOP_S)
        log.info("runtime.stopped")

    async def died(self) -> str:
        """Wait until a loop has died; its name. Whoever runs the process ends it then."""
        return await self._services.supervisor.died()

    async def _flush(self) -> None:
        """Give the outbox a moment: as long as something can be sent and is."""
        services = self._services
        until_s = services.clock.monotonic_s() + min(_FLUSH_S, services.config.drain_s)
        while services.chat.ready and services.clock.monotonic_s() < until_s:
            # Looked at first: a part that is being sent hides those behind it, and may have arrived by the time the answer is there.
            idle = self._senders.idle
            try:
                waiting = await services.store.outbox.sendable(services.clock.now_ms(), 1)
            except StorageError as error:
                # A shutdown does not wait for a database that does not answer.
                log.warning("runtime.not_flushed", error=str(error))
                return
            if idle and not waiting:
                return
            await services.clock.sleep(0.05)

    def _drop_warm(self, session_id: SessionId) -> None:
        self._services.supervisor.spawn("pool.drop", self._services.pool.drop(session_id))

    # --- which channel is which conversation ------------------------------------------------------------------------------

    async def conversation(self, channel_id: int) -> Conversation | None:
        """The conversation that a channel, thread or DM is bound to."""
        return await self.store.conversations.by_channel(channel_id)

    async def conversation_by_id(self, conversation_id: ConversationId) -> Conversation | None:
        """The conversation with this id."""
        return await self.store.conversations.by_id(conversation_id)

    async def bound(self) -> tuple[Conversation, ...]:
        """All conversations there are."""
        return await self.store.conversations.all_bound()

    async def bind(
        self, *, channel_id: int, guild_id: int | None, project: str, agent: str, folder: str, shared: bool, last_seen_id: int
    ) -> Conversation:
        """Bind a channel once, beginning after `last_seen_id`; a bound one takes a changed project over and keeps its mark.

        A crash before: it is bound at the next start. After: nothing happens again.
        """
        # One folder has one name: the workspace's index and the agent's sessions compare it.
        folder = _resolved(folder)
        new = NewConversation(channel_id, guild_id, project, agent, folder, shared, last_seen_id)
        bound = await self.store.bind(new)
        if (bound.project, bound.agent, bound.folder, bound.shared) == (project, agent, folder, shared):
            return bound
        event = Rebind(self._services.instance, bound.id, project, agent, folder, shared)
        outcome = await self._services.ledger.do(event)
        if isinstance(outcome, Refusal) and outcome.code is Code.TOO_EARLY:
            # A run of before is still active; it ends under the old binding.
            self._services.supervisor.spawn("rebind", self._rebind_later(event))
        return await self.store.conversations.by_id(bound.id) or bound

    async def _rebind_later(self, event: Rebind) -> None:
        while True:
            await self._services.clock.sleep(self._services.config.sweep_s)
            outcome = await self._services.ledger.keep_trying(event)
            if not isinstance(outcome, Refusal) or outcome.code is not Code.TOO_EARLY:
                return

    # --- what is heard -----------------------------------------------------------------------------------------------------

    async def accept(self, msg: Incoming) -> AcceptResult:
        """C1: store a message as a prompt, once."""
        return await self._intake.accept(msg)

    async def seen(self, conversation_id: ConversationId, message_id: int, source: Literal["live", "catch_up"], caught_up: bool) -> None:  # noqa: FBT001 - the interface of the gateway
        """A message that is no prompt was looked at: only the last-seen mark may move."""
        await self._intake.seen(conversation_id, message_id, source, caught_up=caught_up)

    async def caught_up(self, conversation_id: ConversationId) -> None:
        """Catch-up of this conversation is complete: people are asked once about what is offered."""
        await self._intake.caught_up(conversation_id)

    async def edited(self, message_id: int, text: str) -> Outcome:
        """A person edited a message; a waiting prompt gets the new text."""
        return await self._intake.edited(message_id, text)

    async def deleted(self, message_id: int) -> Outcome:
        """A person deleted a message; a waiting prompt is withdrawn."""
        return await self._intake.deleted(message_id)

    async def echo(self, nonce: str, message_id: int, channel_id: int) -> None:
        """Our own message came back from the gateway: a second receipt."""
        part = await self.store.outbox.by_nonce(nonce)
        if part is None or part.channel_id != channel_id or part.message_id is not None:
            return
        outcome = await self._services.ledger.keep_trying(Receipt(self._services.instance, part.id, message_id))
        if isinstance(outcome, Done):
            log.info("part.echoed", part=part.id, message=message_id)

    # --- what people command -----------------------------------------------------------------------------------------------

    async def stop_conversation(self, conversation_id: ConversationId, *, stop_id: int, by: Person, reset: bool = False) -> Outcome:
        """/stop and /reset, in one transaction; a running turn is then interrupted. `stop_id` is the command's snowflake."""
        return await self._services.ledger.do(Stop(by.by, conversation_id, stop_id, reset=reset, only_own=by.only_own))

    async def cancel(self, continuation_id: ContinuationId, by: Person) -> Outcome:
        """Cancel a wait."""
        return await self._services.ledger.do(Cancel(by.by, continuation_id, f"cancelled by {by.name}", only_own=by.only_own))

    async def wake_now(self, continuation_id: ContinuationId, by: Person) -> Outcome:
        """Make a wait due at once."""
        return await self._services.ledger.do(WakeNow(by.by, continuation_id, only_own=by.only_own))

    async def remove_prompt(self, prompt_id: PromptId, by: Person) -> Outcome:
        """Take a waiting prompt out of the queue."""
        return await self._services.ledger.do(Remove(by.by, prompt_id, f"removed by {by.name}", only_own=by.only_own))

    async def choose(self, conversation_id: ConversationId, run: bool, by: Person) -> Outcome:  # noqa: FBT001 - the interface of the gateway
        """Run or discard what catch-up offered."""
        return await self._services.ledger.do(Choose(by.by, conversation_id, run))

    async def attend(self, conversation_id: ConversationId, by: Person) -> Outcome:
        """Continue: the unattended budget begins anew."""
        return await self._services.ledger.do(Attend(by.by, conversation_id))

    async def unpark(self, conversation_id: ConversationId, by: Person) -> Outcome:
        """Try the conversation's agent now, before its usage limit is said to end."""
        return await self._services.ledger.do(Unpark(by.by, conversation_id))

    async def start_fresh(self, run_id: RunId, by: Person) -> Outcome:
        """Go on with a failed run in a new session that is told what was said last; what waits in the queue stays there."""
        run = await self.store.runs.by_id(run_id)
        said = () if run is None else await said_before(self.store, run)
        text = prompting.fresh_text(by.name, run.ended_why if run is not None else None, said)
        return await self._services.ledger.do(Resume(by.by, run_id, by.id, by.name, text, fresh=True))

    async def give_up(self, run_id: RunId, by: Person) -> Outcome:
        """End a run whose process can no longer be reached, on an admin's word that nothing of it runs any more."""
        why = f"given up by {by.name}"
        chain = await chain_of(self.store, await self.store.prompts.of_run(run_id))
        notice = notices.interrupted(run_id, f"{why}, as its process cannot be reached", resumable=chain.resumable)
        return await self._services.ledger.do(GiveUp(by.by, run_id, why, notice))

    async def resume(self, run_id: RunId, by: Person) -> Outcome:
        """Go on with an interrupted or failed run (`TOO_OFTEN`: not any more), or with what a wake wanted to wait for."""
        run = await self.store.runs.by_id(run_id)
        chain = await chain_of(self.store, await self.store.prompts.of_run(run_id))
        if run is None or run.state is not RunState.SUCCEEDED:
            if not chain.resumable:
                return Refusal(Code.TOO_OFTEN)
            text = prompting.resume_text(by.name, run.ended_why if run is not None else None, chain.resumes)
        else:
            text = prompting.go_on_text(by.name)
        return await self._services.ledger.do(Resume(by.by, run_id, by.id, by.name, text))

    # --- what people look at -----------------------------------------------------------------------------------------------

    async def status(self, conversation_id: ConversationId) -> Status:
        """What runs, waits and is pending in a conversation. Raises LookupError if there is none."""
        found = await views.status(self._services, conversation_id)
        if found is None:
            raise LookupError(conversation_id)
        return found

    async def live_continuations(self, guild_id: int) -> tuple[Continuation, ...]:
        """All waits of a guild that may still wake somebody, the next due first."""
        return await self.store.continuations.live_in_guild(guild_id)

    async def continuation(self, continuation_id: ContinuationId) -> Continuation | None:
        """A wait by its id, ended ones too."""
        return await self.store.continuations.by_id(continuation_id)

    async def origin_message(self, run_id: RunId) -> int | None:
        """The message that a run answered, where it answered one; for a link."""
        prompts = await self.store.prompts.of_run(run_id)
        return next((p.message_id for p in reversed(prompts) if p.message_id is not None), None)

    async def waiting(self, conversation_id: ConversationId) -> tuple[Prompt, ...]:
        """The queue of a conversation, in its order."""
        return await self.store.prompts.waiting(conversation_id)

    async def prompt(self, prompt_id: PromptId) -> Prompt | None:
        """A prompt by its id."""
        return await self.store.prompts.by_id(prompt_id)

    async def run_conversation(self, run_id: RunId) -> Conversation | None:
        """The conversation that a run belongs to."""
        run = await self.store.runs.by_id(run_id)
        return None if run is None else await self.store.conversations.by_id(run.conversation_id)


def _resolved(folder: str) -> str:
    return str(Path(folder).resolve())
