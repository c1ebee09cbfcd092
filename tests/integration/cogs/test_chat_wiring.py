"""dpytest: what the chat cog hands on. It knows plain messages, replies, edits and files; no threads, reactions, typing or commands."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import discord
import discord.ext.test as dpytest
import pytest_asyncio

from bot.gateway.bot import NightporterBot
from tests.integration.cogs.conftest import make_bot, prepare, settings_in
from tests.support.gateway_backend import StoreBackend


@pytest_asyncio.fixture
async def bot(tmp_path: Path, backend: StoreBackend) -> AsyncIterator[NightporterBot]:
    made = make_bot(settings_in(tmp_path, 1, 2, [3]), backend)
    await prepare(made)
    # dpytest's people live in the cache of members, which the bot does without.
    state = made._connection  # noqa: SLF001
    state._intents, state.member_cache_flags = discord.Intents.all(), discord.MemberCacheFlags.all()  # noqa: SLF001
    dpytest.configure(made, guilds=1, text_channels=1, members=2)
    config = dpytest.get_config()
    # dpytest chooses the ids, so the configuration is made for them afterwards.
    settings = settings_in(tmp_path, config.guilds[0].id, config.channels[0].id, [config.members[0].id])
    made.settings, made.intake = settings, make_bot(settings, backend, client=made).intake
    made.intake.connected()
    made.intake.guild_here(config.guilds[0])
    await backend.until(lambda: bool(backend.named("bind")))
    yield made
    await made.intake.aclose()
    await dpytest.empty_queue()
    # dpytest's websocket has no socket that could be closed.
    made.ws = None  # type: ignore[assignment]
    await made.close()


def mention(bot: NightporterBot) -> str:
    assert bot.user is not None
    return f"<@{bot.user.id}>"


async def test_a_message_and_its_deletion_reach_intake_in_their_order(bot: NightporterBot, backend: StoreBackend) -> None:
    message = await dpytest.message(f"{mention(bot)} fix lgoin", member=0)
    await backend.until(lambda: bool(backend.accepted))
    assert backend.accepted[0].text == "fix lgoin"
    await message.delete()
    await backend.until(lambda: bool(backend.named("deleted")))


async def test_a_stranger_and_a_message_for_nobody_stay_outside(bot: NightporterBot, backend: StoreBackend) -> None:
    await dpytest.message(f"{mention(bot)} let me in", member=1)
    await dpytest.message("talking", member=0)
    await backend.until(lambda: bool(backend.named("seen")))
    assert backend.accepted == []


async def test_prefix_commands_do_not_exist(bot: NightporterBot, backend: StoreBackend) -> None:
    await dpytest.message(f"{mention(bot)} help", member=0)
    await backend.until(lambda: bool(backend.accepted))
    assert dpytest.verify().message().nothing()
