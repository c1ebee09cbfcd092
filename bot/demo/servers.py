"""Sets the stage: loopback Discord and model API, people, two small projects, a configuration, and Nightporter beside them."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import tempfile
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

from bot.clock import Clock
from bot.demo.process import MARK, PorterProcess, clean_env
from bot.demo.scenes import DemoBrain
from bot.loopback.discord import Channel, Guild, LoopbackDiscord, Member
from bot.loopback.model import ModelApi

_T = TypeVar("_T")

_KEY = "loopback-model-key"
#: A process that does not end when it is told to is killed after this.
_STOP_S = 25.0

_FILES: Mapping[str, Mapping[str, str]] = {
    "backend": {"login.py": "def login(user: str) -> bool:\n    return bool(user)\n", "README.md": "# backend\n"},
    "website": {"index.html": "<!doctype html><title>Hotel</title>\n", "README.md": "# website\n"},
}


@dataclass(frozen=True, slots=True)
class Cast:
    """Who and what is there."""

    guild: Guild
    backend: Channel
    website: Channel
    #: Members who may talk to the agent.
    alice: Member
    bob: Member
    #: An admin.
    ada: Member


class Servers:
    """Everything that the demo starts; leaving the context ends all of it."""

    def __init__(self, clock: Clock, *, shortest_wait: str) -> None:
        self.mark = uuid.uuid4().hex
        self.discord = LoopbackDiscord()
        self.brain = DemoBrain(clock)
        self.model = ModelApi(clock, keys={_KEY}, brain=self.brain)
        self._shortest_wait = shortest_wait
        self._folder: Path | None = None
        self._cast: Cast | None = None
        self._porter: PorterProcess | None = None

    @property
    def folder(self) -> Path:
        """The demo's temporary folder."""
        return _there(self._folder)

    @property
    def cast(self) -> Cast:
        """People and channels."""
        return _there(self._cast)

    @property
    def porter(self) -> PorterProcess:
        """Nightporter."""
        return _there(self._porter)

    @property
    def database(self) -> Path:
        """Nightporter's SQLite file."""
        return self.folder / "state" / "nightporter.db"

    @property
    def ports(self) -> tuple[int, ...]:
        """Of the two servers; only while they listen."""
        return tuple(int(url.rpartition(":")[2]) for url in (self.discord.base_url, self.model.url))

    async def __aenter__(self) -> Self:
        self._folder = Path(tempfile.mkdtemp(prefix="nightporter-demo-"))
        try:
            await self._set_up()
        except BaseException:
            await self.aclose()
            raise
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.aclose()

    async def _set_up(self) -> None:
        await self.discord.start()
        await self.model.start()
        self._cast = await _invite(self.discord)
        for name, files in _FILES.items():
            await asyncio.to_thread(_make_project, self.folder / name, files)
        config = self._write_config()
        env = clean_env(self.mark)
        home = self.folder / "home"
        home.mkdir()
        self._porter = PorterProcess(config, self.folder / "nightporter.log", {**env, "HOME": str(home)})

    async def aclose(self) -> None:
        """End Nightporter first, then the servers, then remove the folder. Idempotent."""
        try:
            if self._porter is not None and self._porter.started:
                await self._porter.stop(_STOP_S)
        finally:
            await self.close_servers()
            if self._folder is not None:
                shutil.rmtree(self._folder, ignore_errors=True)

    async def close_servers(self) -> None:
        """Close both servers; their logs stay readable. Idempotent."""
        await self.model.close()
        await self.discord.aclose()

    def _write_config(self) -> Path:
        cast, folder = self.cast, self.folder
        secrets = folder / "secrets"
        secrets.mkdir(mode=0o700)
        _write_secret(secrets / "discord-token", self.discord.token)
        _write_secret(secrets / "model-key", _KEY)
        config = folder / "config.toml"
        config.write_text(
            f"""\
state_dir = "state"

[discord]
token_file = "secrets/discord-token"
guilds = [{cast.guild.id}]
api_base = "{self.discord.api_base}"
gateway_url = "{self.discord.gateway_url}"

[access]
users = [{cast.alice.id}, {cast.bob.id}, {cast.ada.id}]
admin_roles = [{cast.ada.roles[0].id}]

[wait]
min = "{self._shortest_wait}"

[limits]
drain = "3s"

[agents.claude]
base_url = "{self.model.url}"
api_key_file = "secrets/model-key"
model = "claude-sonnet-4-5"
env = {{ {MARK} = "{self.mark}" }}

[[projects]]
name = "backend"
path = "backend"
allowed_commands = ["git *"]

[[projects]]
name = "website"
path = "website"

[[channels]]
id = {cast.backend.id}
project = "backend"
listen = "all"

[[channels]]
id = {cast.website.id}
project = "website"
""",
            encoding="utf-8",
        )
        return config


async def _invite(discord: LoopbackDiscord) -> Cast:
    people = discord.people
    guild = await people.create_guild("hotel")
    porters = await people.create_role(guild, "porters")
    backend = await people.create_channel(guild, "backend")
    website = await people.create_channel(guild, "website")
    alice, bob = await people.join(guild, "alice"), await people.join(guild, "bob")
    ada = await people.join(guild, "ada", roles=[porters])
    return Cast(guild, backend, website, alice, bob, ada)


def _make_project(path: Path, files: Mapping[str, str]) -> None:
    path.mkdir()
    for name, text in files.items():
        (path / name).write_text(text, encoding="utf-8")
    # Nothing of the user's own git: no hooks, templates, signing or identity.
    env = {"PATH": os.environ.get("PATH", os.defpath), "HOME": str(path), "GIT_CONFIG_NOSYSTEM": "1"}
    who = ("-c", "user.name=alice", "-c", "user.email=alice@example.com")
    for words in (("init", "--quiet", "-b", "main"), ("add", "."), (*who, "commit", "--quiet", "-m", "Fix the login")):
        subprocess.run(("git", *words), cwd=path, env=env, check=True, capture_output=True)  # noqa: S607 - git as found


def _write_secret(path: Path, text: str) -> None:
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
        file.write(text)


def _there(value: _T | None) -> _T:
    if value is None:
        raise RuntimeError("the demo has not been set up")
    return value
