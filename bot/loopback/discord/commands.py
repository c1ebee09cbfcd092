"""Application commands: what a bulk overwrite may hold, and which command a person's typing names."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from .errors import Json, bad_length, invalid_form, required
from .timing import Snowflakes

NAME = re.compile(r"^[-_'\w]{1,32}$")
OPTIONS_MAX = CHOICES_MAX = 25
COMMANDS_MAX = 100
CHAT_INPUT = 1
SUBCOMMAND, GROUP, STRING, INTEGER, BOOLEAN, USER, CHANNEL, ROLE, MENTIONABLE, NUMBER = range(1, 11)


class CannotInvokeError(Exception):
    """A person's client would not offer this: no such command, option or choice, or a component out of reach."""


@dataclass(slots=True)
class Registry:
    """The commands of the application: global ones, and those of single guilds."""

    ids: Snowflakes
    everywhere: list[Json] = field(default_factory=list)
    in_guild: dict[int, list[Json]] = field(default_factory=dict)

    def overwrite(self, application_id: int, guild_id: int | None, body: list[Json]) -> list[Json]:
        """Replace all commands of one scope, keeping the ids of those that stay. Raises 50035."""
        _check_all(body)
        before = self.everywhere if guild_id is None else self.in_guild.get(guild_id, [])
        known = {(one["name"], one["type"]): one["id"] for one in before}
        rows = []
        for one in body:
            kind = one.get("type") or CHAT_INPUT
            row = {**one, "type": kind, "id": known.get((one["name"], kind)) or str(self.ids.next())}
            row |= {"application_id": str(application_id), "version": str(self.ids.next())}
            row.setdefault("description", "")
            row.setdefault("default_member_permissions", None)
            if guild_id is not None:
                row["guild_id"] = str(guild_id)
            rows.append(row)
        if guild_id is None:
            self.everywhere = rows
        else:
            self.in_guild[guild_id] = rows
        return rows

    def of(self, guild_id: int | None) -> list[Json]:
        """The commands of one scope."""
        return self.everywhere if guild_id is None else self.in_guild.get(guild_id, [])

    def find(self, guild_id: int | None, words: list[str]) -> tuple[Json, list[Json]]:
        """The command that ``words`` name, and the chain of group and subcommand below it.

        A guild's own command comes before a global one. Raises :class:`CannotInvokeError` for what was never synced.
        """
        scopes = (self.of(guild_id), self.everywhere) if guild_id is not None else (self.everywhere,)
        offered = [one for scope in scopes for one in scope if one["type"] == CHAT_INPUT]
        command = next((one for one in offered if one["name"] == words[0]), None)
        if command is None:
            names = ", ".join("/" + one["name"] for one in offered) or "none"
            message = f"/{words[0]} is not offered here; synced commands: {names}"
            raise CannotInvokeError(message)
        chain: list[Json] = []
        options = command.get("options") or []
        for word in words[1:]:
            step = next((one for one in options if one["name"] == word and one["type"] in {SUBCOMMAND, GROUP}), None)
            if step is None:
                message = f"/{' '.join(words)}: there is no {word!r}"
                raise CannotInvokeError(message)
            chain.append(step)
            options = step.get("options") or []
        if any(one["type"] in {SUBCOMMAND, GROUP} for one in options):
            message = f"/{' '.join(words)} is a group, name its subcommand"
            raise CannotInvokeError(message)
        return command, chain


def _check_all(body: list[Json]) -> None:
    if len(body) > COMMANDS_MAX:
        raise bad_length("commands", 0, COMMANDS_MAX)
    seen: set[tuple[str, int]] = set()
    for index, one in enumerate(body):
        kind = one.get("type") or CHAT_INPUT
        if (one.get("name"), kind) in seen:
            raise invalid_form(str(index), "APPLICATION_COMMANDS_DUPLICATE_NAME", "Application command names must be unique")
        seen.add((one["name"], kind))
        if kind == CHAT_INPUT:
            _check(one, str(index))
            if _size(one) > 8000:  # noqa: PLR2004  # documented: name, description and values of one command together
                raise invalid_form(str(index), "APPLICATION_COMMAND_TOO_LARGE", "Command exceeds maximum size (8000)")
        elif not 1 <= len(one.get("name") or "") <= 32:  # noqa: PLR2004  # the length in NAME
            raise bad_length(f"{index}.name", 1, 32)


def _check(row: Json, where: str) -> None:
    name = row.get("name") or ""
    if not NAME.match(name) or name != name.lower():
        raise invalid_form(f"{where}.name", "APPLICATION_COMMAND_INVALID_NAME", "Command name is invalid")
    if not 1 <= len(row.get("description") or "") <= 100:  # noqa: PLR2004  # documented
        raise bad_length(f"{where}.description", 1, 100)
    options = row.get("options") or []
    if len(options) > OPTIONS_MAX:
        raise bad_length(f"{where}.options", 0, OPTIONS_MAX)
    optional_seen = False
    names: set[str] = set()
    for index, option in enumerate(options):
        here = f"{where}.options.{index}"
        if option.get("type") not in range(1, 12):
            raise required(f"{here}.type")
        _check(option, here)
        if option["name"] in names:
            raise invalid_form(f"{here}.name", "APPLICATION_COMMAND_OPTIONS_NAME_INVALID", "Option name is not unique")
        names.add(option["name"])
        if option.get("required") and optional_seen:
            raise invalid_form(
                here, "APPLICATION_COMMAND_OPTIONS_REQUIRED_INVALID", "Required options must be placed before non-required options"
            )
        optional_seen = optional_seen or not option.get("required")
        choices = option.get("choices") or []
        if len(choices) > CHOICES_MAX:
            raise bad_length(f"{here}.choices", 0, CHOICES_MAX)
        if choices and option.get("autocomplete"):
            raise invalid_form(f"{here}.autocomplete", "BASE_TYPE_CHOICES", "Choices and autocomplete are mutually exclusive")
        check_choices(choices, f"{here}.choices")


def check_choices(choices: list[Json], where: str) -> None:
    """Refuse more than 25 choices, or names and values out of bounds. Raises 50035."""
    if len(choices) > CHOICES_MAX:
        raise bad_length(where, 0, CHOICES_MAX)
    for index, choice in enumerate(choices):
        if not 1 <= len(choice.get("name") or "") <= 100:  # noqa: PLR2004  # documented
            raise bad_length(f"{where}.{index}.name", 1, 100)
        value = choice.get("value")
        if isinstance(value, str) and not 1 <= len(value) <= 100:  # noqa: PLR2004  # documented
            raise bad_length(f"{where}.{index}.value", 1, 100)


def _size(row: Json) -> int:
    own = len(row.get("name") or "") + len(row.get("description") or "")
    own += sum(len(str(one.get("value"))) for one in row.get("choices") or [])
    return own + sum(_size(one) for one in row.get("options") or [])
