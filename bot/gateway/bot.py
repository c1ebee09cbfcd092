"""The discord.py client: what it asks of Discord, what it is handed, and where its events go."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from typing import Any, Final, Protocol

import discord
import structlog
from discord.ext import commands

from bot.clock import Clock
from bot.gateway.attempts import tracing
from bot.gateway.backend import Backend
from bot.gateway.buttons import NoticeButton, answer_unknown
from bot.gateway.intake import Intake
from bot.settings import Settings

log = structlog.get_logger(__name__)

#: Loaded by name: this package must not import the cogs that import it.
EXTENSIONS: Final = ("cogs.chat", "cogs.continuations", "cogs.conversation", "cogs.errors")
#: discord.py raises RateLimited instead of sleeping longer than this; its own least value.
_LONGEST_RATE_LIMIT_S: Final = 30.0


class Pace(Protocol):
    """Spaces out IDENTIFYs."""

    async def __call__(self, *, initial: bool) -> None:
        """Return when the next IDENTIFY may be sent."""
        ...


class NightporterBot(commands.Bot):
    """One client. It owns nothing durable: when it dies another one takes its place, with the same things in hand."""

    def __init__(
        self, settings: Settings, backend: Backend, intake: Intake, clock: Clock, pace: Pace, *, extensions: Sequence[str] = EXTENSIONS
    ) -> None:
        intents = discord.Intents.default()
        intents.message_content = True
        super().__init__(
            command_prefix=commands.when_mentioned,
            help_command=None,
            intents=intents,
            # Without this Discord parses every mention in the agent's words.
            allowed_mentions=discord.AllowedMentions.none(),
            max_messages=None,
            member_cache_flags=discord.MemberCacheFlags.none(),
            chunk_guilds_at_startup=False,
            max_ratelimit_timeout=_LONGEST_RATE_LIMIT_S,
            http_trace=tracing(),
        )
        self.settings = settings
        self.backend = backend
        self.intake = intake
        self.clock = clock
        self._pace = pace
        self._extensions_to_load = tuple(extensions)
        #: Set when a gateway session has begun; what needs Discord, but no guild, may begin.
        self.connected = asyncio.Event()

    async def setup_hook(self) -> None:
        """Before the gateway: the handlers. Nothing that goes on runs from here; it belongs to the gateway or to the runtime."""
        self.add_dynamic_items(NoticeButton)
        for name in self._extensions_to_load:
            await self.load_extension(name)

    async def before_identify_hook(self, _shard_id: int | None, *, initial: bool = False) -> None:
        """See `Client.before_identify_hook`."""
        await self._pace(initial=initial)

    async def close(self) -> None:
        """See `Client.close`. Also ends the task that waits for more guilds: it would go on and then use a closed client."""
        waiting: asyncio.Task[None] | None = self._connection._ready_task  # noqa: SLF001 - discord.py offers no other way
        if waiting is not None:
            waiting.cancel()
        await super().close()

    async def on_message(self, message: discord.Message, /) -> None:
        """Nothing: there are no prefix commands, and cogs.chat listens itself."""

    async def on_connect(self) -> None:
        """READY, before anything that comes in the new session."""
        self.intake.connected()
        self.connected.set()
        log.info("discord.ready", user=str(self.user))

    async def on_resumed(self) -> None:
        """Nothing was missed: Discord replays it."""
        log.info("discord.resumed")

    async def on_guild_available(self, guild: discord.Guild) -> None:
        """A guild that the bot was in before it connected."""
        self.intake.guild_here(guild)

    async def on_guild_join(self, guild: discord.Guild) -> None:
        """A new guild, or one that came late."""
        self.intake.guild_here(guild)

    async def on_guild_remove(self, guild: discord.Guild) -> None:
        """We were put out of it."""
        self.intake.guild_gone(guild.id)

    async def on_guild_unavailable(self, guild: discord.Guild) -> None:
        """Discord itself has lost it for a while."""
        self.intake.guild_gone(guild.id)

    async def on_guild_channel_delete(self, channel: discord.abc.GuildChannel) -> None:
        """Deleted, or hidden from us."""
        self.intake.channel_gone(channel.id)

    async def on_thread_remove(self, thread: discord.Thread) -> None:
        """We were taken out of it."""
        self.intake.channel_gone(thread.id)

    async def on_guild_channel_create(self, channel: discord.abc.GuildChannel) -> None:
        """A new channel, or one that was hidden from us: nobody tells what was written in it meanwhile."""
        self.intake.channel_here(channel.id, channel.guild.id, None)

    async def on_guild_channel_update(self, before: discord.abc.GuildChannel, after: discord.abc.GuildChannel) -> None:
        """The same for one that we may view, but could not read back."""
        if before.overwrites != after.overwrites:
            self.intake.channel_here(after.id, after.guild.id, None)

    async def on_thread_join(self, thread: discord.Thread) -> None:
        """A thread that we were added to (again)."""
        self.intake.channel_here(thread.id, thread.guild.id, thread.parent_id)

    async def on_guild_role_update(self, before: discord.Role, after: discord.Role) -> None:
        """Our rights may come from a role."""
        if before.permissions != after.permissions and after in after.guild.me.roles:
            self.intake.guild_here(after.guild)

    async def on_member_update(self, before: discord.Member, after: discord.Member) -> None:
        """The same; of others nothing is asked."""
        if after == after.guild.me and before.roles != after.roles:
            self.intake.guild_here(after.guild)

    async def on_ready(self) -> None:
        """Every guild that is there has come."""
        await self.intake.all_here()

    async def on_interaction(self, interaction: discord.Interaction) -> None:
        """Presses that no handler knows."""
        await answer_unknown(interaction)

    async def on_error(self, event_method: str, /, *_args: Any, **_kwargs: Any) -> None:  # noqa: ANN401 - whatever the event had
        """A handler failed: said in the log, and no reason to stop listening."""
        # discord.py calls this while it handles the exception.
        log.error("discord.handler_failed", handler=event_method, exc_info=sys.exc_info())
