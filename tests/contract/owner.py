"""A process of its own that owns an agent, for tests that kill it: prints who the agent is, then a line for each tool event."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import os
import sys
import uuid
from pathlib import Path

import structlog

from bot.agents.base import AgentProvider, Lost, SessionSpec, TextPart, ToolEnded, ToolStarted
from bot.agents.claude import ClaudeConfig, ClaudeProvider
from bot.agents.scripted import ScriptedProvider
from bot.agents.tools import TOOLS
from bot.clock import SystemClock
from tests.contract.harness import ALLOW_ALL, KEY, Calls


async def main(name: str, root: Path, url: str, prompt: str) -> None:
    provider: AgentProvider
    if name == "scripted":
        provider = ScriptedProvider(root / "state", SystemClock(), environ=dict(os.environ))
    else:
        config = ClaudeConfig(root / "state", dict(os.environ), base_url=url, api_key=KEY)
        provider = ClaudeProvider(config, SystemClock())
    native_id = str(uuid.uuid4())
    spec = SessionSpec(1, 1, root / "project", native_id, False, 0, "", ALLOW_ALL, TOOLS)  # resume
    session = await provider.open(spec)
    assert not isinstance(session, Lost)
    say(dataclasses.asdict(session.process))
    async for event in session.run(str(uuid.uuid4()), [TextPart(prompt)], Calls()):
        if isinstance(event, ToolStarted | ToolEnded):
            say(type(event).__name__)


def say(what: object) -> None:
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    # Standard output belongs to the test.
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
    asyncio.run(main(sys.argv[1], Path(sys.argv[2]), sys.argv[3], sys.argv[4]))
