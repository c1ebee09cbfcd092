"""A bot without a gateway, over the real store, for simcord and dpytest; the runtime lives outside of it."""

from __future__ import annotations

import importlib
import warnings
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest_asyncio

from bot.gateway.bot import NightporterBot
from bot.gateway.intake import Intake
from bot.settings import Settings
from tests.support.gateway_backend import StoreBackend
from tests.support.gateway_house import HurriedClock, settings_for

with warnings.catch_warnings():
    # dpytest 0.7.0 has an invalid escape sequence, which Python reports when it compiles the file.
    warnings.simplefilter("ignore")
    importlib.import_module("discord.ext.test")


async def _at_once(*, initial: bool) -> None:
    """There is no gateway to be paced."""


async def prepare(bot: NightporterBot) -> None:
    """What `login` does, without a Discord to log in to."""
    await bot._async_setup_hook()  # noqa: SLF001 - dpytest's own documentation asks for it
    await bot.setup_hook()


def make_bot(settings: Settings, backend: StoreBackend, *, client: NightporterBot | None = None) -> NightporterBot:
    """A bot; its intake looks into `client` if one is named, else into the bot itself."""
    clock = HurriedClock()
    holder: list[NightporterBot] = [] if client is None else [client]

    def crashed(error: BaseException) -> None:
        raise error

    intake = Intake(settings, backend, clock, lambda: holder[0], crashed)
    bot = NightporterBot(settings, backend, intake, clock, _at_once)
    holder.append(bot)
    return bot


@pytest_asyncio.fixture
async def backend(tmp_path: Path) -> AsyncIterator[StoreBackend]:
    made = await StoreBackend.open(tmp_path, HurriedClock())
    yield made
    await made.store.aclose()


def settings_in(folder: Path, guild_id: int, channel_id: int, users: Sequence[int]) -> Settings:
    sections: dict[str, Any] = {
        "discord": {"guilds": [guild_id]},
        "access": {"users": list(users)},
        "channels": [{"id": channel_id, "project": "backend"}],
    }
    return settings_for(folder, **sections)
