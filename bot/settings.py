"""What can be configured: one frozen tree, read once at start and handed on as an argument (design section 12).

Keys are written in config.toml as in config.example.toml, or as environment variables: `NIGHTPORTER_` and the key in
capitals, `__` between levels. The environment wins. Durations are text in the file and whole milliseconds here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal, Self
from urllib.parse import unquote, urlsplit

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SecretStr,
    ValidationError,
    field_validator,
    model_validator,
)
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from bot.agents.base import PermissionMode
from bot.durations import parse_duration
from bot.errors import ConfigError
from bot.settings_errors import explain
from bot.settings_tree import ENV_PREFIX, read_tree

#: Text such as "20m" in the file, whole milliseconds in the program.
Duration = Annotated[int, BeforeValidator(parse_duration)]
#: Discord's id of anything: a positive 64-bit integer.
Snowflake = Annotated[int, Field(gt=0, lt=2**63)]


def _like(pattern: str, example: str) -> AfterValidator:
    """Text of that form; the message shows an example instead of a regular expression."""

    def check(value: str) -> str:
        if not re.fullmatch(pattern, value):
            raise ValueError(f"must look like {example}")
        return value

    return AfterValidator(check)


Name = Annotated[str, _like(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", '"backend" (letters, digits, ".", "_" and "-", at most 64)')]
Repository = Annotated[str, _like(r"[A-Za-z0-9][A-Za-z0-9-]*/[A-Za-z0-9._-]+", '"org/backend"')]
CommandPattern = Annotated[str, _like(r".*\S.*", '"git *"')]
HttpAddress = Annotated[str, _like(r"https?://[^/\s]+\S*", '"https://host/path"')]
WebSocketAddress = Annotated[str, _like(r"wss?://[^/\s]+\S*", '"wss://host/path"')]

#: What would be handed to the agent behind our back: its transcripts would be looked for elsewhere, its key not be masked.
_CLAUDE_KEYS = {
    "CLAUDE_CONFIG_DIR": "config_dir",
    "ANTHROPIC_API_KEY": "api_key_file",
    "ANTHROPIC_AUTH_TOKEN": "auth_token_file",
    "ANTHROPIC_BASE_URL": "base_url",
}
#: How variables are named whose values are secret: GH_TOKEN, NPM_CONFIG__AUTH, AWS_SECRET_ACCESS_KEY.
_SECRET_NAME = re.compile(r"(?:TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS?|AUTH|KEY)(?:_|$)", re.IGNORECASE)

SQLITE = "sqlite+aiosqlite:///"
POSTGRES = "postgresql+asyncpg://"


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class DiscordSettings(_Section):
    """The bot's account and what it listens to."""

    #: From NIGHTPORTER_DISCORD__TOKEN or the file named by `token_file`; never from config.toml.
    token: SecretStr | None = None
    token_file: Path | None = None
    #: Servers outside these are not heard.
    guilds: tuple[Snowflake, ...] = ()
    #: Missed messages older than this are offered in a notice, not run.
    catch_up_max_age_ms: Duration = Field(default=3_600_000, alias="catch_up_max_age")
    #: What happens with the agent's text between tool calls (design section 7).
    narration: Literal["silent", "off"] = "silent"
    #: A proxy or a stand-in for Discord's REST API, for example "http://127.0.0.1:8080/api/v10".
    api_base: HttpAddress | None = None
    gateway_url: WebSocketAddress | None = None


class AccessSettings(_Section):
    """Who reaches the agent. Empty means nobody."""

    users: tuple[Snowflake, ...] = ()
    roles: tuple[Snowflake, ...] = ()
    #: Beside everyone with Manage Server.
    admin_roles: tuple[Snowflake, ...] = ()


class DatabaseSettings(_Section):
    """Where the durable state lives."""

    #: With its password if it has one, therefore secret; `sqlite_path` for the file.
    url: SecretStr
    url_file: Path | None = None

    @field_validator("url")
    @classmethod
    def _known_database(cls, url: SecretStr) -> SecretStr:
        text = url.get_secret_value()
        known = (text.startswith(SQLITE) and len(text) > len(SQLITE)) or (text.startswith(POSTGRES) and len(text) > len(POSTGRES))
        try:
            urlsplit(text)
        except ValueError:
            known = False
        if not known or ":memory:" in text:
            raise ValueError(f"must be {SQLITE}PATH (a file) or {POSTGRES}USER@HOST/NAME")
        return url

    @property
    def sqlite_path(self) -> Path | None:
        """The file of an embedded database; None with PostgreSQL."""
        text = self.url.get_secret_value()
        return Path(text.removeprefix(SQLITE).partition("?")[0]) if text.startswith(SQLITE) else None


class RuntimeSettings(_Section):
    """How much runs at once."""

    max_concurrent_runs: Annotated[int, Field(ge=1, le=256)] = 4
    #: Idle agent processes that are kept; about 110 MB each.
    warm_agents: Annotated[int, Field(ge=0, le=256)] = 8
    idle_timeout_ms: Duration = Field(default=600_000, alias="idle_timeout")


class WaitSettings(_Section):
    """Bounds of the agent's `wait` (design section 6)."""

    min_ms: Duration = Field(default=30_000, alias="min")
    max_ms: Duration = Field(default=86_400_000, alias="max")
    expire_after_ms: Duration = Field(default=3_600_000, alias="expire_after")
    unattended_runs: Annotated[int, Field(ge=1)] = 24
    unattended_time_ms: Duration = Field(default=259_200_000, alias="unattended_time")

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if self.min_ms > self.max_ms:
            raise ValueError("min is longer than max: make it shorter")
        return self


class LimitSettings(_Section):
    """When something that hangs is given up (design section 11)."""

    #: A turn without any event from the agent.
    silent_turn_ms: Duration = Field(default=600_000, alias="silent_turn")
    #: The same while one of its tools runs.
    silent_tool_ms: Duration = Field(default=3_600_000, alias="silent_tool")
    #: From a polite interrupt to the kill.
    interrupt_ms: Duration = Field(default=3_000, alias="interrupt")
    #: What running turns get to finish at SIGTERM.
    drain_ms: Duration = Field(default=20_000, alias="drain")
    #: People's waiting prompts in one conversation.
    queue: Annotated[int, Field(ge=1)] = 50
    #: How often the agent's program repeats a failed model request.
    cli_retries: Annotated[int, Field(ge=0, le=100)] = 3
    #: One model request.
    api_timeout_ms: Duration = Field(default=120_000, alias="api_timeout")


class ClaudeSettings(_Section):
    """How Claude Code is started and where it finds its login."""

    model: str | None = None
    base_url: HttpAddress | None = None
    #: Its folder for login and transcripts. Left out: the user's own, or with a key given here `claude` in state_dir.
    config_dir: Path
    #: Added to the short list of variables that the agent gets at all.
    env: Mapping[str, str] = Field(default_factory=dict)
    api_key: SecretStr | None = None
    api_key_file: Path | None = None
    auth_token: SecretStr | None = None
    auth_token_file: Path | None = None

    @field_validator("env")
    @classmethod
    def _not_ours(cls, env: Mapping[str, str]) -> Mapping[str, str]:
        for name in env:
            if name.upper().startswith(ENV_PREFIX):
                raise ValueError(f"{name} belongs to Nightporter and is never handed to an agent: remove it")
            if name in _CLAUDE_KEYS:
                raise ValueError(f"{name} has a key of its own, which Nightporter has to know: use agents.claude.{_CLAUDE_KEYS[name]}")
        return env


class AgentSettings(_Section):
    """One section for each kind of agent."""

    claude: ClaudeSettings


class ProjectSettings(_Section):
    """A folder that an agent works in, with its rules."""

    name: Name
    path: Path
    agent: Literal["claude"] = "claude"
    permission_mode: PermissionMode = PermissionMode.ACCEPT_EDITS
    #: Glob patterns over one simple shell command; what matches none is denied with a sentence.
    allowed_commands: tuple[CommandPattern, ...] = ()
    #: Whose pull requests it may name.
    repositories: tuple[Repository, ...] = ()
    #: Several conversations may run in the folder at once; its owner takes the risk.
    shared: bool = False


class ChannelSettings(_Section):
    """A channel that is bound to a project. Its threads inherit the binding."""

    id: Snowflake
    project: str
    listen: Literal["mention", "all"] = "mention"


class Settings(BaseSettings):
    """All of it. Paths are absolute, secrets are read, references are known to be right."""

    model_config = SettingsConfigDict(extra="forbid", frozen=True, env_prefix=ENV_PREFIX, env_nested_delimiter="__")

    state_dir: Path
    discord: DiscordSettings = Field(default_factory=DiscordSettings)
    access: AccessSettings = Field(default_factory=AccessSettings)
    database: DatabaseSettings
    runtime: RuntimeSettings = Field(default_factory=RuntimeSettings)
    wait: WaitSettings = Field(default_factory=WaitSettings)
    limits: LimitSettings = Field(default_factory=LimitSettings)
    agents: AgentSettings
    projects: tuple[ProjectSettings, ...] = ()
    channels: tuple[ChannelSettings, ...] = ()

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],  # noqa: ARG003 - the signature is pydantic's
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,  # noqa: ARG003
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Only what `load_settings` has gathered: the process's environment is never read behind its back."""
        return (init_settings,)

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        names = [project.name for project in self.projects]
        for index, name in enumerate(names):
            if name in names[:index]:
                raise ValueError(f"projects[{index}].name: there is a project {name!r} already; give this one another name")
        ids = [channel.id for channel in self.channels]
        for index, channel in enumerate(self.channels):
            if channel.id in ids[:index]:
                raise ValueError(f"channels[{index}].id: channel {channel.id} is bound already; remove one of the two")
            if channel.project not in names:
                known = ", ".join(names) or "none is configured"
                raise ValueError(f"channels[{index}].project: there is no project {channel.project!r}; known: {known}")
        return self

    def project(self, name: str) -> ProjectSettings:
        """The project of that name; every name in `channels` has one.

        Raises:
            KeyError: there is none.
        """
        for project in self.projects:
            if project.name == name:
                return project
        raise KeyError(name)

    def channel(self, channel_id: int, parent_id: int | None) -> ChannelSettings | None:
        """What is said about a channel, or about the one that a thread belongs to; None: it is not bound."""
        found = {channel.id: channel for channel in self.channels}
        return found.get(channel_id) or (found.get(parent_id) if parent_id is not None else None)

    def secrets(self) -> tuple[str, ...]:
        """Every secret value, for masking; also what the agent is handed in `env` under a name that says so."""
        claude = self.agents.claude
        held = [secret.get_secret_value() for secret in (self.discord.token, claude.api_key, claude.auth_token) if secret is not None]
        held += [value for name, value in claude.env.items() if _SECRET_NAME.search(name)]
        password = urlsplit(self.database.url.get_secret_value()).password
        # The driver is given the password as it is written in the URL, the server as it is meant: both may show up in an error.
        return (*held, password, unquote(password)) if password else tuple(held)


def load_settings(path: Path | None, env: Mapping[str, str]) -> Settings:
    """Read config.toml (None: the environment alone), the variables in `env` and the files that hold secrets.

    Raises:
        ConfigError: one sentence that names the key and the mend.
    """
    tree = read_tree(path, env, Settings)
    try:
        return Settings(**tree.values)
    except ValidationError as error:
        raise ConfigError(explain(error, Settings, tree)) from None
