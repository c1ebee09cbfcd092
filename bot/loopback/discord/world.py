"""The whole state of the loopback Discord: look-ups, rights, and the way events leave for the gateway."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from . import payloads
from .config import Intent, LoopbackConfig
from .errors import ApiError, Code, Json
from .log import EventLog
from .model import Channel, ChannelType, Guild, Member, Message, User
from .permissions import ALL, DIRECT, Permission, combine
from .timing import LoopbackClock, Snowflakes


class Emitter(Protocol):
    """Where events go: the gateway."""

    def emit(
        self,
        event: str,
        make: Callable[[bool], Json],
        *,
        channel: Channel | None = None,
        intent: Intent = Intent.NONE,
    ) -> None:
        """Send an event to every session that has ``intent`` and whose bot may see ``channel``.

        ``make`` is called with whether the session sees message content.
        """


class World:
    """Users, guilds and channels of one server, and the one bot application that lives in it."""

    def __init__(self, config: LoopbackConfig, clock: LoopbackClock) -> None:
        self.config = config
        self.clock = clock
        self.ids = Snowflakes(clock)
        self.log = EventLog(clock)
        self.users: dict[int, User] = {}
        self.guilds: dict[int, Guild] = {}
        self.channels: dict[int, Channel] = {}
        self.base_url = ""
        self.bot = self.add_user(config.bot_name, bot=True)
        self.emitter: Emitter | None = None

    @property
    def application_id(self) -> int:
        """The application's id; the same as its bot's, as for every application made since 2017."""
        return self.bot.id

    def add_user(self, name: str, *, bot: bool = False) -> User:
        """A new account."""
        row = User(self.ids.next(), name, bot)
        self.users[row.id] = row
        return row

    def emit(
        self, event: str, make: Callable[[bool], Json] | Json, *, channel: Channel | None = None, intent: Intent = Intent.NONE
    ) -> None:
        """Hand an event to the gateway, if there is one."""
        if self.emitter is not None:
            build = make if callable(make) else lambda _: make
            self.emitter.emit(event, build, channel=channel, intent=intent)

    def emit_message(self, event: str, row: Message) -> None:
        """MESSAGE_CREATE (with the nonce) or MESSAGE_UPDATE; ephemeral ones travel as if they were direct messages."""
        direct = row.channel.guild is None or row.ephemeral

        def make(sees_content: bool) -> Json:  # noqa: FBT001  # the one argument of every event builder
            data = payloads.message_event(row, viewer_id=self.bot.id, sees_content=sees_content)
            if event == "MESSAGE_CREATE" and row.nonce is not None:
                data["nonce"] = row.nonce
            return data

        intent = Intent.DIRECT_MESSAGES if direct else Intent.GUILD_MESSAGES
        self.emit(event, make, channel=None if row.ephemeral else row.channel, intent=intent)

    def channel(self, channel_id: int) -> Channel:
        """The channel, thread or DM with this id; raises 10003."""
        try:
            return self.channels[channel_id]
        except KeyError:
            raise ApiError(Code.UNKNOWN_CHANNEL) from None

    def guild(self, guild_id: int) -> Guild:
        """The guild with this id; raises 10004."""
        try:
            return self.guilds[guild_id]
        except KeyError:
            raise ApiError(Code.UNKNOWN_GUILD) from None

    def message(self, channel: Channel, message_id: int) -> Message:
        """A message that is in the channel's history; raises 10008, for ephemeral ones too."""
        row = channel.messages.get(message_id)
        if row is None:
            raise ApiError(Code.UNKNOWN_MESSAGE)
        return row

    def guild_rights(self, member: Member) -> Permission:
        """What a member may do before any channel's overwrites."""
        if member.guild.owner_id == member.id:
            return ALL
        rights = member.guild.everyone.permissions
        for role in member.roles:
            rights |= role.permissions
        return ALL if rights & Permission.ADMINISTRATOR else rights

    def rights(self, user_id: int, channel: Channel) -> Permission:
        """What a user may do in a channel; nothing when he is not in its guild or may not view it."""
        if channel.guild is None:
            return DIRECT if any(one.id == user_id for one in channel.recipients) else Permission.NONE
        member = channel.guild.members.get(user_id)
        if member is None:
            return Permission.NONE
        overwrites = (channel.parent or channel).overwrites

        def pair(target_id: int) -> tuple[Permission, Permission]:
            found = overwrites.get(target_id)
            return (found.allow, found.deny) if found else (Permission.NONE, Permission.NONE)

        rights = combine(
            guild_level=self.guild_rights(member),
            everyone=pair(channel.guild.id),
            roles=[pair(role.id) for role in member.roles],
            member=pair(user_id),
        )
        hidden = channel.type is ChannelType.PRIVATE_THREAD and channel.thread is not None and user_id not in channel.thread.member_ids
        if hidden and not rights & Permission.MANAGE_THREADS:
            return Permission.NONE
        return rights

    def require(self, user_id: int, channel: Channel, *needed: Permission) -> Permission:
        """The rights, after 50001 without access and 50013 without one of ``needed``."""
        rights = self.rights(user_id, channel)
        if not rights & Permission.VIEW_CHANNEL:
            raise ApiError(Code.MISSING_ACCESS)
        for one in needed:
            if not rights & one:
                raise ApiError(Code.MISSING_PERMISSIONS)
        return rights

    def direct_channel(self, one: User, other: User) -> Channel:
        """The DM of two users, made when there is none."""
        for channel in self.channels.values():
            if channel.type is ChannelType.DM and {user.id for user in channel.recipients} == {one.id, other.id}:
                return channel
        channel = Channel(self.ids.next(), ChannelType.DM, "", recipients=[one, other])
        self.channels[channel.id] = channel
        return channel

    def create_guild_event(self, guild: Guild, *, with_members: bool = False) -> Json:
        """GUILD_CREATE as the bot gets it: channels it may view, active threads, its own member.

        All members come with it only to a session with the presence intent; others ask for them.
        """
        visible = [one for one in guild.channels.values() if self.rights(self.bot.id, one) & Permission.VIEW_CHANNEL]
        return payloads.guild(
            guild,
            channels=[one for one in visible if one.thread is None],
            threads=[one for one in visible if one.thread is not None and not one.thread.archived],
            members=list(guild.members.values()) if with_members else [guild.members[self.bot.id]],
        )
