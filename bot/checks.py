"""Looks, before anything starts, at what the configuration points at: folders, token, the agent's program."""

from __future__ import annotations

import importlib.util
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from bot.errors import ConfigError, NightporterError, Unavailable
from bot.settings import Settings


class Verdict(StrEnum):
    """How a finding is to be taken."""

    OK = "ok"
    #: Works, but somebody should know.
    NOTE = "note"
    #: The configuration must be mended (exit code 78).
    WRONG = "wrong"
    #: Something that should be installed or running is not (exit code 69).
    MISSING = "missing"


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of `check-config`."""

    verdict: Verdict
    sentence: str

    def error(self) -> NightporterError | None:
        """The error that this finding is, if it is one."""
        match self.verdict:
            case Verdict.OK | Verdict.NOTE:
                return None
            case Verdict.WRONG:
                return ConfigError(self.sentence)
            case Verdict.MISSING:
                return Unavailable(self.sentence)


def inspect(settings: Settings) -> tuple[Finding, ...]:
    """Everything that can be found out without starting anything or writing anywhere."""
    return (
        _state_dir(settings.state_dir),
        _database(settings),
        *_discord(settings),
        *_access(settings),
        *_projects(settings),
        *_channels(settings),
        *_claude(settings),
    )


def require(settings: Settings) -> None:
    """Raise the first finding that would keep Nightporter from working.

    Raises:
        ConfigError, Unavailable: as found.
    """
    for finding in inspect(settings):
        error = finding.error()
        if error:
            raise error


def prepare_state_dir(path: Path) -> None:
    """Make the state folder, or close one that stands open: it holds conversations, so nobody else may look in.

    Raises:
        ConfigError: it cannot be made or closed.
    """
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.chmod(0o700)
    except OSError as error:
        raise ConfigError(f"state_dir: {path} cannot be made: {error.strerror}; choose a folder that Nightporter may write to") from None


def bundled_cli() -> Path | None:
    """The Claude Code program inside the installed claude-agent-sdk, found without importing it; None if there is none.

    pip falls back to a wheel without it on platforms that have none, musl for example.
    """
    spec = importlib.util.find_spec("claude_agent_sdk")
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        program = Path(folder) / "_bundled" / "claude"
        if program.is_file() and os.access(program, os.X_OK):
            return program
    return None


def _state_dir(path: Path) -> Finding:
    # The nearest folder that exists decides whether the rest can be made; nothing is made here.
    existing = next(folder for folder in (path, *path.parents) if folder.exists())
    if not existing.is_dir() or not os.access(existing, os.W_OK | os.X_OK):
        return Finding(
            Verdict.WRONG, f"state_dir: {path} cannot be made or written to: choose another folder, or give Nightporter the right"
        )
    if existing != path:
        return Finding(Verdict.OK, f"state_dir: {path} will be made, for Nightporter alone")
    mode = stat.S_IMODE(path.stat().st_mode)
    if mode & 0o077:
        return Finding(Verdict.NOTE, f"state_dir: {path} is open to others ({mode:04o}); `run` will make it 0700")
    return Finding(Verdict.OK, f"state_dir: {path}")


def _database(settings: Settings) -> Finding:
    file = settings.database.sqlite_path
    if file is None:
        return Finding(Verdict.OK, "database: PostgreSQL")
    if file.is_dir():
        return Finding(Verdict.WRONG, f"database.url: {file} is a folder: name a file in it")
    parent = file.parent
    if not parent.exists() and not parent.is_relative_to(settings.state_dir):
        return Finding(Verdict.WRONG, f"database.url: the folder {parent} does not exist: make it, or put the file into state_dir")
    return Finding(Verdict.OK, f"database: SQLite, {file}")


def _discord(settings: Settings) -> Iterator[Finding]:
    discord = settings.discord
    if discord.token is None:
        yield Finding(Verdict.WRONG, "discord.token_file: no token: name a file that holds it, or set NIGHTPORTER_DISCORD__TOKEN")
    else:
        yield Finding(Verdict.OK, "discord: there is a token")
    file = discord.token_file
    if file is not None and file.exists() and stat.S_IMODE(file.stat().st_mode) & 0o077:
        yield Finding(Verdict.NOTE, f"discord.token_file: {file} can be read by others: chmod 600 it")
    if not discord.guilds:
        yield Finding(Verdict.NOTE, "discord.guilds: empty, so no server is heard")


def _access(settings: Settings) -> Iterator[Finding]:
    access = settings.access
    if not access.users and not access.roles:
        yield Finding(Verdict.NOTE, "access: neither users nor roles, so only admins reach the agent (Manage Server, access.admin_roles)")


def _projects(settings: Settings) -> Iterator[Finding]:
    if not settings.projects:
        yield Finding(Verdict.NOTE, "projects: none")
    for index, project in enumerate(settings.projects):
        if not project.path.is_dir():
            yield Finding(
                Verdict.WRONG,
                f"projects[{index}].path: {project.path} is not a folder: make it, or write the path of project {project.name!r}",
            )
        else:
            yield Finding(Verdict.OK, f"project {project.name}: {project.path} ({project.agent}, {project.permission_mode})")


def _channels(settings: Settings) -> Iterator[Finding]:
    if not settings.channels:
        yield Finding(Verdict.NOTE, "channels: none is bound to a project")
    for channel in settings.channels:
        yield Finding(Verdict.OK, f"channel {channel.id}: project {channel.project}, listens to {channel.listen}")


def _claude(settings: Settings) -> Iterator[Finding]:
    claude = settings.agents.claude
    program = bundled_cli()
    if program is None:
        yield Finding(
            Verdict.MISSING,
            "agents.claude: this installation of claude-agent-sdk has no program in it: install on Linux with glibc (not Alpine)",
        )
    else:
        yield Finding(Verdict.OK, f"agents.claude: {program}")
    if claude.api_key is None and claude.auth_token is None and not claude.config_dir.is_dir():
        yield Finding(
            Verdict.NOTE, f"agents.claude: no key, and {claude.config_dir} does not exist: log in with that folder, or give a key"
        )
