"""What exists in the loopback Discord: users, guilds, channels, threads, members, roles and messages.

These are the server's own rows. Whoever gets one from the people API reads it and changes it only through that API.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum, IntFlag

from .errors import Json
from .permissions import EVERYDAY, Permission


class ChannelType(IntEnum):
    """The channel types this server has."""

    TEXT = 0
    DM = 1
    PUBLIC_THREAD = 11
    PRIVATE_THREAD = 12


class MessageType(IntEnum):
    """The message types this server makes."""

    DEFAULT = 0
    MEMBER_JOIN = 7
    THREAD_CREATED = 18
    REPLY = 19
    CHAT_INPUT_COMMAND = 20


class MessageFlag(IntFlag):
    """Message flags with an effect here."""

    NONE = 0
    SUPPRESS_EMBEDS = 1 << 2
    HAS_THREAD = 1 << 5
    EPHEMERAL = 1 << 6
    LOADING = 1 << 7
    SUPPRESS_NOTIFICATIONS = 1 << 12
    COMPONENTS_V2 = 1 << 15


@dataclass(slots=True, eq=False)
class User:
    """An account, of a person or of a bot; with Nitro, one that may write 4,000 characters."""

    id: int
    name: str
    bot: bool = False
    accepts_dms: bool = True
    nitro: bool = False


@dataclass(slots=True, eq=False)
class Role:
    """A role; the one whose id is its guild's id is @everyone."""

    id: int
    guild_id: int
    name: str
    permissions: Permission
    mentionable: bool = False
    position: int = 1


@dataclass(slots=True, eq=False)
class Member:
    """A user in a guild."""

    guild: Guild
    user: User
    roles: list[Role]
    joined_ms: int
    nick: str | None = None

    @property
    def id(self) -> int:
        """The user's id."""
        return self.user.id


@dataclass(slots=True)
class Overwrite:
    """What a channel gives to or takes from a role or a member."""

    target_id: int
    is_member: bool
    allow: Permission = Permission.NONE
    deny: Permission = Permission.NONE


@dataclass(slots=True, eq=False)
class Guild:
    """A server, in Discord's own words a guild."""

    id: int
    name: str
    owner_id: int
    roles: dict[int, Role] = field(default_factory=dict)
    members: dict[int, Member] = field(default_factory=dict)
    channels: dict[int, Channel] = field(default_factory=dict)

    @property
    def everyone(self) -> Role:
        """The role that all members have."""
        return self.roles[self.id]

    def add_everyone(self, permissions: Permission = EVERYDAY) -> None:
        """Make the @everyone role."""
        self.roles[self.id] = Role(self.id, self.id, "@everyone", permissions, position=0)


@dataclass(slots=True)
class ThreadState:
    """What a thread has beyond a channel."""

    owner_id: int
    archived: bool = False
    locked: bool = False
    auto_archive_minutes: int = 1440
    changed_ms: int = 0
    member_ids: set[int] = field(default_factory=set)
    total_sent: int = 0


@dataclass(slots=True, eq=False)
class Channel:
    """A text channel, a thread (``thread`` is set, ``parent`` is its channel) or a DM (``recipients`` is set)."""

    id: int
    type: ChannelType
    name: str
    guild: Guild | None = None
    parent: Channel | None = None
    topic: str | None = None
    position: int = 0
    overwrites: dict[int, Overwrite] = field(default_factory=dict)
    messages: dict[int, Message] = field(default_factory=dict)
    thread: ThreadState | None = None
    recipients: list[User] = field(default_factory=list)

    @property
    def last_message_id(self) -> int | None:
        """Id of the newest message that is still there."""
        return max(self.messages, default=None)


@dataclass(slots=True, frozen=True)
class Attachment:
    """A file of a message; ``content`` is what GET on its URL gives."""

    id: int
    filename: str
    content: bytes
    content_type: str
    url: str


@dataclass(slots=True, frozen=True)
class Pings:
    """Whom a message notifies, or would notify: mentions in its text and the allowed mentions taken together."""

    users: frozenset[int] = frozenset()
    roles: frozenset[int] = frozenset()
    everyone: bool = False

    def __bool__(self) -> bool:
        return bool(self.users or self.roles or self.everyone)


@dataclass(slots=True, frozen=True)
class Origin:
    """The interaction that a message answers."""

    interaction_id: int
    type: int
    user: User
    name: str


@dataclass(slots=True, eq=False)
class Message:
    """A message. ``ephemeral_for`` is the only user who sees it, if there is one; ``deleted`` rows are in no channel."""

    id: int
    channel: Channel
    author: User
    content: str
    created_ms: int
    type: MessageType = MessageType.DEFAULT
    flags: MessageFlag = MessageFlag.NONE
    edited_ms: int | None = None
    embeds: list[Json] = field(default_factory=list)
    components: list[Json] = field(default_factory=list)
    attachments: list[Attachment] = field(default_factory=list)
    reply_to: int | None = None
    nonce: str | None = None
    pings: Pings = field(default_factory=Pings)
    reactions: dict[str, list[int]] = field(default_factory=dict)
    webhook_id: int | None = None
    origin: Origin | None = None
    ephemeral_for: int | None = None
    thread: Channel | None = None
    deleted: bool = False

    @property
    def ephemeral(self) -> bool:
        """Whether only one user sees it."""
        return self.ephemeral_for is not None

    @property
    def silent(self) -> bool:
        """Whether it was sent without a notification."""
        return bool(self.flags & MessageFlag.SUPPRESS_NOTIFICATIONS)
