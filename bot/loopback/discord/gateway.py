"""The gateway: identify, resume, heartbeat and events over a websocket, and the faults a gateway can have."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from aiohttp import WSMsgType, web

from . import payloads
from .config import KNOWN_INTENT_BITS, PRIVILEGED, Intent
from .errors import Json
from .log import Record
from .model import Channel
from .permissions import Permission
from .sessions import Link, Session
from .world import World

DISPATCH, HEARTBEAT, IDENTIFY, RESUME, RECONNECT, MEMBERS, INVALID_SESSION, HELLO, ACK = 0, 1, 2, 6, 7, 8, 9, 10, 11
IGNORED_OPS = frozenset({3, 4, 14, 31})
UNKNOWN_OP, DECODE_ERROR, NOT_AUTHENTICATED, BAD_TOKEN, TWICE, BAD_INTENTS, NOT_GRANTED = 4001, 4002, 4003, 4004, 4005, 4013, 4014
KEEPS_SESSION_FROM = 4000
"""A client that closes with 1000 or 1001 ends its session; with any other code it may resume."""


class Gateway:
    """All sessions of the bot. Public methods below ``emit`` are faults for tests; each acts at once."""

    def __init__(self, world: World, url: Callable[[], str]) -> None:
        self._world = world
        self._url = url
        self.sessions: dict[str, Session] = {}
        self.links: set[Link] = set()
        self.accepting = True
        self._stalled = False
        self._refuse_resumes = 0
        self._overlap = 0
        self._duplicates: dict[str, int] = {}
        world.emitter = self

    # --- serving -------------------------------------------------------------------------------------------------

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Serve one connection until it ends."""
        if not self.accepting:
            self._world.log.append("gateway.refuse", path=request.path)
            if request.transport is not None:
                request.transport.close()
            return web.Response(status=503)
        ws = web.WebSocketResponse(timeout=1.0, autoping=True, max_msg_size=0)
        await ws.prepare(request)
        link = Link(ws, request.transport)
        if self._stalled:
            link.flowing.clear()
        self.links.add(link)
        self._world.log.append("gateway.connect", path=request.path_qs)
        link.send_op(HELLO, {"heartbeat_interval": self._world.config.heartbeat_interval_ms, "_trace": []})
        try:
            async for message in ws:
                if message.type is WSMsgType.TEXT:
                    await self._received(link, message.data)
        finally:
            await link.end()
            self._left(link)
        return ws

    def _left(self, link: Link) -> None:
        self.links.discard(link)
        code = link.close_code or link.ws.close_code
        session = link.session
        if session is not None and session.link is link:
            session.link = None
            session.left_at_s = self._world.clock.monotonic_s()
            if link.close_code is None and code is not None and 1000 <= code < 1002:  # noqa: PLR2004  # see KEEPS_SESSION_FROM
                self.sessions.pop(session.id, None)
        self._world.log.append("gateway.close", status=code, detail={"session": session.id if session else None})

    async def _received(self, link: Link, text: str) -> None:
        try:
            frame = json.loads(text)
            op, data = frame["op"], frame.get("d")
        except (ValueError, KeyError, TypeError):
            await link.close(DECODE_ERROR, "Error while decoding payload.")
            return
        if op == HEARTBEAT:
            link.send_op(ACK)
        elif op == IDENTIFY:
            await self._identify(link, data)
        elif op == RESUME:
            await self._resume(link, data)
        elif link.session is None:
            await link.close(NOT_AUTHENTICATED, "Not authenticated.")
        elif op == MEMBERS:
            self._members(link.session, data)
        elif op not in IGNORED_OPS:
            await link.close(UNKNOWN_OP, "Unknown opcode.")

    async def _identify(self, link: Link, data: Json) -> None:
        config = self._world.config
        asked = int(data.get("intents", 0))
        refusal: tuple[int, str] | None = None
        if link.session is not None:
            refusal = (TWICE, "Already authenticated.")
        elif data.get("token") != config.token:
            refusal = (BAD_TOKEN, "Authentication failed.")
        elif asked & ~KNOWN_INTENT_BITS:
            refusal = (BAD_INTENTS, "Invalid intents.")
        elif asked & PRIVILEGED & ~config.privileged_intents:
            refusal = (NOT_GRANTED, "Disallowed intents.")
        self._world.log.append("gateway.identify", status=refusal[0] if refusal else None, detail={"intents": asked})
        if refusal is not None:
            await link.close(*refusal)
            return
        session = Session(Intent(asked))
        self.sessions[session.id] = session
        session.link, link.session = link, session
        world = self._world
        mine = [guild for guild in world.guilds.values() if world.bot.id in guild.members]
        ready: Json = {
            "v": 10,
            "user": payloads.user(world.bot) | {"verified": True, "mfa_enabled": False, "email": None, "flags": 0, "bio": ""},
            "guilds": [{"id": str(guild.id), "unavailable": True} for guild in mine],
            "session_id": session.id,
            "session_type": "normal",
            "resume_gateway_url": self._url(),
            "application": {"id": str(world.application_id), "flags": application_flags(config.privileged_intents)},
            "private_channels": [],
            "shard": data.get("shard") or [0, 1],
        }
        session.push("READY", ready)
        if session.intents & Intent.GUILDS:
            for guild in mine:
                with_members = bool(session.intents & Intent.GUILD_PRESENCES)
                session.push("GUILD_CREATE", world.create_guild_event(guild, with_members=with_members))

    def _forget_old_sessions(self) -> None:
        limit = self._world.clock.monotonic_s() - self._world.config.session_keep_s
        for session in tuple(self.sessions.values()):
            if session.link is None and session.left_at_s is not None and session.left_at_s < limit:
                del self.sessions[session.id]

    async def _resume(self, link: Link, data: Json) -> None:
        self._forget_old_sessions()
        session = self.sessions.get(str(data.get("session_id")))
        refused = self._refuse_resumes > 0
        ok = session is not None and session.resumable and not refused and data.get("token") == self._world.config.token
        after = int(data.get("seq") or 0)
        if not ok or session is None or after > session.seq:
            self._refuse_resumes -= refused
            self._world.log.append("gateway.resume", status=INVALID_SESSION, detail={"session": data.get("session_id")})
            link.send_op(INVALID_SESSION, data=False)
            return
        if session.link is not None:
            session.link.abort()
        session.link, link.session = link, session
        replayed = session.replay(link, after - self._overlap)
        self._overlap = 0
        self._world.log.append("gateway.resume", detail={"session": session.id, "after": after, "replayed": replayed})
        session.push("RESUMED", {"_trace": []})

    def _members(self, session: Session, data: Json) -> None:
        guild_id = data.get("guild_id")
        guild = self._world.guilds.get(int(guild_id[0] if isinstance(guild_id, list) else guild_id or 0))
        if guild is None:
            return
        query, ids = data.get("query"), data.get("user_ids")
        ids = ids if isinstance(ids, list) or ids is None else [ids]
        everybody = ids is None and not query
        if ids is not None:
            wanted = {int(one) for one in ids}
            found = [one for one in guild.members.values() if one.id in wanted]
        elif everybody and not session.intents & Intent.GUILD_MEMBERS:
            found = []
        else:
            found = [one for one in guild.members.values() if one.user.name.startswith(query or "")]
        if limit := int(data.get("limit") or 0):
            found = found[:limit]
        present = {one.id for one in found}
        chunk: Json = {
            "guild_id": str(guild.id),
            "members": [payloads.member(one) for one in found],
            "chunk_index": 0,
            "chunk_count": 1,
            "not_found": [str(one) for one in ids or [] if int(one) not in present],
        }
        if data.get("nonce"):
            chunk["nonce"] = data["nonce"]
        session.push("GUILD_MEMBERS_CHUNK", chunk)

    # --- events --------------------------------------------------------------------------------------------------

    def emit(self, event: str, make: Callable[[bool], Json], *, channel: Channel | None = None, intent: Intent = Intent.NONE) -> None:
        """See :class:`world.Emitter`. Sessions without a connection keep the event for RESUME."""
        bot_id = self._world.bot.id
        if channel is not None and not self._world.rights(bot_id, channel) & Permission.VIEW_CHANNEL:
            return
        self._forget_old_sessions()
        copies = 1 + self._duplicates.pop(event, 0)
        for session in self.sessions.values():
            if intent and not session.intents & intent:
                continue
            session.push(event, make(bool(session.intents & Intent.MESSAGE_CONTENT)), copies=copies)

    # --- faults --------------------------------------------------------------------------------------------------

    def drop_connections(self) -> None:
        """Cut every TCP connection; sessions stay resumable and collect events."""
        for link in tuple(self.links):
            link.abort()

    def ask_reconnect(self) -> None:
        """Op 7."""
        self._to_all(RECONNECT)

    def invalidate(self, *, resumable: bool) -> None:
        """Op 9; what is not resumable is gone for good."""
        if not resumable:
            for session in self.sessions.values():
                session.resumable = False
        self._to_all(INVALID_SESSION, resumable)

    async def close_connections(self, code: int) -> None:
        """Close every connection with this code; 4009 also times the sessions out."""
        session_timed_out = 4009
        for link in tuple(self.links):
            if code == session_timed_out and link.session is not None:
                link.session.resumable = False
            await link.close(code)

    def refuse_resumes(self, times: int = 1) -> None:
        """Answer the next attempts to resume with op 9 false."""
        self._refuse_resumes = times

    def overlap_next_resume(self, events: int) -> None:
        """Have the next RESUME replay this many events that were already received."""
        self._overlap = events

    def stop_accepting(self) -> None:
        """Refuse new connections; the port stays and existing ones go on."""
        self.accepting = False

    def accept_again(self) -> None:
        """End :meth:`stop_accepting`."""
        self.accepting = True

    def duplicate_next(self, event: str, times: int = 1) -> None:
        """Send the next event of this name ``times`` more, with the same number."""
        self._duplicates[event] = times

    def replay_last(self, count: int) -> None:
        """Send the last events of every session again, with new numbers."""
        for session in self.sessions.values():
            for frame in session.events[-count:]:
                session.push(frame["t"], frame["d"])

    def send_event(self, event: str, data: Any) -> None:  # noqa: ANN401  # malformed on purpose, anything goes
        """Send any event, also one that no Discord would send."""
        for session in self.sessions.values():
            session.push(event, data)

    def stall(self) -> None:
        """Say nothing any more, not even heartbeat acknowledgements; connections stay open."""
        self._stalled = True
        for link in self.links:
            link.flowing.clear()

    def flow_again(self) -> None:
        """End :meth:`stall`; what was held is sent now."""
        self._stalled = False
        for link in self.links:
            link.flowing.set()

    async def identified(self, count: int = 1, *, timeout_s: float = 30.0) -> None:
        """Wait until this many sessions have been begun in all; each has got READY and its guilds by then, in the queue."""

        def enough(_: Record) -> bool:
            return sum(one.status is None for one in self._world.log.of("gateway.identify")) >= count

        await self._world.log.wait_for(enough, timeout_s=timeout_s)

    @property
    def connected(self) -> int:
        """How many identified connections there are."""
        return sum(session.link is not None for session in self.sessions.values())

    async def aclose(self) -> None:
        """End all connections."""
        self.accepting = False
        for link in tuple(self.links):
            await link.shut_down()

    def _to_all(self, op: int, data: object = None) -> None:
        for link in tuple(self.links):
            link.send_op(op, data)


def application_flags(granted: Intent) -> int:
    """The flags of an application whose privileged intents were switched on while it is in few guilds."""
    bits = {Intent.GUILD_PRESENCES: 1 << 13, Intent.GUILD_MEMBERS: 1 << 15, Intent.MESSAGE_CONTENT: 1 << 19}
    return sum(bit for intent, bit in bits.items() if granted & intent)
