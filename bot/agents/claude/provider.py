"""Claude Code as an `AgentProvider`: opens sessions, decides permissions, reads outcomes, proves processes dead."""

from __future__ import annotations

import asyncio
import importlib.metadata
import os
import uuid
from collections import deque
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import structlog
from claude_agent_sdk import (
    ClaudeSDKClient,
    HookContext,
    HookInput,
    HookJSONOutput,
    HookMatcher,
    PermissionResultAllow,
    PermissionResultDeny,
    ResultError,
    SdkMcpTool,
    ToolPermissionContext,
)

from bot.agents.base import (
    AgentProcess,
    AgentSession,
    AgentUnavailable,
    Capabilities,
    Death,
    Ended,
    Lost,
    SessionSpec,
    ToolSpec,
    Unknown,
)
from bot.agents.bounded import done_within
from bot.agents.calls import NO_TURN
from bot.agents.claude import transcript
from bot.agents.claude.config import CLI_VERSION, SDK_VERSION, Callbacks, ClaudeConfig, environment, options, tool_server
from bot.agents.claude.permissions import Decision, Deny, decide
from bot.agents.claude.session import ClaudeSession
from bot.agents.launch import Launch, base_env, prove_dead
from bot.clock import Clock
from storage.guard import refuse_in_transaction

log = structlog.get_logger()

#: The handshake takes 0.3 s on an idle machine; eight at once took 4 s.
_CONNECT_S = 60.0

_VERSION_S = 20.0

#: What the program writes when it does not know the session it should resume (2.1.332).
_UNKNOWN_SESSION = "No conversation found with session ID"


class ClaudeProvider:
    """The `claude` agent."""

    name = "claude"
    capabilities = Capabilities(usage_scope="turn")

    def __init__(self, config: ClaudeConfig, clock: Clock) -> None:
        self._config = config
        self._clock = clock

    async def check(self) -> str | None:
        """See `AgentProvider.check`: the program is there, and both it and the SDK are the measured versions."""
        if (sdk := importlib.metadata.version("claude-agent-sdk")) != SDK_VERSION:
            return f"claude-agent-sdk {sdk} is installed, but Nightporter was measured with {SDK_VERSION}: install exactly that."
        cli = self._config.cli
        if not os.access(cli, os.X_OK):
            return f"Claude Code is missing at {cli}: install claude-agent-sdk {SDK_VERSION} from a wheel that brings it (glibc Linux)."
        quiet = asyncio.subprocess.DEVNULL
        try:
            process = await asyncio.create_subprocess_exec(
                cli, "--version", stdin=quiet, stdout=asyncio.subprocess.PIPE, stderr=quiet, env=base_env(self._config.environ)
            )
        except OSError as error:
            return f"Claude Code at {cli} cannot be started: {error.strerror}."
        answering = asyncio.ensure_future(process.communicate())
        if not await done_within(self._clock, answering, _VERSION_S):
            process.kill()
        output, _ = await answering
        if output.decode(errors="replace").split()[:1] != [CLI_VERSION]:
            said = output.decode(errors="replace").strip() or "nothing"
            return f"Claude Code at {cli} says {said!r}, but Nightporter was measured with {CLI_VERSION}: install exactly that."
        return None

    async def open(self, spec: SessionSpec) -> AgentSession | Lost:
        """See `AgentProvider.open`. Call it from the main thread: the launcher's death signal follows the thread."""
        refuse_in_transaction("opening an agent")
        if not await asyncio.to_thread(spec.folder.is_dir):
            raise AgentUnavailable(f"The project folder {spec.folder} does not exist.")
        path = await self._transcript(spec)
        try:
            known = await asyncio.to_thread(transcript.knowledge, path, spec.native_id)
            cost = await asyncio.to_thread(transcript.cost_usd, path)
        except OSError as error:
            # Not Lost: whoever may not read it today may do so tomorrow.
            raise AgentUnavailable(f"Claude Code's transcript {path} cannot be read: {error.strerror}.") from error
        if spec.resume and known != "known":
            return Lost(f"the transcript of session {spec.native_id} is {known}")
        if not spec.resume and path is not None:
            raise AgentUnavailable(f"Claude Code already has a session {spec.native_id}, which was to be a new one.")
        return await self._start(spec, cost)

    async def outcome(self, spec: SessionSpec, prompt_uuid: str) -> Ended | Unknown:
        """See `AgentProvider.outcome`."""
        try:
            path = await self._transcript(spec)
            return await asyncio.to_thread(transcript.outcome, path, prompt_uuid)
        except (AgentUnavailable, OSError) as error:
            log.warning("agent.transcript_unreadable", session=spec.session_id, error=str(error))
            return Unknown()

    async def prove_dead(self, process: AgentProcess) -> Death:
        """See `AgentProvider.prove_dead`."""
        refuse_in_transaction("proving an agent dead")
        return await prove_dead(process, self._config.state_dir)

    async def close(self) -> None:
        """See `AgentProvider.close`: nothing is held between sessions."""

    async def _transcript(self, spec: SessionSpec) -> Path | None:
        # The id is ours and a UUID; anything else must not reach a path.
        native_id = str(uuid.UUID(spec.native_id))
        try:
            return await asyncio.to_thread(transcript.find, self._config.transcripts, native_id)
        except OSError as error:
            raise AgentUnavailable(f"Claude Code's transcripts in {self._config.transcripts} cannot be read: {error.strerror}.") from error

    async def _start(self, spec: SessionSpec, cost_usd: float) -> AgentSession | Lost:
        launch = Launch(self._config.state_dir, self._clock)
        stderr: deque[str] = deque(maxlen=50)
        session = ClaudeSession(spec, self._config, self._clock, launch, stderr)
        launch.prepare(str(self._config.cli), [], environment(self._config, spec, launch))
        instructions = launch.folder / "instructions.md"
        try:
            instructions.write_text(spec.standing_instructions, encoding="utf-8")
            (launch.folder / "t").mkdir(mode=0o700)
        except OSError as error:
            launch.forget()
            raise AgentUnavailable(f"Cannot write to {launch.folder}: {error.strerror}.") from error
        desk = _Desk(spec, self._config, session, stderr)
        server = tool_server([desk.tool(tool) for tool in spec.tools])
        client = ClaudeSDKClient(options(self._config, spec, launch, instructions, server, desk.callbacks()))
        connecting = asyncio.create_task(client.connect())
        try:
            connected = await done_within(self._clock, connecting, _CONNECT_S)
            failure = connecting.exception() if connected else TimeoutError("it did not answer")
            process = None if failure is not None else await launch.identity()
        except BaseException:
            # Cancelled in the middle: nothing of the half-open process may stay.
            connecting.cancel()
            await asyncio.shield(self._give_up(connecting, client, launch))
            raise
        if process is not None:
            session.begin(client, process, cost_usd)
            return session
        await self._give_up(connecting, client, launch)
        if spec.resume and _is_unknown_session(failure, stderr):
            return Lost(f"Claude Code does not know session {spec.native_id}")
        why = next((line for line in reversed(stderr) if line.strip()), "") or str(failure or "it ended at once")
        raise AgentUnavailable(f"Claude Code could not be started: {why.strip().rstrip('.')}.") from failure

    async def _give_up(self, connecting: asyncio.Task[None], client: ClaudeSDKClient, launch: Launch) -> None:
        await launch.kill()
        connecting.cancel()
        await asyncio.wait({connecting})
        leaving = asyncio.create_task(client.disconnect())
        await asyncio.wait({leaving})
        if not leaving.cancelled() and leaving.exception() is not None:
            log.warning("agent.disconnect_failed", error=str(leaving.exception()))
        launch.forget()


def _is_unknown_session(error: BaseException | None, stderr: deque[str]) -> bool:
    said = [*stderr, *(error.errors if isinstance(error, ResultError) else ())]
    return any(_UNKNOWN_SESSION in line for line in said)


class _Desk:
    """Answers what the program asks while it works: may I, and our tools."""

    def __init__(self, spec: SessionSpec, config: ClaudeConfig, session: ClaudeSession, stderr: deque[str]) -> None:
        self._spec = spec
        self._config = config
        self._session = session
        self._stderr = stderr

    def callbacks(self) -> Callbacks:
        """For the SDK. A permission hook that fails denies."""
        return Callbacks(
            may_use=self._may_use,
            before_tool=HookMatcher(hooks=[self._before_tool], on_failure="block"),
            at_end=HookMatcher(hooks=[_at_end]),
            stderr=lambda line: self._stderr.append(line[:500]),
        )

    def tool(self, spec: ToolSpec) -> SdkMcpTool[Any]:
        """One of our tools; its calls go to the run that is active at that moment."""

        async def call(arguments: dict[str, Any]) -> dict[str, Any]:
            run = self._session.active
            result = NO_TURN if run is None else await run.calls.call(spec.name, arguments)
            if not self._session.alive:
                # Nobody is left to read it; the disconnect cancels this, while an answer would fail in the SDK's hands.
                await asyncio.get_running_loop().create_future()
            return {"content": [{"type": "text", "text": result.text}], "is_error": result.is_error}

        return SdkMcpTool(spec.name, spec.description, dict(spec.schema), call)

    def _decide(self, tool: str, arguments: Mapping[str, object], *, subagent: bool) -> Decision:
        run = self._session.active
        if run is None:
            # An agent works only while its run is dispatched.
            return Deny(NO_TURN.text)
        run.watchdog.touch()
        # Where the program keeps long outputs of this session, which it then reads in pieces.
        roots = [*self._config.transcripts.glob(f"*/{self._session.native_id}")]
        decision = decide(self._spec.permissions, self._spec.folder, tool, arguments, subagent=subagent, read_roots=roots)
        if isinstance(decision, Deny):
            run.denied(decision.sentence)
        return decision

    async def _before_tool(self, asked: HookInput, _tool_id: str | None, _context: HookContext) -> HookJSONOutput:
        data: Mapping[str, Any] = dict(asked)
        arguments = data.get("tool_input")
        decision = self._decide(
            str(data.get("tool_name")), arguments if isinstance(arguments, dict) else {}, subagent=bool(data.get("agent_id"))
        )
        denied = isinstance(decision, Deny)
        return {
            "hookSpecificOutput": {
                "hookEventName": "PreToolUse",
                "permissionDecision": "deny" if denied else "allow",
                "permissionDecisionReason": decision.sentence if isinstance(decision, Deny) else "allowed by the project's rules",
            }
        }

    async def _may_use(
        self, tool: str, arguments: dict[str, Any], context: ToolPermissionContext
    ) -> PermissionResultAllow | PermissionResultDeny:
        """Asked where the program has rules of its own on top of the hook; the answer is the same."""
        decision = self._decide(tool, arguments, subagent=context.agent_id is not None)
        return PermissionResultDeny(message=decision.sentence) if isinstance(decision, Deny) else PermissionResultAllow()


async def _at_end(_asked: HookInput, _tool_id: str | None, _context: HookContext) -> HookJSONOutput:
    """Does nothing: that it is registered makes the program write the end of each turn into its transcript."""
    return {}
