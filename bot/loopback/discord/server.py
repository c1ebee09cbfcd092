"""The server as a whole: it binds a free port on 127.0.0.1, serves until closed, and leaves nothing behind."""

from __future__ import annotations

from collections.abc import Mapping
from types import TracebackType
from typing import Self

from aiohttp import web

from .commands import Registry
from .config import LoopbackConfig
from .faults import RestFaults
from .gateway import Gateway
from .interactions import Interactions
from .invoking import Invoker
from .log import EventLog
from .messages import Messages
from .people import People
from .ratelimits import Buckets
from .rest import PREFIX, Rest
from .routes_channels import ChannelRoutes
from .routes_other import OtherRoutes
from .timing import LoopbackClock
from .world import World

HOST = "127.0.0.1"


class LoopbackDiscord:
    """One Discord with one bot application. Use as an async context manager, or ``start`` and ``aclose``.

    ``people`` acts, ``log`` tells, ``faults`` breaks REST, ``gateway`` breaks the gateway, ``clock`` jumps forward.
    """

    def __init__(self, config: LoopbackConfig | None = None) -> None:
        self.config = config if config is not None else LoopbackConfig()
        self.clock = LoopbackClock()
        self.world = World(self.config, self.clock)
        self.faults = RestFaults()
        self.gateway = Gateway(self.world, lambda: self.gateway_url)
        self._messages = Messages(self.world)
        self._registry = Registry(self.world.ids)
        self._interactions = Interactions(self.world, self._messages)
        self.people = People(self.world, self._messages, Invoker(self.world, self._registry, self._interactions))
        self._rest = Rest(self.world, self.faults, Buckets(self.config, self.clock))
        self._runner: web.AppRunner | None = None
        self._port: int | None = None

    @property
    def log(self) -> EventLog:
        """Everything that was observed."""
        return self.world.log

    @property
    def token(self) -> str:
        """The bot's token."""
        return self.config.token

    @property
    def listening(self) -> bool:
        """Whether the port is open."""
        return self._port is not None

    @property
    def base_url(self) -> str:
        """``http://127.0.0.1:PORT``, for ``discord.Asset.BASE``. Raises RuntimeError before the start."""
        if self._port is None:
            message = "the loopback Discord is not listening"
            raise RuntimeError(message)
        return f"http://{HOST}:{self._port}"

    @property
    def api_base(self) -> str:
        """For ``discord.http.Route.BASE``."""
        return self.base_url + PREFIX

    @property
    def gateway_url(self) -> str:
        """For ``discord.gateway.DiscordWebSocket.DEFAULT_GATEWAY``."""
        return f"{self.base_url.replace('http', 'ws', 1)}/gateway"

    async def start(self, *, port: int = 0) -> None:
        """Listen; port 0 takes a free one, another number is for coming back after :meth:`aclose`."""
        app = web.Application(client_max_size=1 << 30)
        routes = ChannelRoutes(self.world, self._messages).routes()
        routes += OtherRoutes(self.world, self._messages, self._registry, self._interactions, lambda: self.gateway_url).routes()
        app.router.add_get("/gateway", self.gateway.handle)
        app.router.add_get("/attachments/{channel_id}/{attachment_id}/{filename}", self._attachment)
        self._rest.install(app, routes)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
        await self._runner.setup()
        site = web.TCPSite(self._runner, HOST, port)
        await site.start()
        self._port = self._runner.addresses[0][1]
        self.world.base_url = self.base_url
        self.gateway.accepting = True

    async def aclose(self) -> None:
        """Close every connection and the port; nothing runs afterwards. The log and the world stay readable."""
        self.faults.clear()
        await self.gateway.aclose()
        self._interactions.aclose()
        if self._runner is not None:
            await self._runner.cleanup()
        self._runner = None
        self._port = None

    async def __aenter__(self) -> Self:
        """Start."""
        await self.start()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Close."""
        await self.aclose()

    def stats(self) -> Mapping[str, int]:
        """Counts: what is open now and what was seen."""
        return {
            "listening": int(self.listening),
            "gateway_connections": len(self.gateway.links),
            "gateway_identified": self.gateway.connected,
            "gateway_sessions": len(self.gateway.sessions),
            "requests_in_flight": self._rest.in_flight,
            "requests": len(self.log.of("request")),
            "messages": len(self.log.of("message.create")),
            "records": len(self.log),
        }

    async def _attachment(self, request: web.Request) -> web.StreamResponse:
        channel = self.world.channels.get(int(request.match_info["channel_id"]))
        wanted = request.match_info["attachment_id"]
        rows = [one for message in channel.messages.values() for one in message.attachments] if channel else []
        for row in rows:
            if str(row.id) == wanted:
                return web.Response(body=row.content, headers={"Content-Type": row.content_type})
        return web.Response(status=404, text="This content is no longer available.")
