"""One walk over all cogs: names, descriptions, where and by whom they can be used."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from discord import app_commands

from bot.gateway.bot import NightporterBot
from tests.integration.cogs.conftest import make_bot, prepare, settings_in
from tests.support.gateway_backend import StoreBackend

COMMANDS = {
    "continuations cancel",
    "continuations list",
    "continuations wake",
    "help",
    "queue list",
    "queue remove",
    "reset",
    "status",
    "stop",
}


def walk(bot: NightporterBot) -> Iterator[app_commands.Command[Any, ..., Any]]:
    for command in bot.tree.walk_commands():
        if isinstance(command, app_commands.Command):
            yield command


async def test_every_command_has_a_good_name_a_description_and_belongs_to_a_guild(tmp_path: Path, backend: StoreBackend) -> None:
    bot = make_bot(settings_in(tmp_path, 1, 2, [3]), backend)
    await prepare(bot)
    commands = list(walk(bot))
    assert {command.qualified_name for command in commands} == COMMANDS
    for command in commands:
        assert re.fullmatch(r"[a-z-]{1,32}( [a-z-]{1,32})?", command.qualified_name)
        assert 10 <= len(command.description) <= 100
        assert command.description[0].isupper()
        assert not command.description.endswith(".")
        for parameter in command.parameters:
            assert len(str(parameter.description)) > 5
            assert parameter.autocomplete or parameter.choices
    for top in bot.tree.get_commands():
        assert getattr(top, "guild_only", False), top.name
        # Who may use it is decided by our own lists; a hint in Discord would only hide it from people who may.
        assert getattr(top, "default_permissions", None) is None
    assert set(bot.cogs) == {"Chat", "Continuations", "Conversation", "Errors"}
    await bot.close()


async def test_a_cog_that_is_taken_out_leaves_the_tree_as_it_was(tmp_path: Path, backend: StoreBackend) -> None:
    bot = make_bot(settings_in(tmp_path, 1, 2, [3]), backend)
    before = bot.tree.on_error
    await prepare(bot)
    assert bot.tree.on_error != before
    await bot.unload_extension("cogs.errors")
    assert bot.tree.on_error == before
    await bot.close()
