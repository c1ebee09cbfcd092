"""What can be done with messages, by the bot and by people alike: post, edit, delete, react, type."""

from __future__ import annotations

from dataclasses import dataclass

from . import payloads
from .components import number
from .config import Intent
from .errors import ApiError, Code, Json, invalid_form
from .limits import CONTENT_MAX, NITRO_CONTENT_MAX, SETTABLE_FLAGS, check_message
from .mentions import pings_of
from .model import Attachment, Channel, ChannelType, Message, MessageFlag, MessageType, Origin, User
from .permissions import Permission
from .places import open_for_posting, refuse_archived
from .world import World

REACTIONS_MAX = 20


@dataclass(slots=True, frozen=True)
class Upload:
    """A file that came with a request."""

    filename: str
    content: bytes
    content_type: str = "application/octet-stream"


@dataclass(slots=True, frozen=True)
class Via:
    """How a message comes in other than by its author posting it: an interaction's answer or a webhook."""

    origin: Origin | None = None
    ephemeral_for: int | None = None
    webhook_id: int | None = None
    type: MessageType | None = None
    flags: MessageFlag = MessageFlag.NONE


PLAIN = Via()


class Messages:
    """The verbs. Each checks rights and limits, changes the world, logs and emits; or raises :class:`ApiError`."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._nonces: dict[tuple[int, int, str], tuple[Message, float]] = {}

    def post(self, author: User, channel: Channel, body: Json, *, files: tuple[Upload, ...] = (), via: Via = PLAIN) -> Message:
        """Post a message, or return the earlier one that an enforced nonce names.

        A nonce is remembered for ``nonce_window_s`` for its channel and author; when its message has been deleted since,
        the answer is 10008.
        """
        world = self._world
        by_interaction = via.origin is not None
        if not by_interaction and via.webhook_id is None:
            self._check_rights(author, channel, body, files)
        if via.flags & MessageFlag.LOADING == 0:
            check_message(body, files=len(files), content_max=_content_max(author))
        self._check_sizes(files)
        nonce = None if body.get("nonce") is None or by_interaction else str(body["nonce"])
        if nonce is not None and body.get("enforce_nonce"):
            earlier = self._earlier(channel, author, nonce)
            if earlier is not None:
                return earlier
        reply_to, replied_author = self._reply(body, channel)
        open_for_posting(world, author, channel)
        text = (body.get("content") or "").strip()
        row = Message(
            id=world.ids.next(),
            channel=channel,
            author=author,
            content=text,
            created_ms=world.clock.now_ms(),
            type=via.type if via.type is not None else MessageType.DEFAULT if reply_to is None else MessageType.REPLY,
            flags=(MessageFlag(int(body.get("flags") or 0)) & SETTABLE_FLAGS) | via.flags,
            embeds=[{"type": "rich", **embed} for embed in body.get("embeds") or []],
            components=number(body.get("components") or []),
            attachments=[self._attach(channel, one) for one in files],
            reply_to=reply_to,
            nonce=nonce,
            pings=pings_of(
                text,
                allowed=body.get("allowed_mentions"),
                guild=channel.guild,
                rights=world.rights(author.id, channel),
                replied_to=replied_author,
            ),
            webhook_id=via.webhook_id,
            origin=via.origin,
            ephemeral_for=via.ephemeral_for,
        )
        if not row.ephemeral:
            channel.messages[row.id] = row
            if channel.thread is not None:
                channel.thread.total_sent += 1
                channel.thread.member_ids.add(author.id)
        if nonce is not None:
            self._nonces[channel.id, author.id, nonce] = (row, world.clock.monotonic_s())
        self._log("message.create", row)
        world.emit_message("MESSAGE_CREATE", row)
        return row

    def edit(self, actor: User, row: Message, body: Json, *, files: tuple[Upload, ...] = (), via_token: bool = False) -> Message:
        """Change a message of the actor's own; only fields that are in ``body`` change."""
        world = self._world
        if not via_token:
            world.require(actor.id, row.channel)
            refuse_archived(row.channel)
        if row.author.id != actor.id or (row.webhook_id is not None and not via_token):
            raise ApiError(Code.OTHER_AUTHOR)
        before: Json = {
            "content": row.content,
            "embeds": row.embeds,
            "components": row.components,
            "attachments": row.attachments,
            "flags": int(row.flags),
        }
        check_message(body, files=len(files), before=before, content_max=_content_max(actor))
        self._check_sizes(files)
        if "content" in body:
            row.content = (body["content"] or "").strip()
        if "embeds" in body:
            row.embeds = [{"type": "rich", **embed} for embed in body["embeds"] or []]
        if "components" in body:
            row.components = number(body["components"] or [])
        if "attachments" in body or files:
            row.attachments = self._kept(row, body) + [self._attach(row.channel, one) for one in files]
        if body.get("flags") is not None:
            row.flags = (row.flags & ~SETTABLE_FLAGS) | (MessageFlag(int(body["flags"])) & SETTABLE_FLAGS)
        row.flags &= ~MessageFlag.LOADING
        row.pings = pings_of(
            row.content,
            allowed=body.get("allowed_mentions"),
            guild=row.channel.guild,
            rights=world.rights(actor.id, row.channel),
            replied_to=None,
        )
        row.edited_ms = world.clock.now_ms()
        self._log("message.edit", row)
        world.emit_message("MESSAGE_UPDATE", row)
        return row

    def unfurl(self, row: Message, embed: Json) -> None:
        """What Discord does when it has fetched a link's preview: MESSAGE_UPDATE without an edit time."""
        row.embeds = [*row.embeds, {"type": "rich", **embed}]
        self._world.emit_message("MESSAGE_UPDATE", row)

    def delete(self, actor: User, row: Message, *, via_token: bool = False) -> None:
        """Remove a message: one's own, or anybody's with MANAGE_MESSAGES."""
        world = self._world
        if not via_token:
            own = row.author.id == actor.id
            world.require(actor.id, row.channel, *(() if own else (Permission.MANAGE_MESSAGES,)))
            refuse_archived(row.channel)
        row.deleted = True
        row.channel.messages.pop(row.id, None)
        world.log.append(
            "message.delete",
            guild_id=row.channel.guild.id if row.channel.guild else None,
            channel_id=row.channel.id,
            message_id=row.id,
            author_id=actor.id,
            author=actor.name,
            bot=actor.bot,
        )
        data = {"id": str(row.id), "channel_id": str(row.channel.id)}
        if row.channel.guild is not None and not row.ephemeral:
            data["guild_id"] = str(row.channel.guild.id)
        intent = Intent.DIRECT_MESSAGES if row.channel.guild is None or row.ephemeral else Intent.GUILD_MESSAGES
        world.emit("MESSAGE_DELETE", data, channel=None if row.ephemeral else row.channel, intent=intent)

    def react(self, actor: User, row: Message, emoji: str) -> None:
        """Add a reaction; a second one of the same user and emoji changes nothing."""
        if emoji.isascii() and ":" not in emoji:
            raise ApiError(Code.UNKNOWN_EMOJI)
        rights = self._world.require(actor.id, row.channel, Permission.READ_MESSAGE_HISTORY)
        refuse_archived(row.channel)
        users = row.reactions.get(emoji)
        if users is None:
            if not rights & Permission.ADD_REACTIONS:
                raise ApiError(Code.MISSING_PERMISSIONS)
            if len(row.reactions) >= REACTIONS_MAX:
                raise ApiError(Code.MAX_REACTIONS)
            users = row.reactions[emoji] = []
        if actor.id not in users:
            users.append(actor.id)
            self._reaction("ADD", actor, row, emoji)

    def unreact(self, actor: User, row: Message, emoji: str, *, of: User | None = None) -> None:
        """Remove one's own reaction, or somebody's (``of``) with MANAGE_MESSAGES."""
        whose = of or actor
        needed = () if whose.id == actor.id else (Permission.MANAGE_MESSAGES,)
        self._world.require(actor.id, row.channel, *needed)
        refuse_archived(row.channel)
        users = row.reactions.get(emoji, [])
        if whose.id not in users:
            return
        users.remove(whose.id)
        if not users:
            del row.reactions[emoji]
        self._reaction("REMOVE", whose, row, emoji)

    def typing(self, actor: User, channel: Channel) -> None:
        """Show that somebody types."""
        world = self._world
        world.require(actor.id, channel, _send_right(channel))
        guild = channel.guild
        world.log.append(
            "typing",
            guild_id=guild.id if guild else None,
            channel_id=channel.id,
            author_id=actor.id,
            author=actor.name,
            bot=actor.bot,
        )
        data: Json = {"channel_id": str(channel.id), "user_id": str(actor.id), "timestamp": world.clock.now_ms() // 1000}
        if guild is not None:
            data |= {"guild_id": str(guild.id), "member": payloads.member(guild.members[actor.id])}
        intent = Intent.DIRECT_MESSAGE_TYPING if guild is None else Intent.GUILD_MESSAGE_TYPING
        world.emit("TYPING_START", data, channel=channel, intent=intent)

    def _check_rights(self, author: User, channel: Channel, body: Json, files: tuple[Upload, ...]) -> None:
        if channel.type is ChannelType.DM:
            others = [one for one in channel.recipients if one.id != author.id]
            if any(not one.accepts_dms for one in others):
                raise ApiError(Code.CANNOT_DM)
        needed = [_send_right(channel)]
        if body.get("embeds"):
            needed.append(Permission.EMBED_LINKS)
        if files:
            needed.append(Permission.ATTACH_FILES)
        rights = self._world.require(author.id, channel, *needed)
        if body.get("message_reference") and not rights & Permission.READ_MESSAGE_HISTORY:
            raise ApiError(Code.NO_REPLY_WITHOUT_HISTORY)

    def _check_sizes(self, files: tuple[Upload, ...]) -> None:
        if sum(len(one.content) for one in files) > self._world.config.max_attachment_bytes:
            raise ApiError(Code.TOO_LARGE)

    def _earlier(self, channel: Channel, author: User, nonce: str) -> Message | None:
        found = self._nonces.get((channel.id, author.id, nonce))
        if found is None or self._world.clock.monotonic_s() - found[1] > self._world.config.nonce_window_s:
            return None
        if found[0].deleted:
            raise ApiError(Code.UNKNOWN_MESSAGE)
        self._log("message.duplicate", found[0])
        return found[0]

    def _reply(self, body: Json, channel: Channel) -> tuple[int | None, int | None]:
        reference = body.get("message_reference")
        if not reference:
            return None, None
        target = channel.messages.get(int(reference["message_id"]))
        if target is None:
            if reference.get("fail_if_not_exists", True):
                raise invalid_form("message_reference", "MESSAGE_REFERENCE_UNKNOWN_MESSAGE", "Unknown message")
            return None, None
        return target.id, target.author.id

    def _kept(self, row: Message, body: Json) -> list[Attachment]:
        if "attachments" not in body:
            return row.attachments
        wanted = {str(one["id"]) for one in body["attachments"] or []}
        return [one for one in row.attachments if str(one.id) in wanted]

    def _attach(self, channel: Channel, upload: Upload) -> Attachment:
        identifier = self._world.ids.next()
        url = f"{self._world.base_url}/attachments/{channel.id}/{identifier}/{upload.filename}"
        return Attachment(identifier, upload.filename, upload.content, upload.content_type, url)

    def _reaction(self, what: str, actor: User, row: Message, emoji: str) -> None:
        guild = row.channel.guild
        self._world.log.append(
            f"reaction.{what.lower()}",
            guild_id=guild.id if guild else None,
            channel_id=row.channel.id,
            message_id=row.id,
            author_id=actor.id,
            author=actor.name,
            bot=actor.bot,
            text=emoji,
        )
        data: Json = {
            "user_id": str(actor.id),
            "channel_id": str(row.channel.id),
            "message_id": str(row.id),
            "emoji": payloads.emoji(emoji),
            "burst": False,
            "type": 0,
        }
        if what == "ADD":
            data["message_author_id"] = str(row.author.id)
        if guild is not None:
            data["guild_id"] = str(guild.id)
            if what == "ADD" and actor.id in guild.members:
                data["member"] = payloads.member(guild.members[actor.id])
        intent = Intent.DIRECT_MESSAGE_REACTIONS if guild is None else Intent.GUILD_MESSAGE_REACTIONS
        self._world.emit(f"MESSAGE_REACTION_{what}", data, channel=row.channel, intent=intent)

    def _log(self, kind: str, row: Message) -> None:
        detail = {
            "type": row.type.name.lower(),
            "pings": {"users": sorted(row.pings.users), "roles": sorted(row.pings.roles), "everyone": row.pings.everyone},
            "silent": row.silent,
            "ephemeral_for": row.ephemeral_for,
            "loading": bool(row.flags & MessageFlag.LOADING),
            "reply_to": row.reply_to,
            "embeds": list(row.embeds),
            "components": len(row.components),
            "files": [one.filename for one in row.attachments],
            "webhook_id": row.webhook_id,
        }
        self._world.log.append(
            kind,
            guild_id=row.channel.guild.id if row.channel.guild else None,
            channel_id=row.channel.id,
            message_id=row.id,
            interaction_id=row.origin.interaction_id if row.origin else None,
            author_id=row.author.id,
            author=row.author.name,
            bot=row.author.bot,
            text=row.content,
            nonce=row.nonce,
            detail={key: value for key, value in detail.items() if value},
        )


def _content_max(author: User) -> int:
    return NITRO_CONTENT_MAX if author.nitro else CONTENT_MAX


def _send_right(channel: Channel) -> Permission:
    return Permission.SEND_MESSAGES if channel.thread is None else Permission.SEND_MESSAGES_IN_THREADS
