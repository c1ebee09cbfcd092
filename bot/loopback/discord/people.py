"""How tests and the demo act as people: they set the stage, talk, press buttons, and see what a person would see."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from . import payloads, places
from .config import Intent
from .errors import ApiError, Code, Json
from .interactions import Interaction
from .invoking import Invoker, OptionValue
from .log import Predicate, Record
from .messages import Messages, Upload, Via
from .model import Channel, ChannelType, Guild, Member, Message, MessageType, Overwrite, Role, User
from .permissions import EVERYDAY, Permission
from .world import World

Actor = User | Member


def _user(actor: Actor) -> User:
    return actor.user if isinstance(actor, Member) else actor


class People:
    """Everything that is not the bot. Acts are refused with the same :class:`ApiError` that the bot would meet.

    What a client would not even offer (an unsynced command, a disabled button) raises
    :class:`commands.CannotInvokeError`.
    """

    def __init__(self, world: World, messages: Messages, invoker: Invoker) -> None:
        self._world = world
        self._messages = messages
        self._invoker = invoker

    @property
    def bot(self) -> User:
        """The application's own account."""
        return self._world.bot

    # --- the stage -------------------------------------------------------------------------------------------------

    async def create_user(self, name: str, *, bot: bool = False, nitro: bool = False) -> User:
        """A new account; ``bot`` makes somebody else's bot, ``nitro`` lets messages have 4,000 characters."""
        user = self._world.add_user(name, bot=bot)
        user.nitro = nitro
        return user

    async def create_guild(
        self, name: str, *, everyone: Permission = EVERYDAY, with_bot: bool = True, guild_id: int | None = None
    ) -> Guild:
        """A guild with an owner of its own, and the bot in it; ``guild_id`` chooses its id."""
        world = self._world
        owner = world.add_user(f"{name}-owner")
        guild = Guild(guild_id if guild_id is not None else world.ids.next(), name, owner.id)
        guild.add_everyone(everyone)
        world.guilds[guild.id] = guild
        guild.members[owner.id] = Member(guild, owner, [], world.clock.now_ms())
        if with_bot:
            await self.add_bot(guild)
        return guild

    async def add_bot(self, guild: Guild) -> Member:
        """Invite the bot: GUILD_CREATE."""
        world = self._world
        member = guild.members[world.bot.id] = Member(guild, world.bot, [], world.clock.now_ms())
        world.emit("GUILD_CREATE", world.create_guild_event(guild), intent=Intent.GUILDS)
        return member

    async def kick_bot(self, guild: Guild) -> None:
        """Remove the bot: GUILD_DELETE; its requests there meet 50001 from now on."""
        guild.members.pop(self._world.bot.id, None)
        self._world.emit("GUILD_DELETE", {"id": str(guild.id)}, intent=Intent.GUILDS)

    async def create_role(
        self, guild: Guild, name: str, permissions: Permission = Permission.NONE, *, mentionable: bool = False, role_id: int | None = None
    ) -> Role:
        """A role."""
        identifier = role_id if role_id is not None else self._world.ids.next()
        role = Role(identifier, guild.id, name, permissions, mentionable, position=len(guild.roles))
        guild.roles[role.id] = role
        self._world.emit("GUILD_ROLE_CREATE", {"guild_id": str(guild.id), "role": payloads.role(role)}, intent=Intent.GUILDS)
        return role

    async def join(self, guild: Guild, user: User | str, *, roles: Sequence[Role] = ()) -> Member:
        """Let somebody join; a name makes the account."""
        world = self._world
        account = world.add_user(user) if isinstance(user, str) else user
        member = guild.members[account.id] = Member(guild, account, list(roles), world.clock.now_ms())
        world.emit("GUILD_MEMBER_ADD", payloads.member(member) | {"guild_id": str(guild.id)}, intent=Intent.GUILD_MEMBERS)
        return member

    async def leave(self, member: Member) -> None:
        """Let somebody leave."""
        member.guild.members.pop(member.id, None)
        data = {"guild_id": str(member.guild.id), "user": payloads.user(member.user)}
        self._world.emit("GUILD_MEMBER_REMOVE", data, intent=Intent.GUILD_MEMBERS)

    async def set_roles(self, member: Member, roles: Sequence[Role]) -> None:
        """Replace somebody's roles."""
        member.roles = list(roles)
        data = payloads.member(member) | {"guild_id": str(member.guild.id)}
        # The bot hears of its own changes without the intent for members.
        intent = Intent.NONE if member.id == self._world.bot.id else Intent.GUILD_MEMBERS
        self._world.emit("GUILD_MEMBER_UPDATE", data, intent=intent)

    async def create_channel(self, guild: Guild, name: str, *, topic: str | None = None, channel_id: int | None = None) -> Channel:
        """A text channel."""
        identifier = channel_id if channel_id is not None else self._world.ids.next()
        channel = Channel(identifier, ChannelType.TEXT, name, guild, topic=topic, position=len(guild.channels))
        guild.channels[channel.id] = self._world.channels[channel.id] = channel
        self._world.emit("CHANNEL_CREATE", payloads.channel(channel), channel=channel, intent=Intent.GUILDS)
        return channel

    async def set_overwrite(
        self, channel: Channel, target: Actor | Role, *, allow: Permission = Permission.NONE, deny: Permission = Permission.NONE
    ) -> None:
        """Give or take permissions in one channel; replaces what was set for this target."""
        could_view = self._world.rights(self._world.bot.id, channel) & Permission.VIEW_CHANNEL
        channel.overwrites[target.id] = Overwrite(target.id, not isinstance(target, Role), allow, deny)
        can_view = self._world.rights(self._world.bot.id, channel) & Permission.VIEW_CHANNEL
        if could_view and not can_view:
            self._world.emit("CHANNEL_DELETE", payloads.channel(channel), intent=Intent.GUILDS)
        else:
            event = "CHANNEL_UPDATE" if could_view else "CHANNEL_CREATE"
            self._world.emit(event, payloads.channel(channel), channel=channel, intent=Intent.GUILDS)

    async def change_channel(self, actor: Actor, channel: Channel, **changes: str | bool | int | None) -> Channel:
        """PATCH a channel or thread: name, topic, archived, locked, auto_archive_duration."""
        return places.modify(self._world, _user(actor), channel, dict(changes))

    async def delete_channel(self, actor: Actor, channel: Channel) -> None:
        """Delete a channel or thread."""
        places.delete(self._world, _user(actor), channel)

    async def create_thread(
        self, channel: Channel, actor: Actor, name: str, *, on: Message | None = None, private: bool = False
    ) -> Channel:
        """A thread in a channel, on a message if ``on`` is given."""
        kind = ChannelType.PRIVATE_THREAD if private else ChannelType.PUBLIC_THREAD
        return places.open_thread(self._world, _user(actor), channel, {"name": name, "type": int(kind)}, start=on)

    async def add_to_thread(self, thread: Channel, actor: Actor) -> None:
        """Make somebody, for example the bot, a member of a thread; the bot then gets THREAD_CREATE."""
        if thread.thread is None:
            raise ApiError(Code.WRONG_CHANNEL_TYPE)
        thread.thread.member_ids.add(actor.id)
        if actor.id == self._world.bot.id:
            data = payloads.channel(thread) | {"member": payloads.thread_member(thread, actor.id)}
            self._world.emit("THREAD_CREATE", data, channel=thread, intent=Intent.GUILDS)

    # --- talking ---------------------------------------------------------------------------------------------------

    async def say(
        self,
        channel: Channel,
        actor: Actor,
        text: str = "",
        *,
        reply_to: Message | None = None,
        attachments: Mapping[str, bytes | str] | None = None,
        ping_reply: bool = True,
        silent: bool = False,
        body: Json | None = None,
    ) -> Message:
        """Write a message; ``<@id>`` mentions. ``body`` adds raw fields of the API."""
        fields: Json = {"content": text, **(body or {})}
        if silent:
            fields["flags"] = 1 << 12
        if reply_to is not None:
            fields["message_reference"] = {"message_id": str(reply_to.id)}
            if not ping_reply:
                fields["allowed_mentions"] = {"parse": ["users", "roles", "everyone"], "replied_user": False}
        files = tuple(
            Upload(name, content.encode() if isinstance(content, str) else content, _kind_of(name))
            for name, content in (attachments or {}).items()
        )
        return self._messages.post(_user(actor), channel, fields, files=files)

    async def direct(self, user: User, text: str = "", *, attachments: Mapping[str, bytes | str] | None = None) -> Message:
        """Write to the bot in a direct message."""
        return await self.say(self.direct_channel(user), user, text, attachments=attachments)

    def direct_channel(self, user: User) -> Channel:
        """The DM of somebody and the bot."""
        return self._world.direct_channel(self._world.bot, user)

    async def webhook_say(self, channel: Channel, name: str, text: str) -> Message:
        """A message from a webhook: its author is no account, ``webhook_id`` is set."""
        hook = User(self._world.ids.next(), name, bot=True)
        return self._messages.post(hook, channel, {"content": text}, via=Via(webhook_id=hook.id))

    async def system_message(self, channel: Channel, actor: Actor) -> Message:
        """Discord's own "somebody has joined", in somebody's name and without text."""
        row = Message(self._world.ids.next(), channel, _user(actor), "", self._world.clock.now_ms(), type=MessageType.MEMBER_JOIN)
        channel.messages[row.id] = row
        self._world.emit_message("MESSAGE_CREATE", row)
        return row

    async def edit(self, message: Message, text: str) -> Message:
        """Edit a message as its author."""
        return self._messages.edit(message.author, message, {"content": text})

    async def unfurl(self, message: Message, title: str) -> None:
        """Let Discord add a link's preview: an update that is no edit."""
        self._messages.unfurl(message, {"type": "link", "title": title, "url": "https://example.com"})

    async def delete(self, message: Message, *, by: Actor | None = None) -> None:
        """Delete a message as its author, or as somebody else."""
        self._messages.delete(message.author if by is None else _user(by), message)

    async def react(self, message: Message, actor: Actor, emoji: str) -> None:
        """Add a reaction."""
        self._messages.react(_user(actor), message, emoji)

    async def unreact(self, message: Message, actor: Actor, emoji: str) -> None:
        """Remove one's reaction."""
        self._messages.unreact(_user(actor), message, emoji)

    async def type_in(self, channel: Channel, actor: Actor) -> None:
        """Start typing."""
        self._messages.typing(_user(actor), channel)

    # --- commands and components -----------------------------------------------------------------------------------

    async def slash(self, channel: Channel, actor: Actor, path: str, options: Mapping[str, OptionValue] | None = None) -> Interaction:
        """Run a slash command, for example ``"continuations list"``. Await the handle's ``answer()``.

        ``default_member_permissions`` is only a hint to clients and is not enforced: admins can change it.
        """
        return self._invoker.command(_user(actor), channel, path, options or {})

    async def autocomplete(
        self,
        channel: Channel,
        actor: Actor,
        path: str,
        option: str,
        typed: str,
        options: Mapping[str, OptionValue] | None = None,
        *,
        timeout_s: float = 10.0,
    ) -> list[Json]:
        """Type into an option and see the choices, each with ``name`` and ``value``."""
        row = self._invoker.complete(_user(actor), channel, path, {**(options or {}), option: typed}, option)
        await row.acknowledged(timeout_s=timeout_s)
        return row.choices or []

    async def click(self, message: Message, actor: Actor, custom_id_or_label: str) -> Interaction:
        """Press a button."""
        return self._invoker.click(_user(actor), message, custom_id_or_label)

    async def select(self, message: Message, actor: Actor, custom_id: str, values: Sequence[str]) -> Interaction:
        """Choose in a select menu."""
        return self._invoker.select(_user(actor), message, custom_id, values)

    async def submit_modal(self, opener: Interaction, values: Mapping[str, str | Sequence[str]]) -> Interaction:
        """Fill in and send the modal that an interaction opened."""
        await opener.opened_modal()
        return self._invoker.submit(opener.user, opener, values)

    # --- looking ---------------------------------------------------------------------------------------------------

    def messages(self, channel: Channel) -> list[Message]:
        """What is in a channel now, oldest first, without ephemeral messages."""
        return [channel.messages[one] for one in sorted(channel.messages)]

    def texts(self, channel: Channel, *, by: Actor | None = None) -> list[str]:
        """The texts in a channel, oldest first, of one author if ``by`` is given."""
        return [one.content for one in self.messages(channel) if by is None or one.author.id == by.id]

    async def wait_for(self, predicate: Predicate, *, since: int = 0, timeout_s: float = 10.0) -> Record:
        """Wait for something in the log, see :meth:`log.EventLog.wait_for`."""
        return await self._world.log.wait_for(predicate, since=since, timeout_s=timeout_s)

    async def wait_message(
        self,
        channel: Channel,
        where: Callable[[Message], bool] = lambda _: True,
        *,
        by: Actor | None = None,
        after: Message | None = None,
        timeout_s: float = 10.0,
    ) -> Message:
        """Wait for a message in a channel, by default one of the bot; edits count, so ``where`` may watch a text grow."""
        author_id = self._world.bot.id if by is None else by.id

        def found() -> Message | None:
            for one in self.messages(channel):
                if one.author.id == author_id and (after is None or one.id > after.id) and where(one):
                    return one
            return None

        if (now := found()) is not None:
            return now
        await self._world.log.wait_for(lambda _: found() is not None, timeout_s=timeout_s)
        later = found()
        if later is None:
            raise ApiError(Code.UNKNOWN_MESSAGE)
        return later


def _kind_of(filename: str) -> str:
    suffixes = {"txt": "text/plain; charset=utf-8", "md": "text/markdown", "png": "image/png", "json": "application/json"}
    return suffixes.get(filename.rpartition(".")[2], "application/octet-stream")
