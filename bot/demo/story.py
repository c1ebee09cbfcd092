"""Plays the steps one after the other against what was set up, and says for each what was expected and what came."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from bot.clock import Clock
from bot.demo import leftovers
from bot.demo.events import Event
from bot.demo.recorder import DidNotCome, Recorder
from bot.demo.scenes import Scene
from bot.demo.servers import Cast, Servers
from bot.demo.transcript import Transcript, Verdict, describe
from bot.loopback.discord import ApiError, CannotInvokeError, Channel, Interaction, Member, Message
from storage.models import Continuation, Run
from storage.states import LIVE_CONTINUATION, ContinuationState, RunState

T = TypeVar("T")

#: A start needs a second or two, on a busy machine many.
_START_S = 60.0
#: A wake may come this much later than the last one that is worth waiting for, before it counts as never.
_NEVER_MS = 1_500


@dataclass(frozen=True, slots=True)
class Step:
    """One step: what it shows, and the function that plays it and returns what came."""

    number: int
    title: str
    play: Callable[[Story], Awaitable[str]]


class Story:
    """What steps use: talking, pressing, and waiting for what must follow. Everything it waits for is bounded."""

    def __init__(
        self, servers: Servers, recorder: Recorder, transcript: Transcript, clock: Clock, patience_s: float, wake_patience_s: float
    ) -> None:
        """`wake_patience_s`: how long a wake is waited for."""
        self.servers = servers
        self.recorder = recorder
        self.clock = clock
        self._transcript = transcript
        self._patience_s = patience_s
        self._wake_patience_s = wake_patience_s
        self._watch: asyncio.Task[None] | None = None
        self._step_began = 0
        #: What steps leave to later ones.
        self.waits: dict[int, Continuation] = {}
        #: Continuations that were cancelled, by step: they must not wake until the end.
        self.never: dict[int, Continuation] = {}

    @property
    def cast(self) -> Cast:
        """Who and what is there."""
        return self.servers.cast

    # --- playing -------------------------------------------------------------------------------------------------------

    async def play(self, steps: Sequence[Step]) -> list[Verdict]:
        """Play until the first step that fails; the rest is not played, since each builds on the ones before."""
        verdicts: list[Verdict] = []
        for step in steps:
            if verdicts and not verdicts[-1].passed:
                verdict = Verdict(str(step.number), step.title, None, "", "")
            else:
                verdict = await self._play(step)
            self._transcript.verdict(verdict)
            verdicts.append(verdict)
        return verdicts

    async def _play(self, step: Step) -> Verdict:
        self._transcript.heading(f"Step {step.number}  {step.title}")
        self._step_began = len(self.recorder.events)
        self.recorder.note("step", text=step.title, state="begun", detail={"step": step.number})
        label = str(step.number)
        try:
            came = await step.play(self)
        except DidNotCome as failure:
            verdict = Verdict(label, step.title, passed=False, expected=failure.expected, came=self.what_came())
        except (AssertionError, ApiError, CannotInvokeError) as refused:
            # The loopback Discord's own words: nobody answered in time, or a person's client would not offer this.
            verdict = Verdict(label, step.title, passed=False, expected=step.title, came=str(refused).splitlines()[0])
        else:
            verdict = Verdict(label, step.title, passed=True, expected="", came=came)
        self.recorder.note("step", text=verdict.came, state="passed" if verdict.passed else "failed", detail={"step": step.number})
        return verdict

    def what_came(self) -> str:
        """The last things that were observed in this step, or how Nightporter ended."""
        if (code := self.servers.porter.exit_code) is not None:
            tail = [line for line in self.servers.porter.output().splitlines() if line.strip()][-3:]
            return f"Nightporter ended with {code}: {' / '.join(tail)}"
        said = [text for event in self.recorder.events[self._step_began :] if (text := describe(event)) and event.kind != "step"]
        live = [f"c{row.id} is {row.state}" for row in self.recorder.rows.continuations if row.state in LIVE_CONTINUATION]
        return "; ".join(said[-4:] or ["nothing", *live])

    # --- Nightporter's process -----------------------------------------------------------------------------------------

    async def start_porter(self) -> None:
        """Start Nightporter, and notice when it ends."""
        porter = self.servers.porter
        await porter.start()
        self.recorder.note("process", state="started", detail={"pid": porter.pid})
        self._watch = asyncio.create_task(self._note_end())

    async def ready(self) -> None:
        """Wait until Nightporter listens: it is connected and its commands are known."""
        log, channels = self.servers.discord.log, (self.cast.backend, self.cast.website)

        def bound() -> bool | None:
            return {channel.id for channel in channels} <= {row.channel_id for row in self.recorder.rows.conversations} or None

        await self.until(lambda: log.of("gateway.identify") or None, "Nightporter connects to Discord's gateway", _START_S)
        await self.until(bound, "Nightporter has bound both channels", _START_S)
        await self.until(lambda: log.of("commands.sync") or None, "Nightporter's slash commands are known to Discord", _START_S)

    async def _note_end(self) -> None:
        pid = self.servers.porter.pid
        code = await self.servers.porter.wait()
        self.recorder.note("process", state="killed" if code < 0 else f"ended with {code}", detail={"pid": pid, "exit_code": code})

    async def end_porter(self, end: Callable[[], Awaitable[object]]) -> None:
        """End Nightporter on purpose; returns once that has been noted."""
        await end()
        if self._watch is not None:
            await self._watch

    async def agents_gone(self, running: Mapping[int, int]) -> None:
        """Wait until none of these processes (pid and start time) is left."""
        gone: set[int] = set()
        try:
            async for pid in leftovers.ended(dict(running), self._patience_s):
                gone.add(pid)
                self.recorder.note("agent_process", state="gone", detail={"pid": pid})
        except TimeoutError:
            raise DidNotCome(f"the agent's processes {sorted(running.keys() - gone)} end with Nightporter") from None

    # --- waiting -------------------------------------------------------------------------------------------------------

    async def until(self, check: Callable[[], T | None], expected: str, patience_s: float | None = None) -> T:
        """See `Recorder.until`; it also fails at once when Nightporter has ended."""

        def look() -> T | None:
            found = check()
            if (found is None or found is False) and self.servers.porter.exit_code is not None:
                raise DidNotCome(expected)
            return found

        return await self.recorder.until(look, expected, patience_s or self._patience_s)

    async def expect(self, holds: object, expected: str) -> None:
        """What must be so by now."""
        if not holds:
            raise DidNotCome(expected)

    def events(self, kind: str, **fields: object) -> list[Event]:
        """Events of one kind so far with these field values."""
        return [event for event in self.recorder.events if event.kind == kind and all(getattr(event, k) == v for k, v in fields.items())]

    def run_of(self, message: Message) -> Run | None:
        """The run that took a message."""
        rows = self.recorder.rows
        prompt = next((row for row in rows.prompts if row.message_id == message.id), None)
        return None if prompt is None else next((row for row in rows.runs if row.id == prompt.run_id), None)

    def wake_of(self, continuation: Continuation) -> Run | None:
        """The run that a continuation woke."""
        rows = self.recorder.rows
        prompt = next((row for row in rows.prompts if row.continuation_id == continuation.id), None)
        return None if prompt is None else next((row for row in rows.runs if row.id == prompt.run_id), None)

    def state_of(self, continuation: Continuation) -> ContinuationState | None:
        """Its state now."""
        return next((row.state for row in self.recorder.rows.continuations if row.id == continuation.id), None)

    def session_of(self, row: Run | Continuation) -> str:
        """The agent's own id of the session that a run or continuation belongs to."""
        return next((one.native_id for one in self.recorder.rows.sessions if one.id == row.session_id), "?")

    def answers(self, channel: Channel, scene: Scene) -> list[Event]:
        """The bot's messages with the scene's answer, in this channel."""
        said = self.events("message", conversation=channel.name, state="create")
        return [event for event in said if event.detail.get("bot") and scene.answer in (event.text or "")]

    # --- acting --------------------------------------------------------------------------------------------------------

    async def say(self, channel: Channel, who: Member, text: str, *, to_bot: bool = True) -> Message:
        """Write a message, with a mention of the bot unless it is not meant for it."""
        people = self.servers.discord.people
        return await people.say(channel, who, f"<@{people.bot.id}> {text}" if to_bot else text)

    async def command(self, channel: Channel, who: Member, path: str, **options: str) -> Message:
        """Give a slash command and return the answer as its author sees it."""
        interaction: Interaction = await self.servers.discord.people.slash(channel, who, path, options)
        return await interaction.answer(timeout_s=self._patience_s)

    async def talk(self, channel: Channel, who: Member, scene: Scene) -> Run:
        """Say the scene's sentence; returns its run, which has succeeded and whose answer is in the channel."""
        message = await self.say(channel, who, scene.cue)
        return await self.answered(message, scene, channel)

    async def answered(self, message: Message, scene: Scene, channel: Channel) -> Run:
        """Wait for the run of a message to succeed and for its answer."""

        def succeeded() -> Run | None:
            run = self.run_of(message)
            return run if run is not None and run.state is RunState.SUCCEEDED else None

        run = await self.until(succeeded, f'a run for "{scene.cue}" succeeds')
        await self.until(lambda: self.answers(channel, scene) or None, f'"{scene.answer}" is posted in #{channel.name}')
        return run

    async def pending(self, run: Run) -> Continuation:
        """The continuation that a succeeded run has left."""
        return await self.until(lambda: self._wait_of(run, ContinuationState.PENDING), f"the wait of run {run.id} is pending")

    async def requested(self, run: Run) -> Continuation:
        """The continuation that a running run has asked for."""
        return await self.until(lambda: self._wait_of(run, ContinuationState.REQUESTED), f"run {run.id} has asked for a wait")

    def _wait_of(self, run: Run, state: ContinuationState) -> Continuation | None:
        return next((row for row in self.recorder.rows.continuations if row.origin_run_id == run.id and row.state is state), None)

    async def woken(self, continuation: Continuation, scene: Scene, channel: Channel) -> Run:
        """Wait until the continuation has woken its session and the answer is in the channel; returns the wake's run."""

        def succeeded() -> Run | None:
            run = self.wake_of(continuation)
            return run if run is not None and run.state is RunState.SUCCEEDED else None

        name = f"c{continuation.id}"
        expected = f"{name} comes due and its wake succeeds in session {self.session_of(continuation)[:8]}"
        run = await self.until(succeeded, expected, self._wake_patience_s)
        await self.until(lambda: self.answers(channel, scene) or None, f'the answer to the wake, "{scene.answer}", is posted')
        return run

    async def first_request(self, run: Run) -> Event:
        """The first request to the model in a run: what the agent was told."""
        return await self.until(
            lambda: next(iter(self.events("request", run=run.id)), None), f"the model API receives the prompt of run {run.id}"
        )

    # --- the end -------------------------------------------------------------------------------------------------------

    async def woke_after_all(self) -> list[Verdict]:
        """A failed verdict for each cancelled continuation that woke somebody, once its time is safely over."""
        late_ms = max((wait.due_at_ms + _NEVER_MS for wait in self.never.values()), default=0)
        await self.clock.sleep((late_ms - self.clock.now_ms()) / 1000)
        self.recorder.look()
        woken = {row.continuation_id for row in self.recorder.rows.prompts}
        return [
            Verdict(str(step), "the end of a wait", passed=False, expected=f"cancelled c{wait.id} never wakes", came=f"c{wait.id} woke")
            for step, wait in self.never.items()
            if wait.id in woken
        ]
