"""Gateway sessions: the numbered events of each, kept for RESUME, and the connection that carries them now."""

from __future__ import annotations

import asyncio
import contextlib
import json
import secrets
from dataclasses import dataclass, field

from aiohttp import WSCloseCode, web

from .config import Intent
from .errors import Json


class Link:
    """One websocket. Frames leave in order through a writer task; ``hold`` makes it silent (a stalled gateway)."""

    def __init__(self, ws: web.WebSocketResponse, transport: asyncio.Transport | None) -> None:
        self.ws = ws
        self._transport = transport
        self._queue: asyncio.Queue[str] = asyncio.Queue()
        self.flowing = asyncio.Event()
        self.flowing.set()
        self.session: Session | None = None
        self.close_code: int | None = None
        self._writer = asyncio.create_task(self._write(), name="loopback-discord-writer")

    def send(self, frame: Json) -> None:
        """Queue a frame."""
        self._queue.put_nowait(json.dumps(frame))

    def send_op(self, op: int, data: object = None) -> None:
        """Queue a frame that is not an event."""
        self.send({"op": op, "d": data, "s": None, "t": None})

    async def _write(self) -> None:
        with contextlib.suppress(ConnectionError, RuntimeError):
            while True:
                frame = await self._queue.get()
                await self.flowing.wait()
                await self.ws.send_str(frame)
                self._queue.task_done()

    async def close(self, code: int, reason: str = "") -> None:
        """Close with a code, after what is queued if the link flows."""
        self.close_code = code
        if self.flowing.is_set() and not self._writer.done():
            flushed = asyncio.ensure_future(self._queue.join())
            await asyncio.wait({flushed, self._writer}, return_when=asyncio.FIRST_COMPLETED)
            flushed.cancel()
        await self.ws.close(code=code, message=reason.encode())

    def abort(self) -> None:
        """Cut the TCP connection without a close frame."""
        if self._transport is not None:
            self._transport.abort()

    async def end(self) -> None:
        """End the writer."""
        self._writer.cancel()
        await asyncio.wait({self._writer})

    async def shut_down(self) -> None:
        """Leave as a server that stops."""
        self.flowing.set()
        self.close_code = WSCloseCode.GOING_AWAY
        await self.ws.close(code=WSCloseCode.GOING_AWAY)


@dataclass(slots=True, eq=False)
class Session:
    """What IDENTIFY began and RESUME goes on with."""

    intents: Intent
    id: str = field(default_factory=lambda: secrets.token_hex(16))
    seq: int = 0
    events: list[Json] = field(default_factory=list)
    link: Link | None = None
    resumable: bool = True
    left_at_s: float | None = None

    def push(self, event: str, data: Json, *, copies: int = 1) -> None:
        """Number an event, keep it, and send it if there is a connection; ``copies`` sends the same frame again."""
        self.seq += 1
        frame: Json = {"op": 0, "t": event, "s": self.seq, "d": data}
        self.events.append(frame)
        if self.link is not None:
            for _ in range(copies):
                self.link.send(frame)

    def replay(self, link: Link, after: int) -> int:
        """Send what came after the number ``after`` on a new connection; returns how many."""
        missed = [frame for frame in self.events if frame["s"] > after]
        for frame in missed:
            link.send(frame)
        return len(missed)
