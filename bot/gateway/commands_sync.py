"""Tells Discord which slash commands there are: once for each change, and never in the way of anything."""

from __future__ import annotations

import asyncio
import hashlib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Final

import discord
import structlog

from bot.clock import Clock
from bot.gateway.sender import NETWORK_ERRORS
from bot.settings import Settings

if TYPE_CHECKING:
    from bot.gateway.bot import NightporterBot

log = structlog.get_logger(__name__)

_FIRST_PAUSE_S: Final = 10.0
_LONGEST_PAUSE_S: Final = 900.0


class CommandSync:
    """Remembers in a small file what each guild was told; losing it costs one request for each guild."""

    def __init__(self, settings: Settings, clock: Clock) -> None:
        self._settings = settings
        self._clock = clock
        self._file = settings.state_dir / "commands.json"

    async def run(self, bot: NightporterBot) -> None:
        """Sync what has changed, again and again until it is done. Without it messages work, and old commands answer politely."""
        await bot.connected.wait()
        pause_s = _FIRST_PAUSE_S
        while not await self._try(bot):
            await self._clock.sleep(pause_s)
            pause_s = min(_LONGEST_PAUSE_S, pause_s * 2)

    async def _try(self, bot: NightporterBot) -> bool:
        told = await asyncio.to_thread(_load, self._file)
        done = True
        for guild_id in self._settings.discord.guilds:
            guild = discord.Object(guild_id)
            bot.tree.copy_global_to(guild=guild)
            now = self._hash(bot, guild)
            if told.get(str(guild_id)) == now:
                continue
            try:
                await bot.tree.sync(guild=guild)
            except (discord.Forbidden, discord.NotFound) as error:
                log.warning("commands.not_allowed", guild=guild_id, error=str(error), mend="invite the bot with applications.commands")
                continue
            except discord.RateLimited as error:
                log.warning("commands.rate_limited", guild=guild_id, retry_after_s=error.retry_after)
                await self._clock.sleep(error.retry_after)
                done = False
                continue
            except (discord.DiscordException, *NETWORK_ERRORS, RuntimeError) as error:
                log.warning("commands.not_synced", guild=guild_id, error=repr(error))
                done = False
                continue
            told[str(guild_id)] = now
            await asyncio.to_thread(_save, self._file, told)
            log.info("commands.synced", guild=guild_id)
        return done

    def _hash(self, bot: NightporterBot, guild: discord.Object) -> str:
        """What the guild would be told, by which application, where."""
        commands = [command.to_dict(bot.tree) for command in bot.tree.get_commands(guild=guild)]
        said = [self._settings.discord.api_base, bot.application_id, sorted(commands, key=lambda command: str(command["name"]))]
        return hashlib.sha256(json.dumps(said, sort_keys=True, default=str).encode()).hexdigest()


def _load(path: Path) -> dict[str, str]:
    try:
        found = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _save(path: Path, told: dict[str, str]) -> None:
    """Whole or not at all, as far as it matters: a broken file counts as none."""
    try:
        path.write_text(json.dumps(told), "utf-8")
    except OSError as error:
        log.warning("commands.not_remembered", error=str(error))
