"""`nightporter run` with the scripted agent in the place of Claude: everything else is the real thing, the process too."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from functools import partial

from bot import app, cli
from bot.agents.base import AgentProvider
from bot.agents.scripted import ScriptedProvider
from bot.clock import Clock
from bot.settings import Settings


class Scripted(ScriptedProvider):
    """Under the name that the configuration knows."""

    name = "claude"


def scripted(settings: Settings, clock: Clock, environ: Mapping[str, str]) -> Sequence[AgentProvider]:
    return (Scripted(settings.state_dir, clock, environ=dict(environ)),)


if __name__ == "__main__":
    app.run = partial(app.run, providers=scripted)
    sys.exit(cli.main())
