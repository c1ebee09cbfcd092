"""A gateway against a loopback Discord: one guild, one bound channel, a member, an admin and a stranger."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bot.clock import SystemClock
from bot.gateway.client import Gateway
from bot.loopback.discord import Channel, Guild, LoopbackConfig, LoopbackDiscord, Member, Message, People, Permission
from bot.settings import Settings
from storage.models import Rules
from tests.support.gateway_backend import StoreBackend


class HurriedClock(SystemClock):
    """Real time, but nobody waits for long: pauses between tries and Discord's pacing are not what is under test."""

    def __init__(self) -> None:
        self.slept: list[float] = []

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        await asyncio.sleep(min(seconds, 0.01))


def settings_for(folder: Path, **sections: Any) -> Settings:
    """A whole configuration from a few sections."""
    values: dict[str, Any] = {
        "state_dir": folder,
        "database": {"url": f"sqlite+aiosqlite:///{folder / 'np.db'}"},
        "agents": {"claude": {"config_dir": folder / "claude"}},
        "projects": [{"name": "backend", "path": folder}],
        **sections,
    }
    return Settings(**values)


@dataclass
class Hotel:
    """Everything a test of the gateway needs; `up` starts the gateway, `down` ends it, the database and Discord stay."""

    folder: Path
    discord: LoopbackDiscord
    guild: Guild
    channel: Channel
    alice: Member
    admin: Member
    stranger: Member
    listen: str = "mention"
    rules: Rules = field(default_factory=Rules)
    token: str | None = None
    more_channels: list[int] = field(default_factory=list)
    #: In place of the hotel's own channel.
    bound: list[int] | None = None
    clock: HurriedClock = field(default_factory=HurriedClock)
    backend: StoreBackend = field(init=False)
    gateway: Gateway = field(init=False)
    running: asyncio.Task[None] | None = None
    stop: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def people(self) -> People:
        return self.discord.people

    @property
    def me(self) -> str:
        return f"<@{self.people.bot.id}>"

    def settings(self) -> Settings:
        return settings_for(
            self.folder,
            discord={
                "token": self.token or self.discord.token,
                "guilds": [self.guild.id],
                "api_base": self.discord.api_base,
                "gateway_url": self.discord.gateway_url,
            },
            access={"users": [self.alice.id]},
            channels=[
                {"id": one, "project": "backend", "listen": self.listen}
                for one in (*(self.bound or [self.channel.id]), *self.more_channels)
            ],
        )

    async def start(self) -> asyncio.Task[None]:
        """Begin, without waiting for anything."""
        self.backend = await StoreBackend.open(self.folder, self.clock, self.rules)
        self.gateway = Gateway(self.settings(), clock=self.clock)
        self.gateway.attach(self.backend)
        self.stop = asyncio.Event()
        self.running = asyncio.create_task(self.gateway.run(self.stop))
        return self.running

    async def up(self) -> None:
        """Begin, and wait until commands are synced and the channel is caught up."""
        since, first = len(self.discord.log), not (self.folder / "commands.json").exists()
        await self.start()
        await self.discord.log.wait_kind("commands.sync" if first else "gateway.identify", since=since)
        await self.settled()

    async def settled(self) -> None:
        """The channel is caught up with this gateway session, and nothing waits to be looked at."""
        async with asyncio.timeout(10):
            while True:
                # There is no signal for rest, since nothing but a test needs one.
                intake: Any = self.gateway._intake  # noqa: SLF001
                line = intake._lines.get(self.channel.id)  # noqa: SLF001
                session = intake._session  # noqa: SLF001
                if line is not None and session and line.session == session and not line.items and line.task is None:
                    return
                if self.running is not None and self.running.done():
                    self.running.result()
                await asyncio.sleep(0.005)

    async def down(self) -> None:
        if self.running is None:
            return
        self.stop.set()
        running, self.running = self.running, None
        try:
            await asyncio.wait_for(running, 10)
        finally:
            await self.backend.store.aclose()

    async def kill(self) -> None:
        """As a process that dies: nothing is finished, nothing is said."""
        assert self.running is not None
        running, self.running = self.running, None
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await self.backend.store.aclose()

    async def say(self, text: str = "", *, who: Member | None = None, channel: Channel | None = None, **more: Any) -> Message:
        return await self.people.say(channel or self.channel, who or self.alice, text, **more)

    async def mark(self) -> int:
        found = await self.backend.conversation(self.channel.id)
        assert found is not None
        return found.last_seen_id


@asynccontextmanager
async def hotel_in(folder: Path, config: LoopbackConfig | None = None, **options: Any) -> AsyncIterator[Hotel]:
    async with LoopbackDiscord(config) as discord:
        people = discord.people
        guild = await people.create_guild("hotel")
        channel = await people.create_channel(guild, "backend")
        manager = await people.create_role(guild, "manager", Permission.MANAGE_GUILD)
        made = Hotel(
            folder,
            discord,
            guild,
            channel,
            alice=await people.join(guild, "alice"),
            admin=await people.join(guild, "boss", roles=[manager]),
            stranger=await people.join(guild, "mallory"),
            **options,
        )
        try:
            yield made
        finally:
            await made.down()
