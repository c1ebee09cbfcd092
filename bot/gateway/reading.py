"""Turns a Discord message into what intake decides on; pure, and done before the first await."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Literal

import discord

from bot.gateway.access import Caller, caller_of
from bot.runtime.ports import Reply

#: How much of a message that is replied to is handed over.
_QUOTE_LIMIT: Final = 300
_NAME_LIMIT: Final = 120
_FILES_SHOWN: Final = 10
#: Only these are things that people say; all others are Discord's own lines (pins, boosts, joins, renames).
_SPOKEN: Final = frozenset({discord.MessageType.default, discord.MessageType.reply})


@dataclass(frozen=True, slots=True)
class Heard:
    """One message as intake sees it."""

    message_id: int
    channel_id: int
    guild_id: int | None
    #: The channel that a thread belongs to.
    parent_id: int | None
    #: Our own; of a bot, a webhook or Discord itself; or of a person.
    kind: Literal["own", "other", "person"]
    author_id: int
    author_name: str
    #: What the agent gets; empty if nothing was said.
    text: str
    addressed: bool
    #: Names of attached files, for one visible line.
    files: tuple[str, ...] = ()
    reply_to: Reply | None = None
    nonce: str | None = None
    #: The author's rights; None where Discord did not send them along (history).
    caller: Caller | None = None
    edited: bool = False


def read(message: discord.Message, me: int) -> Heard:
    """The message for the bot whose user id is `me`."""
    channel = message.channel
    guild = message.guild
    guild_id = guild.id if guild is not None else getattr(channel, "guild_id", None)
    said = _without_mention(message.content, me)
    files = tuple(_plain(attachment.filename) for attachment in message.attachments)
    mentioned = _mentions(message, me)
    return Heard(
        message_id=message.id,
        channel_id=channel.id,
        guild_id=guild_id,
        parent_id=getattr(channel, "parent_id", None),
        kind=_kind(message, me),
        author_id=message.author.id,
        author_name=message.author.display_name,
        text=_text(message, said, files, mentioned=mentioned),
        addressed=mentioned or guild_id is None or _replies_to(message, me),
        files=files,
        reply_to=_reply(message),
        nonce=str(message.nonce) if message.nonce is not None else None,
        caller=caller_of(message.author) if guild_id is None or isinstance(message.author, discord.Member) else None,
        edited=message.edited_at is not None,
    )


def _kind(message: discord.Message, me: int) -> Literal["own", "other", "person"]:
    if message.author.id == me:
        return "own"
    if message.author.bot or message.webhook_id is not None or message.type not in _SPOKEN:
        return "other"
    return "person"


def _mentions(message: discord.Message, me: int) -> bool:
    """A mention of the bot, or of the role that Discord made for it: people take one for the other."""
    in_text = re.search(rf"<@!?{me}>", message.content) is not None
    own_role = message.guild.self_role if message.guild is not None else None
    return in_text or (own_role is not None and own_role.id in message.raw_role_mentions)


def _replies_to(message: discord.Message, me: int) -> bool:
    replied = message.reference.resolved if message.reference is not None else None
    return message.type is discord.MessageType.reply and isinstance(replied, discord.Message) and replied.author.id == me


def _without_mention(content: str, me: int) -> str:
    """The text without the mention that addresses the bot, at its beginning or end; one in the middle belongs to the sentence."""
    mention = rf"<@!?{me}>"
    return re.sub(rf"\A(?:\s*{mention}[,:]?)+|(?:{mention}\s*)+\Z", "", content).strip()


def _text(message: discord.Message, said: str, files: tuple[str, ...], *, mentioned: bool) -> str:
    """What was said, with neutral words for what is no text, so that nothing that somebody sent is silently dropped."""
    parts = [said] if said else []
    parts += [f"(forwarded message)\n{_quoted(snapshot.content)}" for snapshot in message.message_snapshots if snapshot.content.strip()]
    extra: list[str] = []
    if files:
        shown = ", ".join(f'"{name}"' for name in files[:_FILES_SHOWN])
        more = f" and {len(files) - _FILES_SHOWN} more" if len(files) > _FILES_SHOWN else ""
        extra.append(f"attached, but you cannot read files yet: {shown}{more}")
    extra += [f"a sticker: {_plain(sticker.name)}" for sticker in message.stickers]
    if message.poll is not None:
        extra.append(f"a poll: {_plain(message.poll.question)}")
    if extra and not parts:
        parts.append("(sent without a text)")
    if not parts and mentioned:
        parts.append("(mentioned you without a text)")
    return "\n\n".join(parts + [f"({line})" for line in extra])


def _reply(message: discord.Message) -> Reply | None:
    replied = message.reference.resolved if message.reference is not None else None
    if message.type is not discord.MessageType.reply or not isinstance(replied, discord.Message):
        return None
    text = replied.content.strip() or ", ".join(_plain(attachment.filename) for attachment in replied.attachments)
    cut = text if len(text) <= _QUOTE_LIMIT else f"{text[:_QUOTE_LIMIT]}…"
    return Reply(replied.author.display_name, cut)


def _quoted(text: str) -> str:
    return "\n".join(f"> {line}" for line in text.strip().splitlines())


def _plain(name: str) -> str:
    """A name from somebody else on one line and of bounded length: it is data, not words to the agent."""
    return re.sub(r"[\s\x00-\x1f\"]+", " ", name).strip()[:_NAME_LIMIT]
