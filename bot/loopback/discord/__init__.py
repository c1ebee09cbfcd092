"""A strict Discord on 127.0.0.1: REST, gateway and people, for ``nightporter demo`` and for the tests.

A real discord.py client in any process talks to it when its ``Route.BASE`` is :attr:`LoopbackDiscord.api_base` and its
``DiscordWebSocket.DEFAULT_GATEWAY`` is :attr:`LoopbackDiscord.gateway_url`. It refuses what the real service refuses,
with the same status and JSON error, as far as the public documentation and reports tell; nothing here was compared
with the live service::

    async with LoopbackDiscord() as discord:
        guild = await discord.people.create_guild("hotel")
        channel = await discord.people.create_channel(guild, "backend")
        alice = await discord.people.join(guild, "alice")
        ...  # start the bot with discord.token
        await discord.people.say(channel, alice, f"<@{discord.people.bot.id}> good evening")
        answer = await discord.people.wait_message(channel)

There: guilds, text channels, public and private threads, DMs, roles, members, overwrites, messages with files, embeds,
components (V1 and V2), replies, reactions and typing, slash commands with groups and completion, buttons, selects,
modals, the interaction token, nonces, rate limits, IDENTIFY, RESUME and heartbeats, intents, injected faults.

Left out: voice and stage, forums, announcements, categories and their inherited overwrites, webhooks of the bot's own,
polls, stickers, custom emoji as objects, pins, crossposts, bulk deletion, scheduled events, invites, bans, moderation
and its audit log, presences, user and message commands, commands from outside of a guild or DM with the bot,
entitlements, localisation, per-command permission settings, slow mode, link previews (only :meth:`People.unfurl`),
expiry of attachment links, automatic archiving of threads, compression of the gateway (text frames are sent,
clients accept them), the identify and send limits of the gateway, several applications or shards. Real limits of
routes are not public; :attr:`LoopbackConfig.rates` sets any.
"""

from __future__ import annotations

from .call import Call
from .commands import CannotInvokeError
from .config import PRIVILEGED, Intent, LoopbackConfig, RateRule
from .errors import ApiError, Code
from .faults import RestFault, RestFaults
from .gateway import Gateway
from .interactions import Callback, DidNotRespondError, Interaction, InteractionType
from .log import EventLog, Record, WaitedTooLongError
from .model import Attachment, Channel, ChannelType, Guild, Member, Message, MessageFlag, MessageType, Pings, Role, User
from .people import People
from .permissions import ALL, EVERYDAY, Permission
from .server import LoopbackDiscord
from .timing import LoopbackClock

__all__ = [
    "ALL",
    "EVERYDAY",
    "PRIVILEGED",
    "ApiError",
    "Attachment",
    "Call",
    "Callback",
    "CannotInvokeError",
    "Channel",
    "ChannelType",
    "Code",
    "DidNotRespondError",
    "EventLog",
    "Gateway",
    "Guild",
    "Intent",
    "Interaction",
    "InteractionType",
    "LoopbackClock",
    "LoopbackConfig",
    "LoopbackDiscord",
    "Member",
    "Message",
    "MessageFlag",
    "MessageType",
    "People",
    "Permission",
    "Pings",
    "RateRule",
    "Record",
    "RestFault",
    "RestFaults",
    "Role",
    "User",
    "WaitedTooLongError",
]
