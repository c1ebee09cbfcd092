"""The settings of a loopback Discord: who the bot is, which windows and deadlines hold, which intents are granted."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntFlag


class Intent(IntFlag):
    """Gateway intents (developer documentation, "Gateway Intents")."""

    NONE = 0
    GUILDS = 1 << 0
    GUILD_MEMBERS = 1 << 1
    GUILD_PRESENCES = 1 << 8
    GUILD_MESSAGES = 1 << 9
    GUILD_MESSAGE_REACTIONS = 1 << 10
    GUILD_MESSAGE_TYPING = 1 << 11
    DIRECT_MESSAGES = 1 << 12
    DIRECT_MESSAGE_REACTIONS = 1 << 13
    DIRECT_MESSAGE_TYPING = 1 << 14
    MESSAGE_CONTENT = 1 << 15


PRIVILEGED = Intent.GUILD_MEMBERS | Intent.GUILD_PRESENCES | Intent.MESSAGE_CONTENT
"""The intents that must be switched on for an application before it may ask for them."""

KNOWN_INTENT_BITS = (1 << 26) - 1
"""Bits above are refused with close code 4013."""


@dataclass(slots=True, frozen=True)
class RateRule:
    """``limit`` requests in a window of ``per_s`` seconds, for each route and major parameter."""

    limit: int
    per_s: float


@dataclass(slots=True, frozen=True)
class LoopbackConfig:
    """How strict and how patient the server is.

    ``nonce_window_s``: how long an enforced nonce is remembered ("the past few minutes"; the real value is not published).
    ``ack_s`` and ``token_s``: 3 s to answer an interaction, 15 min of its token (developer documentation).
    ``session_keep_s``: how long a session without a connection can be resumed (not published either).
    ``rates`` maps ``"METHOD /template"`` to its rule; other routes have ``default_rate``, which nothing reaches.
    """

    token: str = "loopback.bot.token"  # noqa: S105  # not a secret: it opens this server only
    bot_name: str = "nightporter"
    privileged_intents: Intent = PRIVILEGED
    nonce_window_s: float = 180.0
    ack_s: float = 3.0
    token_s: float = 900.0
    heartbeat_interval_ms: int = 41_250
    session_keep_s: float = 300.0
    max_attachment_bytes: int = 10 * 1024 * 1024
    default_rate: RateRule = RateRule(limit=1_000_000, per_s=1.0)
    rates: dict[str, RateRule] = field(default_factory=dict)
