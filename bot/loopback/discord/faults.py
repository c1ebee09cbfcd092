"""Injected faults of the HTTP side: each matches some requests, strikes a number of times, then all is normal again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from .call import Call
from .errors import Code

Effect = Literal["status", "drop", "delay", "hang", "rate_limit", "cloudflare", "refuse"]
When = Literal["before", "after"]


@dataclass(slots=True, eq=False)
class RestFault:
    """One fault. ``when`` says whether the request takes effect first; ``left`` counts down, ``hits`` up."""

    method: str
    route: str
    effect: Effect
    when: When
    left: int
    status: int = 500
    seconds: float = 0.0
    is_global: bool = False
    code: Code = Code.GENERAL
    where: Callable[[Call], bool] | None = None
    hits: int = 0
    released: asyncio.Event = field(default_factory=asyncio.Event)

    def matches(self, call: Call) -> bool:
        """Whether it strikes this request."""
        if self.left <= 0 or self.method not in {"*", call.method}:
            return False
        if not _route_matches(self.route, call):
            return False
        return self.where is None or self.where(call)

    def release(self) -> None:
        """Let requests that hang go; their connections are dropped."""
        self.released.set()

    def lift(self) -> None:
        """End it before its count does."""
        self.left = 0
        self.release()


def _route_matches(route: str, call: Call) -> bool:
    if route in {"*", call.template, call.path}:
        return True
    wanted, got = route.split("/"), call.path.split("/")
    return len(wanted) == len(got) and all(a in {"*", b} for a, b in zip(wanted, got, strict=True))


class RestFaults:
    """The faults that wait for their requests.

    ``route`` is a template (``/channels/{channel_id}/messages``), a path, a path with ``*`` for single segments, or
    ``*`` for everything; all without the ``/api/v10`` prefix. ``where`` looks at the parsed request.
    """

    def __init__(self) -> None:
        self._faults: list[RestFault] = []

    def _add(self, fault: RestFault) -> RestFault:
        self._faults.append(fault)
        return fault

    def status(
        self,
        method: str,
        route: str,
        status: int,
        *,
        when: When = "before",
        times: int = 1,
        where: Callable[[Call], bool] | None = None,
    ) -> RestFault:
        """Answer with this status and a body that is not JSON, as Discord's edge does."""
        return self._add(RestFault(method, route, "status", when, times, status=status, where=where))

    def refuse(self, method: str, route: str, code: Code, *, times: int = 1, where: Callable[[Call], bool] | None = None) -> RestFault:
        """Refuse with one of Discord's own errors, its status and JSON, for example ``Code.MISSING_PERMISSIONS``."""
        return self._add(RestFault(method, route, "refuse", "before", times, code=code, where=where))

    def drop(
        self, method: str, route: str, *, when: When = "before", times: int = 1, where: Callable[[Call], bool] | None = None
    ) -> RestFault:
        """Cut the TCP connection instead of answering."""
        return self._add(RestFault(method, route, "drop", when, times, where=where))

    def delay(
        self,
        method: str,
        route: str,
        seconds: float,
        *,
        when: When = "before",
        times: int = 1,
        where: Callable[[Call], bool] | None = None,
    ) -> RestFault:
        """Wait this many real seconds, before the effect or between effect and answer."""
        return self._add(RestFault(method, route, "delay", when, times, seconds=seconds, where=where))

    def hang(
        self, method: str, route: str, *, when: When = "before", times: int = 1, where: Callable[[Call], bool] | None = None
    ) -> RestFault:
        """Never answer, until the fault is released or the server closes."""
        return self._add(RestFault(method, route, "hang", when, times, where=where))

    def rate_limit(
        self,
        method: str,
        route: str,
        retry_after_s: float,
        *,
        is_global: bool = False,
        times: int = 1,
        where: Callable[[Call], bool] | None = None,
    ) -> RestFault:
        """Answer 429 as Discord itself does."""
        return self._add(RestFault(method, route, "rate_limit", "before", times, seconds=retry_after_s, is_global=is_global, where=where))

    def cloudflare(self, method: str, route: str, *, times: int = 1, where: Callable[[Call], bool] | None = None) -> RestFault:
        """Answer 429 with a page of HTML and no ``Via``: the ban of an address."""
        return self._add(RestFault(method, route, "cloudflare", "before", times, status=429, where=where))

    def take(self, call: Call) -> RestFault | None:
        """The first fault that strikes this request, counted."""
        for fault in self._faults:
            if fault.matches(call):
                fault.left -= 1
                fault.hits += 1
                return fault
        return None

    def clear(self) -> None:
        """Lift all."""
        for fault in self._faults:
            fault.lift()
        self._faults.clear()
