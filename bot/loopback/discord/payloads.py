"""How the rows of the model look on the wire: the JSON objects of REST answers and gateway events."""

from __future__ import annotations

import copy

from .errors import Json
from .model import Attachment, Channel, ChannelType, Guild, Member, Message, MessageType, Role, User
from .permissions import Permission
from .timing import iso, snowflake_ms


def user(row: User) -> Json:
    """A user object."""
    return {
        "id": str(row.id),
        "username": row.name,
        "discriminator": "0",
        "global_name": None,
        "avatar": None,
        "bot": row.bot,
        "public_flags": 0,
    }


def member(row: Member, *, with_user: bool = True, permissions: Permission | None = None) -> Json:
    """A guild member; message events carry it without its user, interactions with its permissions."""
    data: Json = {
        "nick": row.nick,
        "avatar": None,
        "roles": [str(role.id) for role in row.roles],
        "joined_at": iso(row.joined_ms),
        "premium_since": None,
        "deaf": False,
        "mute": False,
        "pending": False,
        "flags": 0,
        "communication_disabled_until": None,
    }
    if with_user:
        data["user"] = user(row.user)
    if permissions is not None:
        data["permissions"] = str(int(permissions))
    return data


def role(row: Role) -> Json:
    """A role."""
    return {
        "id": str(row.id),
        "name": row.name,
        "color": 0,
        "colors": {"primary_color": 0, "secondary_color": None, "tertiary_color": None},
        "hoist": False,
        "icon": None,
        "unicode_emoji": None,
        "position": row.position,
        "permissions": str(int(row.permissions)),
        "managed": False,
        "mentionable": row.mentionable,
        "flags": 0,
    }


def channel(row: Channel) -> Json:
    """A channel, thread or DM."""
    if row.type is ChannelType.DM:
        return {
            "id": str(row.id),
            "type": int(row.type),
            "last_message_id": _id(row.last_message_id),
            "flags": 0,
            "recipients": [user(one) for one in row.recipients if not one.bot],
        }
    data: Json = {
        "id": str(row.id),
        "type": int(row.type),
        "guild_id": str(row.guild.id) if row.guild else None,
        "name": row.name,
        "parent_id": str(row.parent.id) if row.parent else None,
        "last_message_id": _id(row.last_message_id),
        "rate_limit_per_user": 0,
        "flags": 0,
    }
    if row.thread is None:
        data |= {"topic": row.topic, "position": row.position, "nsfw": False}
        data["permission_overwrites"] = [
            {"id": str(one.target_id), "type": int(one.is_member), "allow": str(int(one.allow)), "deny": str(int(one.deny))}
            for one in row.overwrites.values()
        ]
        return data
    state = row.thread
    data |= {
        "owner_id": str(state.owner_id),
        "message_count": len(row.messages),
        "total_message_sent": state.total_sent,
        "member_count": min(len(state.member_ids), 50),
        "thread_metadata": {
            "archived": state.archived,
            "locked": state.locked,
            "auto_archive_duration": state.auto_archive_minutes,
            "archive_timestamp": iso(state.changed_ms),
            "create_timestamp": iso(snowflake_ms(row.id)),
        },
    }
    if row.type is ChannelType.PRIVATE_THREAD:
        data["thread_metadata"]["invitable"] = True
    return data


def thread_member(thread: Channel, user_id: int) -> Json:
    """Somebody's membership of a thread."""
    joined = iso(snowflake_ms(thread.id))
    return {"id": str(thread.id), "user_id": str(user_id), "join_timestamp": joined, "flags": 0}


def guild(row: Guild, *, channels: list[Channel], threads: list[Channel], members: list[Member]) -> Json:
    """GUILD_CREATE with those channels, threads and members that the receiver may see."""
    return guild_summary(row) | {
        "joined_at": iso(snowflake_ms(row.id)),
        "large": False,
        "unavailable": False,
        "member_count": len(row.members),
        "members": [member(one) for one in members],
        "channels": [channel(one) for one in channels],
        "threads": [channel(one) for one in threads],
        "presences": [],
        "voice_states": [],
        "stage_instances": [],
        "guild_scheduled_events": [],
        "soundboard_sounds": [],
    }


def guild_summary(row: Guild) -> Json:
    """A guild as GET /guilds/{id} gives it."""
    return {
        "id": str(row.id),
        "name": row.name,
        "icon": None,
        "splash": None,
        "discovery_splash": None,
        "banner": None,
        "description": None,
        "owner_id": str(row.owner_id),
        "afk_channel_id": None,
        "afk_timeout": 300,
        "verification_level": 0,
        "default_message_notifications": 0,
        "explicit_content_filter": 0,
        "roles": [role(one) for one in row.roles.values()],
        "emojis": [],
        "stickers": [],
        "features": [],
        "mfa_level": 0,
        "application_id": None,
        "system_channel_id": None,
        "system_channel_flags": 0,
        "rules_channel_id": None,
        "public_updates_channel_id": None,
        "safety_alerts_channel_id": None,
        "vanity_url_code": None,
        "premium_tier": 0,
        "premium_subscription_count": 0,
        "premium_progress_bar_enabled": False,
        "preferred_locale": "en-US",
        "nsfw": False,
        "nsfw_level": 0,
        "max_members": 500000,
    }


def attachment(row: Attachment) -> Json:
    """A file of a message."""
    return {
        "id": str(row.id),
        "filename": row.filename,
        "size": len(row.content),
        "url": row.url,
        "proxy_url": row.url,
        "content_type": row.content_type,
    }


def emoji(name: str) -> Json:
    """A unicode emoji, or a custom one written ``name:id``."""
    label, _, identifier = name.partition(":")
    return {"id": identifier or None, "name": label}


def _id(value: int | None) -> str | None:
    return None if value is None else str(value)


def message(row: Message, *, viewer_id: int, sees_content: bool, nested: bool = False) -> Json:
    """A message as ``viewer_id`` gets it, without the nonce.

    Without the message-content intent (``sees_content`` false) text, embeds, attachments and components are empty,
    except in DMs, in the viewer's own messages and in those that mention the viewer.
    """
    guild_row = row.channel.guild
    open_to_viewer = sees_content or guild_row is None or row.author.id == viewer_id or viewer_id in row.pings.users
    people = guild_row.members if guild_row else {}
    data: Json = {
        "id": str(row.id),
        "channel_id": str(row.channel.id),
        "author": user(row.author),
        "content": row.content if open_to_viewer else "",
        "timestamp": iso(row.created_ms),
        "edited_timestamp": None if row.edited_ms is None else iso(row.edited_ms),
        "tts": False,
        "mention_everyone": row.pings.everyone,
        "mentions": [user(people[one].user) for one in sorted(row.pings.users) if one in people]
        + [user(one) for one in row.channel.recipients if one.id in row.pings.users],
        "mention_roles": [str(one) for one in sorted(row.pings.roles)],
        "attachments": [attachment(one) for one in row.attachments] if open_to_viewer else [],
        "embeds": copy.deepcopy(row.embeds) if open_to_viewer else [],
        "components": copy.deepcopy(row.components) if open_to_viewer else [],
        "pinned": False,
        "type": int(row.type),
        "flags": int(row.flags),
    }
    if row.reactions:
        data["reactions"] = [_reaction(name, users, viewer_id) for name, users in row.reactions.items()]
    if row.webhook_id is not None:
        data["webhook_id"] = str(row.webhook_id)
    if row.thread is not None:
        data["thread"] = channel(row.thread)
    if row.origin is not None:
        data |= _origin(row)
    if row.reply_to is not None:
        data["message_reference"] = {"type": 0, "channel_id": str(row.channel.id), "message_id": str(row.reply_to)}
        if guild_row is not None:
            data["message_reference"]["guild_id"] = str(guild_row.id)
        if not nested and row.type is MessageType.REPLY:
            target = row.channel.messages.get(row.reply_to)
            data["referenced_message"] = (
                None if target is None else message(target, viewer_id=viewer_id, sees_content=sees_content, nested=True)
            )
    return data


def _reaction(name: str, users: list[int], viewer_id: int) -> Json:
    return {
        "emoji": emoji(name),
        "count": len(users),
        "count_details": {"normal": len(users), "burst": 0},
        "me": viewer_id in users,
        "me_burst": False,
        "burst_colors": [],
    }


def _origin(row: Message) -> Json:
    origin = row.origin
    if origin is None:
        return {}
    metadata: Json = {
        "id": str(origin.interaction_id),
        "type": origin.type,
        "user": user(origin.user),
        "authorizing_integration_owners": {},
    }
    if origin.type == 3 and row.reply_to is not None:  # noqa: PLR2004  # a component of that message was used
        metadata["interacted_message_id"] = str(row.reply_to)
    data: Json = {"interaction_metadata": metadata, "application_id": str(row.author.id), "webhook_id": str(row.author.id)}
    if origin.type == 2:  # noqa: PLR2004  # an application command
        data["interaction"] = {"id": str(origin.interaction_id), "type": 2, "name": origin.name, "user": user(origin.user)}
    return data


def message_event(row: Message, *, viewer_id: int, sees_content: bool) -> Json:
    """MESSAGE_CREATE and MESSAGE_UPDATE: with guild and member, and, for ephemeral ones, without.

    Discord sends the bot's ephemeral messages as if they were direct messages (discord-api-docs#4557).
    """
    data = message(row, viewer_id=viewer_id, sees_content=sees_content)
    guild_row = row.channel.guild
    if guild_row is not None and not row.ephemeral:
        data["guild_id"] = str(guild_row.id)
        author = guild_row.members.get(row.author.id)
        if author is not None and row.webhook_id is None:
            data["member"] = member(author, with_user=False)
        for mention in data["mentions"]:
            mention["member"] = member(guild_row.members[int(mention["id"])], with_user=False)
    return data
