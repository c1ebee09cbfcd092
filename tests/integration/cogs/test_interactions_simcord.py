"""simcord: the cogs' own logic, with Discord's rules about acknowledging and buttons enforced by somebody else's code.

The runtime's half lives outside of the bot, so that simcord sees it come to rest.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import discord
import pytest
import pytest_asyncio
import simcord

from bot.gateway.bot import NightporterBot
from bot.gateway.sender import components
from storage.models import ContinuationId, RunId
from storage.states import ContinuationState, RunState
from tests.integration.cogs.conftest import make_bot, settings_in
from tests.support.gateway_backend import StoreBackend
from tests.support.gateway_house import HurriedClock
from tests.support.storage import Driver, Time


@dataclass
class Stage:
    """A guild with one bound channel; alice is on the list, mallory is not."""

    env: Any
    bot: NightporterBot
    backend: StoreBackend
    drive: Driver
    channel: Any
    alice: Any
    mallory: Any
    boss: Any
    conversation_id: Any

    async def pending(self) -> ContinuationId:
        run = await self.drive.running(self.conversation_id, author_id=self.alice.id)
        asked = await self.drive.wait(run)
        await self.drive.settle(run)
        return asked.id

    async def interrupted(self) -> RunId:
        run = await self.drive.running(self.conversation_id, author_id=self.alice.id)
        await self.drive.settle(run, RunState.INTERRUPTED)
        return run.id

    async def notice(self, verb: str, subject: int) -> discord.Message:
        """A message with a stored button, as the sender posts it."""
        stored = components(json.dumps([{"label": "Go", "style": "primary", "custom_id": f"np:{verb}:{subject}"}]))
        params = discord.http.MultipartParameters({"content": "?", "components": stored}, None, None)
        await self.bot.http.send_message(self.channel.id, params=params)
        await self.env.settle()
        message = self.channel.last_message
        assert isinstance(message, discord.Message)
        return message


@pytest.fixture
def simcord_bot(tmp_path: Path, backend: StoreBackend) -> NightporterBot:
    """For simcord's own fixture; the configuration comes when the guild has its ids."""
    return make_bot(settings_in(tmp_path, 1, 2, [3]), backend)


@pytest_asyncio.fixture
async def stage(tmp_path: Path, backend: StoreBackend, simcord_bot: NightporterBot, simcord_env: simcord.Env) -> Stage:
    env, bot = simcord_env, simcord_bot
    guild = env.create_guild("hotel")
    channel = guild.create_text_channel("backend")
    alice, mallory = (guild.add_member(env.create_user(name)) for name in ("alice", "mallory"))
    manager = guild.create_role("manager", permissions=discord.Permissions(manage_guild=True))
    boss = guild.add_member(env.create_user("boss"), roles=[manager])
    bot.settings = settings_in(tmp_path, guild.id, channel.id, [alice.id])
    bot.tree.copy_global_to(guild=discord.Object(guild.id))
    await bot.tree.sync(guild=discord.Object(guild.id))
    bound = await backend.bind(
        channel_id=channel.id, guild_id=guild.id, project="backend", agent="claude", folder=str(tmp_path), shared=False, last_seen_id=0
    )
    return Stage(env, bot, backend, Driver(backend.store, Time(HurriedClock().now_ms())), channel, alice, mallory, boss, bound.id)


async def test_a_member_cancels_his_wait_and_a_second_time_is_told_that_it_ended(stage: Stage) -> None:
    wait = await stage.pending()
    first = await stage.alice.slash(stage.channel, "continuations cancel", id=f"c{wait}")
    assert first.response.ephemeral
    assert "is cancelled" in first.response.content
    second = await stage.alice.slash(stage.channel, "continuations cancel", id=f"c{wait}")
    assert "already ended" in second.response.content
    assert (await stage.drive.continuation(wait)).state is ContinuationState.CANCELLED


async def test_a_stranger_gets_one_private_sentence(stage: Stage) -> None:
    wait = await stage.pending()
    refused = await stage.mallory.slash(stage.channel, "continuations cancel", id=f"c{wait}")
    assert refused.response.ephemeral
    assert "not on the list" in refused.response.content
    assert (await stage.drive.continuation(wait)).state is ContinuationState.PENDING


async def test_ids_complete_for_whoever_may_use_them(stage: Stage) -> None:
    wait = await stage.pending()
    found = await stage.alice.autocomplete(stage.channel, "continuations cancel", "id", "c")
    assert [choice["value"] for choice in found] == [f"c{wait}"]
    assert await stage.mallory.autocomplete(stage.channel, "continuations cancel", "id", "c") == []


async def test_an_admin_stops_what_a_member_began(stage: Stage) -> None:
    wait = await stage.pending()
    stopped = await stage.boss.slash(stage.channel, "stop")
    assert "Stopped" in stopped.response.content
    assert (await stage.drive.continuation(wait)).state is ContinuationState.CANCELLED


async def test_a_notices_button_is_acknowledged_answered_in_private_and_taken_away(stage: Stage) -> None:
    run = await stage.interrupted()
    message = await stage.notice("resume", run)
    pressed = await stage.alice.click(message, label="Go")
    assert [(row.content, row.ephemeral) for row in pressed.followups] == [("The agent goes on.", True)]
    after = stage.channel.history()[-1]
    assert after.components == []
    assert len(stage.backend.named("resume")) == 1


async def test_a_bot_that_was_restarted_knows_its_old_buttons(stage: Stage, tmp_path: Path) -> None:
    run = await stage.interrupted()
    message = await stage.notice("resume", run)
    await stage.env.restart_bot(make_bot(stage.bot.settings, stage.backend))
    await stage.alice.click(message, label="Go")
    assert len(stage.backend.named("resume")) == 1
