"""Kills this process at a named commit point when a test asks for it by environment variable; otherwise does nothing.

`NIGHTPORTER_CRASH=C3.before:1` means SIGKILL right before the first COMMIT of a transaction C3; `.after` right after it is on
disk; the number is the pass at which it happens. The points are those of `storage.points`.
"""

from __future__ import annotations

import asyncio
import os
import re
import signal
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping

from bot.errors import ConfigError

#: Where the order comes from. It is no setting: nobody configures a crash.
CRASH_VARIABLE = "NIGHTPORTER_CRASH"

_ORDER = re.compile(r"(?P<point>[A-Za-z0-9]+\.(?:before|after)):(?P<passes>[1-9]\d*)")


async def _nothing(_point: str) -> None:
    """Production."""


def crash_hook(env: Mapping[str, str]) -> Callable[[str], Awaitable[None]]:
    """What `Store.open` calls at its commit points.

    Raises:
        ConfigError: the variable is set and cannot be read.
    """
    order = env.get(CRASH_VARIABLE)
    if not order:
        return _nothing
    match = _ORDER.fullmatch(order)
    if match is None:
        raise ConfigError(f"{CRASH_VARIABLE}: {order!r} is no crash point: unset it, or write POINT.before:N or POINT.after:N")
    point, passes = match["point"], int(match["passes"])
    seen: Counter[str] = Counter()

    async def crash(name: str) -> None:
        seen[name] += 1
        if name == point and seen[name] == passes:
            os.kill(os.getpid(), signal.SIGKILL)
            # The signal may be delivered to another thread; nothing of ours may run until then.
            await asyncio.get_running_loop().create_future()

    return crash
