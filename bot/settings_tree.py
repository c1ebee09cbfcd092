"""Gathers the raw configuration, before any of it is validated: file, environment, secret files, absolute paths, defaults."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from pydantic_settings import BaseSettings, EnvSettingsSource, SettingsError

from bot.errors import ConfigError

#: Every variable of ours begins with this.
ENV_PREFIX = "NIGHTPORTER_"
#: Variables of ours that are no settings: where config.toml is, and what our processes tell each other.
NOT_SETTINGS = frozenset({"NIGHTPORTER_CONFIG", "NIGHTPORTER_CRASH", "NIGHTPORTER_LAUNCH", "NIGHTPORTER_MARK", "NIGHTPORTER_SECRETS_FD"})

#: A section and the keys in it that hold a secret; each has a twin `…_file`.
_SECRETS: tuple[tuple[tuple[str, ...], str], ...] = (
    (("discord",), "token"),
    (("agents", "claude"), "api_key"),
    (("agents", "claude"), "auth_token"),
    (("database",), "url"),
)
#: A section and the keys in it that are paths, relative to config.toml's folder.
_PATHS: tuple[tuple[tuple[str, ...], tuple[str, ...]], ...] = (
    ((), ("state_dir",)),
    (("discord",), ("token_file",)),
    (("database",), ("url_file",)),
    (("agents", "claude"), ("config_dir", "api_key_file", "auth_token_file")),
)
_SQLITE = "sqlite+aiosqlite:///"
#: No secret is longer; a wrong file may be.
_SECRET_FILE_BYTES = 16_384


@dataclass(frozen=True, slots=True)
class Tree:
    """Raw values, and the names of the variables that some of them came from (for messages)."""

    values: dict[str, Any]
    variables: frozenset[str]


def is_setting(variable: str) -> bool:
    """Whether an environment variable of that name is configuration of ours, and may therefore hold a secret."""
    return variable.upper().startswith(ENV_PREFIX) and variable.upper() not in NOT_SETTINGS


def read_tree(path: Path | None, env: Mapping[str, str], model: type[BaseSettings]) -> Tree:
    """The values of config.toml under those of the environment; `model` says which variables hold JSON.

    Raises:
        ConfigError: unreadable file, a secret where none belongs, a secret file that cannot be used.
    """
    base = Path.cwd() if path is None else path.absolute().parent
    values: dict[str, Any] = {} if path is None else _read_file(path)
    variables = {name: value for name, value in env.items() if is_setting(name) and value}
    _merge(values, _from_env(variables, model))
    _make_absolute(values, base, env)
    _read_secret_files(values)
    _fill_in(values, base, env)
    return Tree(values, frozenset(name.upper() for name in variables))


def _read_file(path: Path) -> dict[str, Any]:
    try:
        values = tomllib.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        raise ConfigError(f"{path} does not exist: copy config.example.toml to it and fill it in") from None
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ConfigError(f"{path} is not UTF-8 text: save it as UTF-8") from None
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path} is not valid TOML: {error}") from None
    for section, key in _SECRETS:
        held = _section(values, section).get(key)
        name = ".".join((*section, key))
        if held is not None and (key != "url" or _has_password(held)):
            raise ConfigError(
                f"{name}: a secret does not belong in {path.name}; put it into a file named by {name}_file, "
                f"or into {ENV_PREFIX}{'__'.join((*section, key)).upper()}"
            )
    return values


def _has_password(url: object) -> bool:
    if not isinstance(url, str):
        return False
    try:
        return urlsplit(url).password is not None
    except ValueError:
        return "@" in url  # unreadable, so the careful answer


def _from_env(variables: Mapping[str, str], model: type[BaseSettings]) -> dict[str, Any]:
    """What pydantic-settings makes of these variables, and unknown ones as they are, so that they are refused by name."""
    try:
        values = _GivenEnvironment(model, variables)()
    except SettingsError:
        for name, value in variables.items():
            try:
                _GivenEnvironment(model, {name: value})()
            except SettingsError:
                raise ConfigError(f'{name}: must be JSON, for example [1, 2] or {{"key": "text"}}') from None
        raise
    known = {name.lower() for name in model.model_fields}
    for name, value in variables.items():
        first = name[len(ENV_PREFIX) :].lower().partition("__")[0]
        if first not in known:
            values[first] = value
    return values


class _GivenEnvironment(EnvSettingsSource):
    """pydantic-settings' reader of variables, over a mapping instead of the process's own environment."""

    def __init__(self, model: type[BaseSettings], variables: Mapping[str, str]) -> None:
        self._variables = variables
        super().__init__(model)

    def _load_env_vars(self) -> Mapping[str, str | None]:
        return {name.lower(): value for name, value in self._variables.items()}


def _merge(under: dict[str, Any], over: Mapping[str, Any]) -> None:
    for key, value in over.items():
        below = under.get(key)
        if isinstance(below, dict) and isinstance(value, dict):
            _merge(below, value)
        else:
            under[key] = value


def _section(values: dict[str, Any], section: tuple[str, ...]) -> dict[str, Any]:
    """The table at that place; an empty one where there is none or something else (validation will say so)."""
    table: Any = values
    for key in section:
        table = table.get(key) if isinstance(table, dict) else None
    return table if isinstance(table, dict) else {}


def _make_absolute(values: dict[str, Any], base: Path, env: Mapping[str, str]) -> None:
    for section, keys in _PATHS:
        table = _section(values, section)
        for key in keys:
            if isinstance(table.get(key), str):
                table[key] = _absolute(table[key], base, env)
    projects = values.get("projects")
    for project in projects if isinstance(projects, list) else ():
        if isinstance(project, dict) and isinstance(project.get("path"), str):
            project["path"] = _absolute(project["path"], base, env)


def _absolute(text: str, base: Path, env: Mapping[str, str]) -> str:
    home = env.get("HOME")
    if home and (text == "~" or text.startswith("~/")):
        text = home + text[1:]
    return os.path.normpath(base / text)


def _read_secret_files(values: dict[str, Any]) -> None:
    """Put what the `…_file` keys point at beside them, unless the environment has given the value already."""
    for section, key in _SECRETS:
        table = _section(values, section)
        named = table.get(f"{key}_file")
        if isinstance(named, str) and key not in table:
            table[key] = _read_secret(Path(named), ".".join((*section, key)))


def _read_secret(path: Path, name: str) -> str:
    try:
        with path.open("rb") as file:
            text = file.read(_SECRET_FILE_BYTES).decode().strip()
    except FileNotFoundError:
        raise ConfigError(f"{name}_file: {path} does not exist: create it, readable by Nightporter alone, with the {name} in it") from None
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        raise ConfigError(f"{name}_file: {path} cannot be read: {reason}") from None
    if not text or len(text.split()) != 1:
        raise ConfigError(f"{name}_file: {path} must hold the {name} on one line and nothing else")
    return text


def _fill_in(values: dict[str, Any], base: Path, env: Mapping[str, str]) -> None:
    """Defaults that depend on other values."""
    state_dir = values.setdefault("state_dir", _absolute("state", base, env))
    database = values.setdefault("database", {})
    if isinstance(database, dict):
        url = database.setdefault("url", f"{_SQLITE}{state_dir}/nightporter.db")
        if isinstance(url, str) and len(url) > len(_SQLITE) and url.startswith(_SQLITE):
            file, mark, options = url.removeprefix(_SQLITE).partition("?")
            database["url"] = f"{_SQLITE}{_absolute(file, base, env)}{mark}{options}"
    agents = values.setdefault("agents", {})
    claude = agents.setdefault("claude", {}) if isinstance(agents, dict) else None
    if isinstance(claude, dict):
        own = "api_key" in claude or "auth_token" in claude
        users = env.get("CLAUDE_CONFIG_DIR") or _absolute("~/.claude", base, env)
        claude.setdefault("config_dir", f"{state_dir}/claude" if own else users)
