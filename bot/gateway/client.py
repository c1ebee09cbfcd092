"""Keeps a Discord client running: connects, names what only a person can mend, and puts a new client in place of a dead one."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Coroutine
from typing import Any, Final

import aiohttp
import discord
import structlog
import yarl
from discord.ext import commands

from bot.clock import Clock
from bot.errors import ConfigError
from bot.gateway.backend import Backend
from bot.gateway.bot import NightporterBot
from bot.gateway.commands_sync import CommandSync
from bot.gateway.intake import Intake
from bot.gateway.sender import Sender
from bot.masking import Masker
from bot.runtime.ports import Chat
from bot.settings import DiscordSettings, Settings

log = structlog.get_logger(__name__)

_FIRST_PAUSE_S: Final = 1.0
#: Discord allows 1,000 IDENTIFYs a day (developer docs, Gateway: session start limit): even a client that dies at once each time stays
#: below that.
_LONGEST_PAUSE_S: Final = 90.0
#: One IDENTIFY in 5 s (developer docs, Gateway: identify rate limit, max_concurrency 1).
_IDENTIFY_PAUSE_S: Final = 5.0
#: aiohttp would wait 30 s for a websocket's closing handshake.
_GOODBYE_S: Final = 3.0
#: A client that lived this long was well: the next pause is a short one again.
_WELL_AFTER_S: Final = 60.0
#: Gateway close codes that no retry mends (developer docs, Gateway Close Event Codes).
_BAD_TOKEN: Final = 4004
_BAD_INTENTS: Final = 4013
_INTENT_OFF: Final = 4014

_WHERE = "the file of discord.token_file or into NIGHTPORTER_DISCORD__TOKEN"
REFUSED = f"discord.token: Discord refuses it; copy it from the Developer Portal (your application, Bot, Reset Token) into {_WHERE}"
NO_TOKEN = f"discord.token: there is none; put it into {_WHERE}"
INTENT_OFF = (
    "the bot may not read messages: switch on Message Content Intent in the Developer Portal"
    " (https://discord.com/developers/applications, your application, Bot, Privileged Gateway Intents)"
)


class Gateway:
    """The chat side of the process. Made first, for its `chat`; given the runtime with `attach`; then `run`.

    ```python
    gateway = Gateway(settings, clock=clock)
    runtime = Runtime(store, pool, gateway.chat, ...)
    gateway.attach(runtime)
    await gateway.run(stop)
    ```
    """

    def __init__(self, settings: Settings, *, clock: Clock) -> None:
        self._settings = settings
        self._clock = clock
        self._bot: NightporterBot | None = None
        self._backend: Backend | None = None
        self._intake: Intake | None = None
        self._sender = Sender(lambda: self._bot, Masker(settings.secrets()))
        self._sync = CommandSync(settings, clock)
        self._identified_at_s: float | None = None
        self._crash: asyncio.Future[None] | None = None

    @property
    def chat(self) -> Chat:
        """What the runtime posts with. Works from the start: without a client it says that it is paused."""
        return self._sender

    @property
    def bot(self) -> NightporterBot | None:
        """The client of the moment; only for looking."""
        return self._bot

    def attach(self, backend: Backend) -> None:
        """Hand the runtime in; before `run`."""
        self._backend = backend
        self._intake = Intake(self._settings, backend, self._clock, lambda: self._bot, self._crashed)

    async def run(self, stop: asyncio.Event) -> None:
        """Stay connected until `stop` is set. Discord being away is waited for, for ever.

        Raises:
            ConfigError: the token is refused, or an intent is not switched on: one sentence for a person, nothing to retry.
            Exception: a fault of the program in intake; the process has to end, and the next start catches up.
        """
        if self._backend is None or self._intake is None:
            raise RuntimeError("attach the runtime first")
        point_discord_py_at(self._settings.discord)
        self._crash = asyncio.get_running_loop().create_future()
        pause_s = _FIRST_PAUSE_S
        try:
            while not stop.is_set():
                began_s = self._clock.monotonic_s()
                await self._one_client(self._backend, self._intake, stop)
                if stop.is_set():
                    return
                lived_s = self._clock.monotonic_s() - began_s
                pause_s = _FIRST_PAUSE_S if lived_s >= _WELL_AFTER_S else pause_s
                log.info("discord.reconnecting", in_s=pause_s)
                await self._first_of(stop, self._clock.sleep(pause_s))
                pause_s = min(_LONGEST_PAUSE_S, pause_s * 2)
        finally:
            await self._intake.aclose()
            await self._sender.aclose()

    async def _one_client(self, backend: Backend, intake: Intake, stop: asyncio.Event) -> None:
        """One client from login to its end, whatever ends it."""
        bot = NightporterBot(self._settings, backend, intake, self._clock, self._pace)
        self._bot = bot
        sync = asyncio.create_task(self._sync.run(bot), name="discord-command-sync")
        try:
            # Its own reconnecting is off: it waits up to 17 minutes, dies when the first connect fails, and never resumes after a
            # rebuilt session anyway. RESUME after a lost connection still happens inside; all else begins anew and catches up.
            await self._first_of(stop, bot.start(self._token(), reconnect=False))
        except discord.LoginFailure:
            raise ConfigError(REFUSED) from None
        except discord.PrivilegedIntentsRequired:
            raise ConfigError(INTENT_OFF) from None
        except discord.ConnectionClosed as closed:
            self._closed(closed)
        except commands.ExtensionError:
            # A cog that cannot be loaded is a fault of the program; no other client would do better.
            raise
        except (discord.DiscordException, aiohttp.ClientError, OSError, TimeoutError) as error:
            log.warning("discord.unreachable", error=repr(error))
        except Exception as error:
            if self._crash is not None and self._crash.done():
                raise
            # discord.py lets an event that it cannot parse end the client; another one is no worse off.
            log.exception("discord.client_failed", error=repr(error))
        finally:
            sync.cancel()
            await asyncio.gather(sync, return_exceptions=True)
            await _close(bot)

    def _token(self) -> str:
        token = self._settings.discord.token
        if token is None:
            raise ConfigError(NO_TOKEN)
        return token.get_secret_value()

    def _closed(self, closed: discord.ConnectionClosed) -> None:
        """The gateway closed the connection for good; some reasons need a person."""
        if closed.code == _BAD_TOKEN:
            raise ConfigError(REFUSED) from None
        if closed.code in {_BAD_INTENTS, _INTENT_OFF}:
            raise ConfigError(INTENT_OFF) from None
        log.warning("discord.closed", code=closed.code, reason=closed.reason)

    async def _pace(self, *, initial: bool) -> None:
        """Wait as Discord asks before an IDENTIFY: also the first one of a client that takes a dead one's place."""
        if not initial:
            await self._clock.sleep(_IDENTIFY_PAUSE_S)
        elif self._identified_at_s is not None:
            await self._clock.sleep(self._identified_at_s + _IDENTIFY_PAUSE_S - self._clock.monotonic_s())
        self._identified_at_s = self._clock.monotonic_s()

    async def _first_of(self, stop: asyncio.Event, work: Coroutine[Any, Any, None]) -> None:
        """Do the work until it ends, `stop` is set or intake has crashed; raise what the work or the crash raised."""
        working = asyncio.ensure_future(work)
        stopping = asyncio.ensure_future(stop.wait())
        waited: set[asyncio.Future[Any]] = {working, stopping}
        if self._crash is not None:
            waited.add(self._crash)
        try:
            await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
        finally:
            stopping.cancel()
            if not working.done():
                working.cancel()
                await asyncio.wait({working})
        if self._crash is not None and self._crash.done():
            self._crash.result()
        if not working.cancelled():
            working.result()

    def _crashed(self, error: BaseException) -> None:
        log.critical("intake.died", error=repr(error), exc_info=error)
        if self._crash is not None and not self._crash.done():
            self._crash.set_exception(error)


async def _close(bot: NightporterBot) -> None:
    """Close the client; a gateway that no longer answers gets no more than a moment to say goodbye."""
    with contextlib.suppress(discord.DiscordException, aiohttp.ClientError, OSError, TimeoutError):
        async with asyncio.timeout(_GOODBYE_S):
            await bot.close()
            return
    await bot.http.close()


def point_discord_py_at(settings: DiscordSettings) -> None:
    """Have discord.py talk to the configured addresses; it keeps them in class attributes, so this holds for the whole process."""
    if settings.api_base is not None:
        discord.http.Route.BASE = settings.api_base.rstrip("/")
        discord.Asset.BASE = str(yarl.URL(settings.api_base).origin())
    if settings.gateway_url is not None:
        discord.gateway.DiscordWebSocket.DEFAULT_GATEWAY = yarl.URL(settings.gateway_url)
