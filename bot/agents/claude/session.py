"""One Claude Code process: one owner task, one permanent reader, one disconnect; runs are matched by their prompt's uuid."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncIterator, Coroutine, Sequence
from typing import Any, Literal

import structlog
from claude_agent_sdk import (
    AssistantMessage,
    ClaudeSDKClient,
    Message,
    RateLimitEvent,
    ResultMessage,
    StreamEvent,
    SystemMessage,
    UserMessage,
)

from bot.agents.base import (
    AgentEvent,
    AgentProcess,
    Death,
    EndKind,
    ErrorKind,
    PromptPart,
    RunEnded,
    SessionSpec,
    SessionStarted,
    ToolHandler,
)
from bot.agents.bounded import done_within
from bot.agents.claude.config import ClaudeConfig
from bot.agents.claude.events import REJECTED_KEY
from bot.agents.claude.run import Run
from bot.agents.launch import Launch, prove_dead
from bot.clock import Clock
from storage.guard import refuse_in_transaction

log = structlog.get_logger()

#: An idle program writes its transcript and ends within 0.05 s of the end of its input; it gets this long.
_GRACE_S = 1.5

#: Turns of the event loop from the death of a process to its pipes being closed: end of file, then the lost connection.
_LOOKS = 4
#: The SDK's own disconnect takes this long at most once the process is dead.
_DISCONNECT_S = 5.0

_GONE = RunEnded(EndKind.FAILED, ErrorKind.PROCESS, "The agent's process ended in the middle of its turn.")


class ClaudeSession:
    """See `AgentSession`. Made by `ClaudeProvider.open`, already connected."""

    def __init__(
        self,
        spec: SessionSpec,
        config: ClaudeConfig,
        clock: Clock,
        launch: Launch,
        stderr: deque[str],
    ) -> None:
        self._spec = spec
        self._config = config
        self._clock = clock
        self._launch = launch
        self._stderr = stderr
        self._native_id = spec.native_id
        self._how: Literal["new", "resumed", "warm"] = "resumed" if spec.resume else "new"
        self._client: ClaudeSDKClient
        self._process: AgentProcess
        self._owner: asyncio.Task[None] | None = None
        self._closing = asyncio.Event()
        self._alive = False
        self._run: Run | None = None
        #: Whether the turn that the stream tells about is the run's: None until its first message says so.
        self._turn_is_ours: bool | None = None
        self._cost_usd = 0.0

    def begin(self, client: ClaudeSDKClient, process: AgentProcess, cost_usd: float) -> None:
        """Take over the connected client: from here on the owner task reads it and alone disconnects it."""
        self._client = client
        self._process = process
        self._cost_usd = cost_usd
        self._alive = True
        self._owner = asyncio.create_task(self._own())

    @property
    def native_id(self) -> str:
        """See `AgentSession.native_id`."""
        return self._native_id

    @property
    def process(self) -> AgentProcess:
        """See `AgentSession.process`."""
        return self._process

    @property
    def alive(self) -> bool:
        """See `AgentSession.alive`."""
        return self._alive

    @property
    def active(self) -> Run | None:
        """The run whose turn is under way; None between turns."""
        return self._run if self._run is not None and not self._run.ended.is_set() else None

    async def run(self, prompt_uuid: str, parts: Sequence[PromptPart], tools: ToolHandler) -> AsyncIterator[AgentEvent]:
        """See `AgentSession.run`."""
        refuse_in_transaction("running an agent")
        if self._run is not None:
            raise RuntimeError("this session already runs a turn")
        run = self._run = Run(prompt_uuid, tools, self._clock, self._config.silence)
        over = False
        try:
            yield SessionStarted(self._native_id, self._how)
            self._how = "warm"
            if self._alive:
                self._help(run, self._send(run, parts))
                self._help(run, self._watch(run))
            else:
                run.finish(_GONE)
            while not isinstance(event := await run.next(), RunEnded):
                yield event
            await run.release()
            self._run = None
            over = True
            yield event
        finally:
            if not over:
                # Nobody listens any more: what the turn still does cannot be told apart from the next one's.
                self._alive = False
                self._closing.set()
                await run.release()
                self._run = None

    async def swept(self) -> bool:
        """See `AgentSession.swept`."""
        if self._alive and await self._launch.sweep():
            return True
        if self._alive:
            return False
        await self._launch.kill()
        return await prove_dead(self._process, self._config.state_dir) is Death.DEAD

    async def interrupt(self) -> None:
        """See `AgentSession.interrupt`."""
        run = self.active
        if run is not None:
            await self._stop(run, RunEnded(EndKind.INTERRUPTED, detail="Stopped."))

    async def close(self) -> None:
        """See `AgentSession.close`."""
        self._closing.set()
        if self._owner is not None:
            await asyncio.wait({self._owner})

    # --- the owner ---------------------------------------------------------------------------------------------------

    async def _own(self) -> None:
        reading = asyncio.create_task(self._read())
        closing = asyncio.create_task(self._wait_closing())
        await asyncio.wait({reading, closing}, return_when=asyncio.FIRST_COMPLETED)
        self._alive = False
        if reading.done():
            error = None if reading.cancelled() else reading.exception()
            log.info(
                "agent.ended", session=self._spec.session_id, error=None if error is None else str(error), stderr=list(self._stderr)[-3:]
            )
        if (run := self.active) is not None:
            run.finish(run.verdict or _GONE)
            # In the middle of a turn the program goes on working when its input ends, so it is not asked politely.
            await self._launch.kill()
        if reading.done():
            # Nothing may hold the other ends of the pipes when they are let go.
            await prove_dead(self._process, self._config.state_dir)
        await self._disconnect()
        for task in (reading, closing):
            task.cancel()
        await asyncio.gather(reading, closing, return_exceptions=True)
        if await prove_dead(self._process, self._config.state_dir) is Death.DEAD:
            self._launch.forget()
        # The SDK leaves the pipes to the event loop, which closes them when it sees their ends: let it look.
        for _ in range(_LOOKS):
            await asyncio.sleep(0)

    async def _disconnect(self) -> None:
        leaving: asyncio.Task[None] = asyncio.create_task(self._client.disconnect())
        if not await done_within(self._clock, leaving, _GRACE_S):
            await self._launch.kill()
            if not await done_within(self._clock, leaving, _DISCONNECT_S):
                log.warning("agent.disconnect_hangs", session=self._spec.session_id)
                leaving.cancel()
                await asyncio.wait({leaving})
        if not leaving.cancelled() and (error := leaving.exception()) is not None:
            log.warning("agent.disconnect_failed", session=self._spec.session_id, error=str(error))

    async def _wait_closing(self) -> None:
        await self._closing.wait()

    async def _read(self) -> None:
        async for message in self._client.receive_messages():
            self._on_message(message)

    def _on_message(self, message: Message) -> None:
        run = self.active
        if run is not None:
            run.watchdog.touch()
        self._see_native_id(message)
        uuids = _prompt_uuids(message)
        if isinstance(message, SystemMessage) and message.subtype == "init":
            self._turn_is_ours = None
        elif uuids is not None:
            began = self._turn_is_ours is not True
            self._turn_is_ours = run is not None and run.prompt_uuid in uuids
            if began and self._turn_is_ours and run is not None and run.verdict is not None:
                # An interrupt that comes before the turn has begun is lost on the program: it is said again.
                self._help(run, self._say_interrupt())
        if run is not None and isinstance(message, RateLimitEvent):
            run.translator.limit(message)
        elif isinstance(message, ResultMessage):
            self._on_result(run, message)
        elif run is not None and self._turn_is_ours:
            self._on_ours(run, message)
        elif isinstance(message, AssistantMessage):
            log.warning("agent.unsolicited", session=self._spec.session_id, blocks=len(message.content))

    def _on_ours(self, run: Run, message: Message) -> None:
        match message:
            case StreamEvent():
                run.emit(run.translator.stream(message))
            case AssistantMessage():
                run.emit(run.translator.assistant(message))
            case UserMessage():
                run.emit(run.translator.user(message))
            case SystemMessage():
                run.emit(run.translator.system(message))
                if message.subtype == "api_retry" and message.data.get("error") == REJECTED_KEY:
                    # The program would try for minutes, but a rejected key stays rejected.
                    rejected = RunEnded(EndKind.FAILED, ErrorKind.AUTH, "The model provider rejected the agent's credential.")
                    self._help(run, self._stop(run, rejected))
            case _:
                pass

    def _on_result(self, run: Run | None, message: ResultMessage) -> None:
        cost_before, self._cost_usd = self._cost_usd, message.total_cost_usd or self._cost_usd
        if run is None or not self._turn_is_ours:
            log.warning("agent.unsolicited_result", session=self._spec.session_id, subtype=message.subtype)
        else:
            ended = run.translator.result(message, self._clock.now_ms())
            if run.verdict is not None and message.is_error:
                ended = run.verdict
            run.finish(ended, [run.translator.usage(message, cost_before)])
        self._turn_is_ours = None

    def _see_native_id(self, message: Message) -> None:
        seen = message.data.get("session_id") if isinstance(message, SystemMessage) else getattr(message, "session_id", None)
        if isinstance(seen, str) and seen and seen != self._native_id:
            log.warning("agent.native_id_changed", session=self._spec.session_id, old=self._native_id, new=seen)
            self._native_id = seen
            if (run := self.active) is not None:
                run.emit([SessionStarted(seen, "changed")])

    # --- what works for a run ----------------------------------------------------------------------------------------

    def _help(self, run: Run, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        run.helpers.add(task)
        task.add_done_callback(run.helpers.discard)

    async def _send(self, run: Run, parts: Sequence[PromptPart]) -> None:
        async def prompt() -> AsyncIterator[dict[str, Any]]:
            yield {
                "type": "user",
                "uuid": run.prompt_uuid,
                "parent_tool_use_id": None,
                "message": {"role": "user", "content": [{"type": "text", "text": part.text} for part in parts]},
            }

        sending = asyncio.ensure_future(self._client.query(prompt()))
        try:
            await asyncio.wait({sending})
        finally:
            sending.cancel()
        if not sending.cancelled() and (error := sending.exception()) is not None:
            log.warning("agent.not_sent", session=self._spec.session_id, error=str(error))
            run.finish(run.verdict or _GONE)
            self._closing.set()

    async def _watch(self, run: Run) -> None:
        await run.watchdog.silent()
        log.warning("agent.silent", session=self._spec.session_id)
        silent = RunEnded(EndKind.FAILED, ErrorKind.TIMEOUT, "The agent was silent for too long and was stopped.")
        await self._stop(run, silent)

    async def _stop(self, run: Run, verdict: RunEnded) -> None:
        """Interrupt the turn, kill the process if that does not end it in time; the first verdict counts."""
        if run.verdict is None:
            run.verdict = verdict
            self._help(run, self._say_interrupt())
        ending = asyncio.ensure_future(run.ended.wait())
        try:
            if not await done_within(self._clock, ending, self._config.interrupt_s):
                log.warning("agent.killed", session=self._spec.session_id)
                await self._launch.kill()
                # The owner sees the end of the stream; should it not, the run ends all the same.
                if not await done_within(self._clock, ending, _GRACE_S):
                    run.finish(run.verdict)
                self._alive = False
                self._closing.set()
        finally:
            ending.cancel()

    async def _say_interrupt(self) -> None:
        asking = asyncio.ensure_future(self._client.interrupt())
        try:
            await asyncio.wait({asking})
        finally:
            asking.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                # A refusal means that the process is gone, which the reader sees as well.
                await asyncio.gather(asking, return_exceptions=True)


def _prompt_uuids(message: Message) -> Sequence[str] | None:
    """The uuids of the prompts that a message answers; None if it does not say."""
    if isinstance(message, SystemMessage):
        uuids = message.data.get("user_message_uuids")
        return uuids if isinstance(uuids, list) else None
    return getattr(message, "user_message_uuids", None)
