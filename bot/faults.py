"""Kills this process at a named crash point when a test asks for it by environment variable; otherwise does nothing.

`NIGHTPORTER_CRASH=C3.before:1` means SIGKILL right before the first COMMIT of a transaction C3; `.after` right after it is on
disk; the number is the pass at which it happens. The points are the commits of `storage.points`, and both sides of everything
that is done to the outside or asked of it: an agent's process and its turn, a message to the chat, the chat's history. An
acknowledged command has no point of its own: killed there is killed before the commit that follows (`stop.before`).
"""

from __future__ import annotations

import asyncio
import os
import re
import signal
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Final, cast

from bot.agents.base import AgentEvent, AgentProvider, AgentSession, Lost, PromptPart, SessionSpec, ToolHandler
from bot.errors import ConfigError
from bot.runtime.ports import Chat
from storage.points import COMMITS, FaultHook

#: Where the order comes from. It is no setting: nobody configures a crash.
CRASH_VARIABLE: Final = "NIGHTPORTER_CRASH"

#: What is done to the outside, or asked of it: method of the adapter, and the name of its point.
_OF_PROVIDER: Final = {"outcome": "agent.outcome", "prove_dead": "agent.prove_dead"}
_OF_SESSION: Final = {"interrupt": "agent.interrupt", "swept": "agent.swept", "close": "agent.close"}
_OF_CHAT: Final = {"send": "chat.send", "history": "chat.history", "typing": "chat.typing", "seen": "chat.seen"}
_OPEN: Final = "agent.open"
_TURN: Final = "agent.turn"

#: Every point, without its side.
POINTS: Final = COMMITS | {_OPEN, _TURN, *_OF_PROVIDER.values(), *_OF_SESSION.values(), *_OF_CHAT.values()}

_ORDER = re.compile(r"(?P<point>[A-Za-z0-9_.]+)\.(?P<side>before|after):(?P<passes>[1-9]\d*)")


def crash_hook(env: Mapping[str, str]) -> FaultHook | None:
    """What is called at each point; None in production.

    Raises:
        ConfigError: the variable is set and cannot be read, or names no point.
    """
    order = env.get(CRASH_VARIABLE)
    if not order:
        return None
    match = _ORDER.fullmatch(order)
    if match is None or match["point"] not in POINTS:
        raise ConfigError(f"{CRASH_VARIABLE}: {order!r} is no crash point: unset it, or write POINT.before:N or POINT.after:N")
    point, passes = f"{match['point']}.{match['side']}", int(match["passes"])
    seen: Counter[str] = Counter()

    async def crash(name: str) -> None:
        seen[name] += 1
        if name == point and seen[name] == passes:
            os.kill(os.getpid(), signal.SIGKILL)
            # The signal may be delivered to another thread; nothing of ours may run until then.
            await asyncio.get_running_loop().create_future()

    return crash


def chat_with_points(chat: Chat, hook: FaultHook) -> Chat:
    """The same chat, with a point on both sides of each request."""
    return cast("Chat", _Points(chat, _OF_CHAT, hook))


def agent_with_points(provider: AgentProvider, hook: FaultHook) -> AgentProvider:
    """The same agent, with points around everything that touches its processes and transcripts."""
    return cast("AgentProvider", _Provider(provider, _OF_PROVIDER, hook))


class _Points:
    """Stands before an adapter; what has no point goes straight through."""

    def __init__(self, inner: object, points: Mapping[str, str], hook: FaultHook) -> None:
        self._inner = inner
        self._points = points
        self._hook = hook

    def __getattr__(self, name: str) -> object:
        attribute = getattr(self._inner, name)
        point = self._points.get(name)
        return attribute if point is None else self._around(point, attribute)

    def _around(self, point: str, call: Callable[..., Awaitable[object]]) -> Callable[..., Awaitable[object]]:
        async def passed(*arguments: object, **named: object) -> object:
            await self._hook(f"{point}.before")
            result = await call(*arguments, **named)
            await self._hook(f"{point}.after")
            return result

        return passed


class _Provider(_Points):
    async def open(self, spec: SessionSpec) -> AgentSession | Lost:
        await self._hook(f"{_OPEN}.before")
        opened = await cast("AgentProvider", self._inner).open(spec)
        await self._hook(f"{_OPEN}.after")
        return opened if isinstance(opened, Lost) else cast("AgentSession", _Session(opened, _OF_SESSION, self._hook))


class _Session(_Points):
    async def run(self, prompt_uuid: str, parts: Sequence[PromptPart], tools: ToolHandler) -> AsyncIterator[AgentEvent]:
        await self._hook(f"{_TURN}.before")
        async for event in cast("AgentSession", self._inner).run(prompt_uuid, parts, tools):
            yield event
        await self._hook(f"{_TURN}.after")
