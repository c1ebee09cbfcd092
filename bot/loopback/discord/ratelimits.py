"""Rate-limit buckets: fixed windows for each route and major parameter, with the headers clients steer by."""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass

from .config import LoopbackConfig, RateRule
from .errors import Json
from .timing import LoopbackClock

VIA = "1.1 google"
"""Discord's answers pass Google's front end; clients tell its 429 from Cloudflare's by this header."""


@dataclass(slots=True)
class _Window:
    ends: float
    used: int = 0


@dataclass(slots=True, frozen=True)
class Verdict:
    """Whether a request may pass; ``retry_after_s`` is set when it may not."""

    headers: dict[str, str]
    retry_after_s: float | None = None


class Buckets:
    """Counts requests."""

    def __init__(self, config: LoopbackConfig, clock: LoopbackClock) -> None:
        self._config = config
        self._clock = clock
        self._windows: dict[tuple[str, str], _Window] = {}

    def take(self, method: str, template: str, major: str) -> Verdict:
        """Count one request of this route and say what its answer must carry."""
        name = f"{method} {template}"
        rule: RateRule = self._config.rates.get(name, self._config.default_rate)
        now = self._clock.monotonic_s()
        window = self._windows.get((name, major))
        if window is None or now >= window.ends:
            window = self._windows[name, major] = _Window(ends=now + rule.per_s)
        left_s = max(window.ends - now, 0.001)
        allowed = window.used < rule.limit
        window.used += allowed
        headers = {
            "X-RateLimit-Limit": str(rule.limit),
            "X-RateLimit-Remaining": str(rule.limit - window.used),
            "X-RateLimit-Reset": f"{self._clock.now_ms() / 1000 + left_s:.3f}",
            "X-RateLimit-Reset-After": f"{left_s:.3f}",
            "X-RateLimit-Bucket": hashlib.sha256(name.encode()).hexdigest()[:32],
        }
        if allowed:
            return Verdict(headers)
        return Verdict(headers | limited_headers(left_s, scope="user"), left_s)


def limited_headers(retry_after_s: float, *, scope: str) -> dict[str, str]:
    """Headers of a 429 of Discord's own."""
    headers = {"Via": VIA, "Retry-After": str(math.ceil(retry_after_s)), "X-RateLimit-Scope": scope}
    return headers | ({"X-RateLimit-Global": "true"} if scope == "global" else {})


def limited_body(retry_after_s: float, *, is_global: bool) -> Json:
    """Body of a 429 of Discord's own; ``retry_after`` in seconds."""
    return {"message": "You are being rate limited.", "retry_after": round(retry_after_s, 3), "global": is_global}
