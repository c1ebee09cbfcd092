"""Permission bits of Discord and how roles and overwrites combine into what somebody may do in a channel."""

from __future__ import annotations

from enum import IntFlag


class Permission(IntFlag):
    """The bits this server knows (developer documentation, "Permissions")."""

    NONE = 0
    ADMINISTRATOR = 1 << 3
    MANAGE_CHANNELS = 1 << 4
    MANAGE_GUILD = 1 << 5
    ADD_REACTIONS = 1 << 6
    VIEW_CHANNEL = 1 << 10
    SEND_MESSAGES = 1 << 11
    MANAGE_MESSAGES = 1 << 13
    EMBED_LINKS = 1 << 14
    ATTACH_FILES = 1 << 15
    READ_MESSAGE_HISTORY = 1 << 16
    MENTION_EVERYONE = 1 << 17
    USE_APPLICATION_COMMANDS = 1 << 31
    MANAGE_THREADS = 1 << 34
    CREATE_PUBLIC_THREADS = 1 << 35
    CREATE_PRIVATE_THREADS = 1 << 36
    SEND_MESSAGES_IN_THREADS = 1 << 38


ALL = Permission((1 << 50) - 1)
"""What an owner or administrator has."""

EVERYDAY = (
    Permission.ADD_REACTIONS
    | Permission.VIEW_CHANNEL
    | Permission.SEND_MESSAGES
    | Permission.EMBED_LINKS
    | Permission.ATTACH_FILES
    | Permission.READ_MESSAGE_HISTORY
    | Permission.USE_APPLICATION_COMMANDS
    | Permission.CREATE_PUBLIC_THREADS
    | Permission.CREATE_PRIVATE_THREADS
    | Permission.SEND_MESSAGES_IN_THREADS
)
"""What the @everyone role of a new guild gives here."""

DIRECT = EVERYDAY & ~(Permission.CREATE_PUBLIC_THREADS | Permission.CREATE_PRIVATE_THREADS)
"""What both sides have in a direct message."""


def combine(
    *,
    guild_level: Permission,
    everyone: tuple[Permission, Permission],
    roles: list[tuple[Permission, Permission]],
    member: tuple[Permission, Permission],
) -> Permission:
    """Apply a channel's overwrites, each an (allow, deny) pair, in the documented order.

    Without VIEW_CHANNEL nothing is left, whatever else the overwrites allow.
    """
    if guild_level & Permission.ADMINISTRATOR:
        return ALL
    result = (guild_level & ~everyone[1]) | everyone[0]
    denied = allowed = Permission.NONE
    for allow, deny in roles:
        allowed |= allow
        denied |= deny
    result = (result & ~denied) | allowed
    result = (result & ~member[1]) | member[0]
    return result if result & Permission.VIEW_CHANNEL else Permission.NONE
