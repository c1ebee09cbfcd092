"""The whole of Nightporter as a process of its own, between the loopback Discord and the loopback model API.

    async with Porter(tmp_path, agent="scripted") as porter:
        await porter.start()
        message = await porter.say("say good evening")
        await porter.answer("good evening")
        await porter.stop()
        porter.assert_kept()

`agent="real"` runs the Claude Code program against the loopback model; `"scripted"` needs no start-up time. Both do what the
message says in the language of `bot.agents.script`. Every wait is for a named thing and is bounded; leaving the context ends
the process, whatever happened.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from types import TracebackType
from typing import Literal, Self, TypeVar

from bot.agents import procs
from bot.clock import SystemClock
from bot.demo import leftovers
from bot.demo.process import MARK, RUN, PorterProcess, clean_env
from bot.demo.recorder import DidNotCome, Recorder
from bot.faults import CRASH_VARIABLE
from bot.loopback.discord import Channel, Guild, LoopbackConfig, LoopbackDiscord, Member, Message
from bot.loopback.model import ModelApi
from storage.models import Continuation, Prompt, Run, Snapshot
from storage.outside import Outside
from storage.states import ACTIVE_RUN, LIVE_CONTINUATION, OPEN_PART, ContinuationState, PromptState, RunState
from tests.support.history import History, assert_kept, read_history
from tests.support.postgres import outside

T = TypeVar("T")

KEY = "loopback-model-key"
SCRIPTED = (sys.executable, "-m", "tests.support.scripted_main", "run")

#: Far more than anything here needs; a slow machine is no failure.
PATIENCE_S = 30.0
_STOP_S = 30.0
_ASK_AGAIN_S = 0.02
_KILL_S = 3.0


class Porter:
    """The stage (both servers, a guild, a project folder, a configuration) and any number of starts of Nightporter on it."""

    def __init__(
        self,
        folder: Path,
        *,
        agent: Literal["real", "scripted"] = "scripted",
        listen: Literal["mention", "all"] = "all",
        discord: LoopbackConfig | None = None,
        config: str = "",
        env: Mapping[str, str] | None = None,
        command: tuple[str, ...] | None = None,
        postgres: str | None = None,
    ) -> None:
        """`config` is more TOML, put before the tables of agents, projects and channels; `env` more environment.

        `postgres` is the URL of an empty database to use instead of a file.
        """
        self.folder = folder
        self.clock = SystemClock()
        self.discord = LoopbackDiscord(discord)
        self.model = ModelApi(self.clock, keys={KEY})
        self.mark = folder.name + "-" + str(id(self))
        self._scripted = agent == "scripted"
        self._listen = listen
        self._config = config
        self._postgres = postgres
        #: More environment of the processes to come.
        self.env = dict(env or {})
        self._command = command or (SCRIPTED if self._scripted else RUN)
        self._stack = AsyncExitStack()
        self._starts: list[PorterProcess] = []

    guild: Guild
    channel: Channel
    #: A member who may talk to the agent, another one, an admin, and one who may not.
    alice: Member
    bob: Member
    ada: Member
    stranger: Member
    recorder: Recorder

    @property
    def config_file(self) -> Path:
        return self.folder / "config.toml"

    @property
    def project(self) -> Path:
        return self.folder / "backend"

    @property
    def state(self) -> Path:
        return self.folder / "state"

    @property
    def database(self) -> Path:
        """The file, where no PostgreSQL was asked for."""
        return self.state / "nightporter.db"

    def outside(self) -> Outside:
        """A look at the database."""
        return Outside.of_file(self.database) if self._postgres is None else outside(self._postgres)

    @property
    def process(self) -> PorterProcess:
        """The latest start."""
        return self._starts[-1]

    @property
    def output(self) -> str:
        """What all starts have written to stdout and stderr."""
        log = self.folder / "nightporter.log"
        return log.read_text("utf-8", "replace") if log.exists() else ""

    @property
    def rows(self) -> Snapshot:
        """The database as it is now."""
        self.recorder.look()
        return self.recorder.rows

    async def __aenter__(self) -> Self:
        try:
            await self._set_up()
        except BaseException:
            await self._stack.aclose()
            raise
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self._stack.aclose()

    async def _set_up(self) -> None:
        await self._stack.enter_async_context(self.discord)
        await self._stack.enter_async_context(self.model)
        people = self.discord.people
        self.guild = await people.create_guild("hotel")
        porters = await people.create_role(self.guild, "porters")
        self.channel = await people.create_channel(self.guild, "backend")
        self.alice, self.bob = await people.join(self.guild, "alice"), await people.join(self.guild, "bob")
        self.ada = await people.join(self.guild, "ada", roles=[porters])
        self.stranger = await people.join(self.guild, "stranger")
        self.project.mkdir()
        (self.project / "README.md").write_text("# backend\n")
        for name, secret in (("discord-token", self.discord.token), ("model-key", KEY)):
            path = self.folder / name
            path.write_text(secret)
            path.chmod(0o600)
        self.config_file.write_text(self._toml(porters.id))
        self.recorder = Recorder(self.discord, self.model, self.outside(), self.clock)
        self._stack.push_async_callback(self.recorder.aclose)
        self._stack.push_async_callback(self._end_all)

    def _toml(self, admin_role: int) -> str:
        database = "" if self._postgres is None else f'database.url = "{self._postgres}"'
        return f"""\
state_dir = "state"
{database}
{self._config}
[discord]
token_file = "discord-token"
guilds = [{self.guild.id}]
api_base = "{self.discord.api_base}"
gateway_url = "{self.discord.gateway_url}"

[access]
users = [{self.alice.id}, {self.bob.id}, {self.ada.id}]
admin_roles = [{admin_role}]

[wait]
min = "1s"

[agents.claude]
base_url = "{self.model.url}"
api_key_file = "model-key"
model = "claude-sonnet-4-5"
env = {{ {MARK} = "{self.mark}" }}

[[projects]]
name = "backend"
path = "backend"
allowed_commands = ["python3 *", "setsid *", "git *", "sleep *"]

[[channels]]
id = {self.channel.id}
project = "backend"
listen = "{self._listen}"
"""

    async def _end_all(self) -> None:
        for process in self._starts:
            await process.kill()
        # Where the promise is broken that nothing outlives Nightporter, the next test must not suffer for it.
        for mark in leftovers.marks(run.process for run in self.rows.runs):
            await asyncio.to_thread(procs.kill_marked, mark, {}, _KILL_S)

    # --- the process ---------------------------------------------------------------------------------------------------

    async def start(self, *, crash: str | None = None, ready: bool = True) -> PorterProcess:
        """Start Nightporter (again). `crash` is a crash point such as "C3.before:1"; `ready` waits until it listens."""
        since = len(self.discord.log)
        env = {**clean_env(self.mark), "HOME": str(self.folder), **self.env}
        if crash is not None:
            env[CRASH_VARIABLE] = crash
        process = PorterProcess(self.config_file, self.folder / "nightporter.log", env, self._command)
        self._starts.append(process)
        await process.start()
        if ready:
            log = self.discord.log
            await self.until(lambda _: log.of("gateway.identify", since=since) or None, "Nightporter connects")
            await self.until(lambda rows: rows.conversations or None, "its channel is bound")
        return process

    async def kill(self) -> None:
        """SIGKILL; returns when it is gone."""
        await self.process.kill()
        self.recorder.look()

    async def stop(self) -> int:
        """SIGTERM; returns the exit code."""
        code = await self.process.stop(_STOP_S)
        self.recorder.look()
        return code

    async def crashed(self) -> None:
        """Wait until the process has killed itself at its crash point."""
        await self.until_ended()
        assert self.process.exit_code == -9, f"it ended with {self.process.exit_code}:\n{self.output}"

    async def until_ended(self) -> int:
        """Wait until the process ends by itself; returns the exit code."""
        try:
            code = await asyncio.wait_for(self.process.wait(), PATIENCE_S)
        except TimeoutError:
            raise AssertionError(f"Nightporter still runs:\n{self.output}") from None
        self.recorder.look()
        return code

    # --- people --------------------------------------------------------------------------------------------------------

    async def say(self, text: str, *, by: Member | None = None, channel: Channel | None = None, mention: bool = False) -> Message:
        """Write in the channel, as alice unless somebody else is named."""
        words = f"<@{self.discord.people.bot.id}> {text}" if mention else text
        return await self.discord.people.say(channel or self.channel, by or self.alice, words)

    async def command(self, path: str, *, by: Member | None = None, **options: str) -> Message:
        """Give a slash command and return the answer as its author sees it."""
        interaction = await self.discord.people.slash(self.channel, by or self.alice, path, options)
        return await interaction.answer(timeout_s=PATIENCE_S)

    async def answer(self, text: str, *, times: int = 1) -> Message:
        """Wait for a message of the bot that contains the text (the `times`-th one)."""

        def found(_: Snapshot) -> Message | None:
            said = [one for one in self.discord.people.messages(self.channel) if one.author.bot and text in one.content]
            return said[times - 1] if len(said) >= times else None

        return await self.until(found, f"the bot posts {text!r}")

    def said(self, text: str) -> int:
        """How many messages of the bot contain the text now."""
        return sum(text in one.content for one in self.discord.people.messages(self.channel) if one.author.bot)

    # --- waiting for the database --------------------------------------------------------------------------------------

    async def until(self, check: Callable[[Snapshot], T | None], expected: str) -> T:
        """What `check` finds in the rows, as soon as it is neither None nor False; fails at once if Nightporter has ended."""

        def look() -> T | None:
            found = check(self.recorder.rows)
            if (found is None or found is False) and self._starts and self.process.exit_code is not None:
                raise AssertionError(f"{expected}: Nightporter ended with {self.process.exit_code}\n{self.output}")
            return found

        try:
            return await self.recorder.until(look, expected, PATIENCE_S)
        except DidNotCome:
            raise AssertionError(f"did not come: {expected}\n{_describe(self.recorder.rows)}\n{self.output[-6000:]}") from None

    async def eventually(self, check: Callable[[], T | None], expected: str) -> T:
        """The same for what gives no signal, a file for example: asked again and again."""
        for _ in range(int(PATIENCE_S / _ASK_AGAIN_S)):
            found = check()
            if found is not None and found is not False:
                return found
            await self.clock.sleep(_ASK_AGAIN_S)
        raise AssertionError(f"did not come: {expected}\n{self.output[-6000:]}")

    async def prompt_of(self, message: Message) -> Prompt:
        """The prompt that a message became."""
        return await self.until(
            lambda rows: next((row for row in rows.prompts if row.message_id == message.id), None), f"message {message.content!r} is stored"
        )

    async def run_of(self, message: Message, *states: RunState) -> Run:
        """The run of a message, once it is in one of these states (or in any)."""

        def found(rows: Snapshot) -> Run | None:
            prompt = next((row for row in rows.prompts if row.message_id == message.id), None)
            run = None if prompt is None else next((row for row in rows.runs if row.id == prompt.run_id), None)
            return run if run is not None and (not states or run.state in states) else None

        return await self.until(found, f"the run of {message.content!r} is {'/'.join(states) or 'there'}")

    async def continuation(self, *states: ContinuationState) -> Continuation:
        """The newest continuation, once it is in one of these states."""

        def found(rows: Snapshot) -> Continuation | None:
            newest = max(rows.continuations, key=lambda row: row.id, default=None)
            return newest if newest is not None and newest.state in states else None

        return await self.until(found, f"the newest continuation is {'/'.join(states)}")

    async def at_rest(self) -> None:
        """Wait until nothing is queued, running, pending or unsent."""

        def quiet(rows: Snapshot) -> bool | None:
            busy = (
                any(run.state in ACTIVE_RUN for run in rows.runs)
                or any(prompt.state in {PromptState.WAITING, PromptState.TAKEN} for prompt in rows.prompts)
                or any(part.state in OPEN_PART for part in rows.parts)
                or any(row.state in LIVE_CONTINUATION for row in rows.continuations)
            )
            return None if busy else True

        await self.until(quiet, "everything is at rest")

    # --- promises ------------------------------------------------------------------------------------------------------

    def history(self) -> History:
        """Everything observed so far, for `tests.support.history`."""
        ended = all(process.exit_code is not None for process in self._starts)
        members = {self.alice.id, self.bob.id, self.ada.id}
        return read_history(
            self.outside(),
            self.discord.log,
            None if self._scripted else self.model.log,
            heard=lambda record: record.channel_id == self.channel.id and record.author_id in members,
            at_rest_ms=self.clock.now_ms(),
            ended=ended,
        )

    def assert_kept(self) -> None:
        """No promise was broken. Call it at rest; processes are looked for once Nightporter has ended."""
        assert_kept(self.history())

    def agents(self) -> dict[int, int]:
        """Pid and start time of all agents' processes that runs name and that still run."""
        recorded = leftovers.agents(run.process for run in self.rows.runs)
        return {pid: start for pid, start in recorded.items() if procs.alive(pid, start)}

    def left(self) -> list[str]:
        """Processes that carry this stage's mark, or work in its folder."""
        return leftovers.processes(self.mark, self.folder, leftovers.marks(run.process for run in self.rows.runs))


def _describe(rows: Snapshot) -> str:
    lines = [f"prompt {row.id} {row.state} {row.kind} {row.text[:60]!r}" for row in rows.prompts]
    lines += [f"run {row.id} {row.state} {row.kind} {row.ended_why or ''}" for row in rows.runs]
    lines += [f"c{row.id} {row.state} {row.reason[:60]!r} {row.ended_why or ''}" for row in rows.continuations]
    lines += [f"part {row.id} {row.state} {row.kind} {row.text[:60]!r} {row.failure or ''}" for row in rows.parts]
    return "\n".join(lines) or "the database has no rows"
