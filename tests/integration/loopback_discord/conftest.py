"""A loopback Discord with a small hotel in it, and a real discord.py client that is quick to connect."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any

import discord
import pytest
import pytest_asyncio
import yarl
from discord.ext import commands

from bot.loopback.discord import Channel, Guild, LoopbackConfig, LoopbackDiscord, Member, People


@dataclass
class Hotel:
    """A server with one guild, one channel and two people."""

    discord: LoopbackDiscord
    guild: Guild
    channel: Channel
    alice: Member
    bob: Member

    @property
    def people(self) -> People:
        return self.discord.people


class Client(commands.Bot):
    """A bot that notes what it is told."""

    def __init__(self, intents: discord.Intents | None = None, **options: Any) -> None:
        if intents is None:
            intents = discord.Intents.default()
            intents.message_content = True
        super().__init__("!", intents=intents, guild_ready_timeout=0.02, **options)
        self.heard: asyncio.Queue[discord.Message] = asyncio.Queue()
        self.ready = asyncio.Event()
        self.readies = 0
        self.names: list[str] = []

    async def before_identify_hook(self, shard_id: int | None, *, initial: bool = False) -> None:
        """Not five seconds."""

    async def on_ready(self) -> None:
        self.readies += 1
        self.ready.set()

    async def on_message(self, message: discord.Message) -> None:
        self.heard.put_nowait(message)

    async def on_socket_event_type(self, name: str) -> None:
        self.names.append(name)

    async def next_message(self) -> discord.Message:
        return await asyncio.wait_for(self.heard.get(), 10)

    def text_channel(self, channel: Channel) -> discord.TextChannel:
        found = self.get_channel(channel.id)
        assert isinstance(found, discord.TextChannel)
        return found

    async def post(self, channel: Channel, body: Any) -> dict[str, Any]:
        """POST a message exactly as given, past all that discord.py does to it."""
        route = discord.http.Route("POST", "/channels/{channel_id}/messages", channel_id=channel.id)
        answer: dict[str, Any] = await self.http.request(route, json=body)
        return answer


@dataclass
class Lobby:
    """Opens servers and connects clients; all are closed at the end of the test."""

    patch: pytest.MonkeyPatch
    stack: contextlib.AsyncExitStack
    tasks: list[asyncio.Task[None]] = field(default_factory=list)

    async def open(self, config: LoopbackConfig | None = None) -> Hotel:
        server = await self.stack.enter_async_context(LoopbackDiscord(config))
        self.patch.setattr(discord.http.Route, "BASE", server.api_base)
        self.patch.setattr(discord.gateway.DiscordWebSocket, "DEFAULT_GATEWAY", yarl.URL(server.gateway_url))
        people = server.people
        guild = await people.create_guild("hotel")
        channel = await people.create_channel(guild, "backend")
        return Hotel(server, guild, channel, await people.join(guild, "alice"), await people.join(guild, "bob"))

    async def login(self, hotel: Hotel, **options: Any) -> Client:
        """A client that only makes requests."""
        client = Client(**options)
        self.stack.push_async_callback(client.close)
        await client.login(hotel.discord.token)
        return client

    async def connect(self, hotel: Hotel, client: Client | None = None, **options: Any) -> Client:
        """A client at READY."""
        client = client if client is not None else Client(**options)
        await client.login(hotel.discord.token)
        task = asyncio.create_task(client.connect())

        async def leave() -> None:
            await client.close()
            await asyncio.wait({task})
            if not task.cancelled():
                task.exception()

        self.stack.push_async_callback(leave)
        self.tasks.append(task)
        await asyncio.wait_for(client.ready.wait(), 10)
        return client


@pytest_asyncio.fixture
async def lobby(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Lobby]:
    # discord.py backs off for up to seconds before it tries a refused gateway again.
    monkeypatch.setattr(discord.backoff.ExponentialBackoff, "delay", lambda _: 0.01)
    async with contextlib.AsyncExitStack() as stack:
        yield Lobby(monkeypatch, stack)


@pytest_asyncio.fixture
async def hotel(lobby: Lobby) -> Hotel:
    return await lobby.open()


@pytest_asyncio.fixture
async def client(lobby: Lobby, hotel: Hotel) -> Client:
    return await lobby.connect(hotel)


@pytest_asyncio.fixture
async def requester(lobby: Lobby, hotel: Hotel) -> Client:
    return await lobby.login(hotel)


Refused = Callable[..., Any]


@pytest.fixture
def refused() -> Refused:
    """``async with refused(50035): …``: the API answers with this JSON error code."""

    @contextlib.asynccontextmanager
    async def expect(code: int, status: int | None = None) -> AsyncIterator[list[discord.HTTPException]]:
        caught: list[discord.HTTPException] = []
        with pytest.raises(discord.HTTPException) as info:
            yield caught
        assert info.value.code == code, info.value
        assert status is None or info.value.status == status
        caught.append(info.value)

    return expect
