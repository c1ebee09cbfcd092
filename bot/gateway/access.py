"""Who may do what: the one function that messages, commands and buttons are judged by."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from enum import IntEnum

import discord

from bot.runtime.ports import Person
from bot.settings import AccessSettings


class Level(IntEnum):
    """What somebody is to the bot; a higher one includes the lower."""

    #: A stranger: messages are met with silence, commands with one sentence.
    NONE = 0
    #: May talk to the agent, and end what he began himself.
    MEMBER = 1
    #: May also end what others began.
    ADMIN = 2


@dataclass(frozen=True, slots=True)
class Caller:
    """What is known about somebody when he writes, commands or presses."""

    user_id: int
    name: str
    #: None in a direct message, where nobody has roles.
    guild_id: int | None
    role_ids: frozenset[int] = frozenset()
    manage_guild: bool = False


def level(access: AccessSettings, guilds: Collection[int], caller: Caller) -> Level:
    """The caller's level. Empty lists let nobody in; outside the configured guilds nobody has any, whatever his rights there."""
    if caller.guild_id is not None and caller.guild_id not in guilds:
        return Level.NONE
    if caller.guild_id is not None and (caller.manage_guild or caller.role_ids & set(access.admin_roles)):
        return Level.ADMIN
    if caller.user_id in access.users or caller.role_ids & set(access.roles):
        return Level.MEMBER
    return Level.NONE


def person(caller: Caller, held: Level) -> Person:
    """The caller as the runtime knows people."""
    return Person(caller.user_id, caller.name, admin=held is Level.ADMIN)


def caller_of(author: discord.User | discord.Member) -> Caller:
    """The author of a live message, or a member that was fetched; a plain user counts as one without a guild."""
    if not isinstance(author, discord.Member):
        return Caller(author.id, author.display_name, None)
    return Caller(author.id, author.display_name, author.guild.id, _roles(author), manage_guild=author.guild_permissions.manage_guild)


def caller_of_interaction(interaction: discord.Interaction) -> Caller:
    """Whoever gave a command or pressed a button; Discord sends his rights along."""
    user = interaction.user
    roles = _roles(user) if isinstance(user, discord.Member) else frozenset()
    manages = interaction.guild_id is not None and interaction.permissions.manage_guild
    return Caller(user.id, user.display_name, interaction.guild_id, roles, manage_guild=manages)


def _roles(member: discord.Member) -> frozenset[int]:
    """His roles' ids, with @everyone, whose id is the guild's."""
    return frozenset(role.id for role in member.roles) | {member.guild.id}
