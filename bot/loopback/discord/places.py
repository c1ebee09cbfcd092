"""What can be done with channels and threads: open, change, archive, delete, and whether one may post in them."""

from __future__ import annotations

from . import payloads
from .config import Intent
from .errors import ApiError, Code, Json, bad_length, invalid_form
from .model import Channel, ChannelType, Message, MessageFlag, MessageType, ThreadState, User
from .permissions import Permission
from .world import World

NAME_MAX = 100
ARCHIVE_MINUTES = frozenset({60, 1440, 4320, 10080})


def refuse_archived(channel: Channel) -> None:
    """50083 for anything but posting in an archived thread."""
    if channel.thread is not None and channel.thread.archived:
        raise ApiError(Code.THREAD_ARCHIVED)


def open_for_posting(world: World, author: User, channel: Channel) -> None:
    """Let a post reopen an archived thread; a locked one only for those who manage threads."""
    state = channel.thread
    if state is None or not (state.archived or state.locked):
        return
    if state.locked and not world.rights(author.id, channel) & Permission.MANAGE_THREADS:
        raise ApiError(Code.THREAD_ARCHIVED if state.archived else Code.THREAD_LOCKED)
    if state.archived:
        state.archived = False
        state.changed_ms = world.clock.now_ms()
        _changed(world, channel)


def _changed(world: World, channel: Channel) -> None:
    if channel.thread is None:
        world.emit("CHANNEL_UPDATE", payloads.channel(channel), channel=channel, intent=Intent.GUILDS)
        return
    world.log.append(
        "thread.update",
        guild_id=channel.guild.id if channel.guild else None,
        channel_id=channel.id,
        text=channel.name,
        detail={"archived": channel.thread.archived, "locked": channel.thread.locked},
    )
    world.emit("THREAD_UPDATE", payloads.channel(channel), channel=channel, intent=Intent.GUILDS)


def _checked_name(name: object) -> str:
    if not isinstance(name, str) or not 1 <= len(name.strip()) <= NAME_MAX:
        raise bad_length("name", 1, NAME_MAX)
    return name.strip()


def _checked_minutes(minutes: object) -> int:
    if minutes is None:
        return 1440
    if minutes not in ARCHIVE_MINUTES or not isinstance(minutes, int):
        raise invalid_form("auto_archive_duration", "BASE_TYPE_CHOICES", "Value must be one of {60, 1440, 4320, 10080}.")
    return minutes


def open_thread(world: World, actor: User, parent: Channel, body: Json, *, start: Message | None = None) -> Channel:
    """Open a thread in a channel, on the message ``start`` if given; its id is then the message's."""
    if parent.type is not ChannelType.TEXT or parent.guild is None:
        raise ApiError(Code.WRONG_CHANNEL_TYPE)
    private = start is None and int(body.get("type") or ChannelType.PRIVATE_THREAD) == ChannelType.PRIVATE_THREAD
    world.require(actor.id, parent, Permission.CREATE_PRIVATE_THREADS if private else Permission.CREATE_PUBLIC_THREADS)
    name = _checked_name(body.get("name"))
    minutes = _checked_minutes(body.get("auto_archive_duration"))
    if start is not None and start.thread is not None:
        raise ApiError(Code.THREAD_EXISTS)
    state = ThreadState(owner_id=actor.id, auto_archive_minutes=minutes, changed_ms=world.clock.now_ms(), member_ids={actor.id})
    thread = Channel(
        id=world.ids.next() if start is None else start.id,
        type=ChannelType.PRIVATE_THREAD if private else ChannelType.PUBLIC_THREAD,
        name=name,
        guild=parent.guild,
        parent=parent,
        thread=state,
    )
    world.channels[thread.id] = thread
    parent.guild.channels[thread.id] = thread
    world.log.append(
        "thread.create",
        guild_id=parent.guild.id,
        channel_id=thread.id,
        author_id=actor.id,
        author=actor.name,
        bot=actor.bot,
        text=name,
        detail={"parent_id": parent.id},
    )
    data = payloads.channel(thread) | {"newly_created": True}
    if actor.id == world.bot.id:
        data["member"] = payloads.thread_member(thread, actor.id)
    world.emit("THREAD_CREATE", data, channel=thread, intent=Intent.GUILDS)
    if start is not None:
        start.thread = thread
        start.flags |= MessageFlag.HAS_THREAD
        world.emit_message("MESSAGE_UPDATE", start)
    elif not private:
        _announce(world, actor, parent, thread)
    return thread


def _announce(world: World, actor: User, parent: Channel, thread: Channel) -> None:
    row = Message(
        id=world.ids.next(),
        channel=parent,
        author=actor,
        content=thread.name,
        created_ms=world.clock.now_ms(),
        type=MessageType.THREAD_CREATED,
        thread=thread,
    )
    parent.messages[row.id] = row
    world.emit_message("MESSAGE_CREATE", row)


def modify(world: World, actor: User, channel: Channel, body: Json) -> Channel:
    """PATCH a channel or thread: name, topic, archived, locked, auto_archive_duration."""
    state = channel.thread
    if state is None:
        if channel.guild is None:
            raise ApiError(Code.WRONG_CHANNEL_TYPE)
        world.require(actor.id, channel, Permission.MANAGE_CHANNELS)
    else:
        _check_thread_change(world, actor, channel, state, body)
    if "name" in body:
        channel.name = _checked_name(body["name"])
    if "topic" in body and state is None:
        channel.topic = body["topic"]
    if state is not None:
        if "auto_archive_duration" in body:
            state.auto_archive_minutes = _checked_minutes(body["auto_archive_duration"])
        state.locked = bool(body.get("locked", state.locked))
        archived = bool(body.get("archived", state.archived))
        if archived != state.archived:
            state.archived = archived
            state.changed_ms = world.clock.now_ms()
    _changed(world, channel)
    return channel


def _check_thread_change(world: World, actor: User, channel: Channel, state: ThreadState, body: Json) -> None:
    rights = world.require(actor.id, channel)
    manages = bool(rights & Permission.MANAGE_THREADS)
    reopens = body.get("archived") is False
    if state.archived and not reopens:
        raise ApiError(Code.THREAD_ARCHIVED)
    if manages:
        return
    if "locked" in body and bool(body["locked"]) != state.locked:
        raise ApiError(Code.MISSING_PERMISSIONS)
    if state.locked:
        raise ApiError(Code.MISSING_PERMISSIONS)
    only_reopens = reopens and set(body) <= {"archived"}
    if actor.id != state.owner_id and not (only_reopens and rights & Permission.SEND_MESSAGES_IN_THREADS):
        raise ApiError(Code.MISSING_PERMISSIONS)


def delete(world: World, actor: User, channel: Channel) -> None:
    """Delete a channel with its threads, or a thread."""
    if channel.guild is None:
        raise ApiError(Code.WRONG_CHANNEL_TYPE)
    world.require(actor.id, channel, Permission.MANAGE_THREADS if channel.thread else Permission.MANAGE_CHANNELS)
    event = "THREAD_DELETE" if channel.thread else "CHANNEL_DELETE"
    data = payloads.channel(channel)
    # Emitted while the channel is still there: who may see it decides who is told.
    world.emit(event, data, channel=channel, intent=Intent.GUILDS)
    gone = [channel, *(one for one in channel.guild.channels.values() if one.parent is channel)]
    for one in gone:
        world.channels.pop(one.id, None)
        channel.guild.channels.pop(one.id, None)
    world.log.append(
        "channel.delete", guild_id=channel.guild.id, channel_id=channel.id, author_id=actor.id, author=actor.name, bot=actor.bot
    )
