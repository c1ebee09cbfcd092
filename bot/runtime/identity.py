"""The identity of an agent's process as JSON, as it is stored with the intent (C3)."""

from __future__ import annotations

import json
from dataclasses import asdict

from bot.agents.base import AgentProcess


def to_json(process: AgentProcess) -> str:
    """As it is stored."""
    return json.dumps(asdict(process))


def from_json(text: str | None) -> AgentProcess | None:
    """As it was stored; None if it is not one of ours, and then nothing can be proven about it."""
    try:
        return AgentProcess(**json.loads(text or ""))
    except (ValueError, TypeError):
        return None
