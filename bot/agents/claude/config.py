"""What the Claude adapter must be told, and the options and environment that follow from it (facts of SDK 0.2.189, CLI 2.1.332)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import claude_agent_sdk
from claude_agent_sdk import CanUseTool, ClaudeAgentOptions, HookMatcher, McpSdkServerConfig, SdkMcpTool, create_sdk_mcp_server

from bot.agents.base import SessionSpec
from bot.agents.claude.permissions import TOOLS
from bot.agents.launch import Launch, base_env
from bot.agents.watchdog import Silence

#: The versions whose behaviour was measured; every other one must be measured anew before it is used.
SDK_VERSION, CLI_VERSION = "0.2.189", "2.1.332"

#: One line of the stream holds a whole tool result; the SDK's default of 1 MiB ends the session on a large one.
_LINE_BYTES = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class ClaudeConfig:
    """Everything that does not belong to one session."""

    #: Nightporter's folder, 0700: the launcher's run folders, instructions, and with a key the transcripts.
    state_dir: Path
    #: Nightporter's own environment, from which a short list of names is passed on.
    environ: Mapping[str, str]
    model: str | None = None
    base_url: str | None = None
    api_key: str | None = None
    auth_token: str | None = None
    #: The program's folder for login and transcripts. None: the user's own, or with a key or token `claude` in `state_dir`.
    config_dir: Path | None = None
    #: Added to the agent's environment, e.g. SSH_AUTH_SOCK or a proxy.
    env: Mapping[str, str] = field(default_factory=dict)
    retries: int = 3
    api_timeout_ms: int = 120_000
    silence: Silence = field(default_factory=Silence)
    #: From a polite interrupt to the kill.
    interrupt_s: float = 3.0
    #: Another build of the program than the one in the wheel; its version is checked all the same.
    program: Path | None = None

    @property
    def cli(self) -> Path:
        """The program."""
        return self.program or Path(claude_agent_sdk.__file__).parent / "_bundled" / "claude"

    @property
    def home(self) -> Path:
        """The user's home folder, as the agent sees it."""
        return Path(self.env.get("HOME") or self.environ.get("HOME") or Path.home())

    @property
    def own_folder(self) -> Path | None:
        """The folder that the program is told to use; None if it finds the user's own by itself."""
        if self.config_dir is not None:
            # Told to use its default place, the program would look for the login elsewhere than when told nothing.
            return None if self.config_dir == self.home / ".claude" else self.config_dir
        return self.state_dir / "claude" if self.api_key or self.auth_token else None

    @property
    def transcripts(self) -> Path:
        """The folder that holds a folder for each project, which holds `<session id>.jsonl`."""
        return (self.own_folder or self.home / ".claude") / "projects"


@dataclass(frozen=True, slots=True)
class Callbacks:
    """What the program asks us while it works."""

    may_use: CanUseTool
    before_tool: HookMatcher
    at_end: HookMatcher
    stderr: Callable[[str], None]


def environment(config: ClaudeConfig, spec: SessionSpec, launch: Launch) -> dict[str, str]:
    """The agent's whole environment: an allow-list, so that no secret of Nightporter's is in it (P10)."""
    env = {
        "HOME": str(config.home),
        **base_env(config.environ),
        **config.env,
        **spec.env,
        "PWD": str(spec.folder),
        # What the SDK itself would set; the launcher drops all that is not named here.
        "CLAUDE_CODE_ENTRYPOINT": "sdk-py",
        "CLAUDE_AGENT_SDK_VERSION": SDK_VERSION,
        "CLAUDE_CODE_SDK_READS_SESSION_STATE": "1",
        # No traffic but the model's, no updates of a pinned program.
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_AUTOUPDATER": "1",
        "DISABLE_TELEMETRY": "1",
        "DISABLE_ERROR_REPORTING": "1",
        # One verb, one owner: no timers and no background work of its own (design section 6).
        "CLAUDE_CODE_DISABLE_BACKGROUND_TASKS": "1",
        "CLAUDE_CODE_DISABLE_CRON": "1",
        # Each command begins in the project folder, so that paths mean what the permissions judged.
        "CLAUDE_BASH_MAINTAIN_PROJECT_WORKING_DIR": "1",
        "CLAUDE_CODE_MAX_RETRIES": str(config.retries),
        "API_TIMEOUT_MS": str(config.api_timeout_ms),
        # Otherwise our tools are hidden behind a search tool.
        "ENABLE_TOOL_SEARCH": "false",
        "CLAUDE_CODE_TMPDIR": str(launch.folder / "t"),
    }
    if config.own_folder is not None:
        env["CLAUDE_CONFIG_DIR"] = str(config.own_folder)
    if config.base_url is not None:
        env["ANTHROPIC_BASE_URL"] = config.base_url
    if config.api_key is not None:
        env["ANTHROPIC_API_KEY"] = config.api_key
    if config.auth_token is not None:
        env["ANTHROPIC_AUTH_TOKEN"] = config.auth_token
    return env


def tool_server(tools: list[SdkMcpTool[Any]]) -> McpSdkServerConfig:
    """Our tools as the in-process server `nightporter`, always in the model's sight."""
    server = create_sdk_mcp_server("nightporter", tools=tools)
    # The SDK passes unknown keys of this dictionary on, but does not declare this one.
    return cast("McpSdkServerConfig", {**server, "alwaysLoad": True})


def options(
    config: ClaudeConfig,
    spec: SessionSpec,
    launch: Launch,
    instructions: Path,
    server: McpSdkServerConfig,
    callbacks: Callbacks,
) -> ClaudeAgentOptions:
    """The SDK's options for one session."""
    return ClaudeAgentOptions(
        cli_path=launch.path,
        cwd=spec.folder,
        env=launch.env,
        session_id=None if spec.resume else spec.native_id,
        resume=spec.native_id if spec.resume else None,
        model=spec.model or config.model,
        # The preset without `append`: an appended text would go through argv, which holds 128 KiB for one argument.
        system_prompt={"type": "preset", "preset": "claude_code"},
        extra_args={"append-system-prompt-file": str(instructions)},
        tools=list(TOOLS[spec.permissions.mode]),
        mcp_servers={"nightporter": server},
        strict_mcp_config=True,
        setting_sources=[],
        skills=[],
        # People's text is literal: no @file, no /command.
        verbatim_prompts=True,
        permission_mode="default",
        can_use_tool=callbacks.may_use,
        hooks={"PreToolUse": [callbacks.before_tool], "Stop": [callbacks.at_end]},
        include_partial_messages=True,
        max_buffer_size=_LINE_BYTES,
        stderr=callbacks.stderr,
    )
