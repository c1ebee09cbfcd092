"""Whom a message would ping: mentions in its text, what ``allowed_mentions`` lets through, and the author's rights."""

from __future__ import annotations

import re
from dataclasses import dataclass

from .errors import Json
from .model import Guild, Pings
from .permissions import Permission

_CODE = re.compile(r"```.*?```|``.*?``|`[^`\n]*`", re.DOTALL)
_USER = re.compile(r"<@!?(\d+)>")
_ROLE = re.compile(r"<@&(\d+)>")
_EVERYONE = re.compile(r"@(?:everyone|here)\b")


@dataclass(slots=True, frozen=True)
class Mentioned:
    """What a text names, whether or not anybody is notified."""

    users: frozenset[int]
    roles: frozenset[int]
    everyone: bool


def named_in(text: str) -> Mentioned:
    """The mentions in a text; those inside of code are only characters."""
    plain = _CODE.sub(" ", text)
    return Mentioned(
        users=frozenset(map(int, _USER.findall(plain))),
        roles=frozenset(map(int, _ROLE.findall(plain))),
        everyone=bool(_EVERYONE.search(plain)),
    )


def pings_of(
    text: str,
    *,
    allowed: Json | None,
    guild: Guild | None,
    rights: Permission,
    replied_to: int | None,
) -> Pings:
    """Work out whom this text notifies.

    ``allowed`` is the raw ``allowed_mentions`` (None: the default, everything is parsed and the author of the message
    replied to is pinged). Roles that are not mentionable, @everyone and @here need MENTION_EVERYONE.
    """
    named = named_in(text)
    parse = {"users", "roles", "everyone"} if allowed is None else set(allowed.get("parse") or [])
    listed = allowed or {}
    users = named.users if "users" in parse else named.users & {int(one) for one in listed.get("users") or []}
    roles = named.roles if "roles" in parse else named.roles & {int(one) for one in listed.get("roles") or []}
    may_all = bool(rights & Permission.MENTION_EVERYONE)
    if guild is None:
        roles = frozenset()
    else:
        users = frozenset(one for one in users if one in guild.members)
        roles = frozenset(one for one in roles if one in guild.roles and (guild.roles[one].mentionable or may_all))
    pings_replied = allowed is None or bool(allowed.get("replied_user"))
    if replied_to is not None and pings_replied:
        users |= {replied_to}
    everyone = named.everyone and "everyone" in parse and may_all and guild is not None
    return Pings(users=users, roles=roles, everyone=everyone)
