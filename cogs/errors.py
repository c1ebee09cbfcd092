"""Answers for every command that failed: one plain sentence to the person, the traceback to the log."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import discord
import structlog
from discord import app_commands
from discord.ext import commands

from bot.gateway import sentences
from bot.gateway.answers import refuse
from bot.gateway.courtesy import say_aside
from cogs.common import who
from storage.errors import Impossible, StorageError

if TYPE_CHECKING:
    from bot.gateway.bot import NightporterBot

log = structlog.get_logger(__name__)


class Errors(commands.Cog):
    """Takes the place of the tree's own handler, which would only log and leave the person with "did not respond"."""

    def __init__(self, bot: NightporterBot) -> None:
        self._tree = bot.tree
        self._before = bot.tree.on_error

    async def cog_load(self) -> None:
        """Begin to answer."""
        self._tree.error(self.answer)

    async def cog_unload(self) -> None:
        """Leave the tree as it was."""
        self._tree.error(self._before)

    async def answer(self, interaction: discord.Interaction[Any], error: app_commands.AppCommandError) -> None:
        """Say it; in the channel if the command was never acknowledged."""
        sentence = _sentence(error)
        cause = error.original if isinstance(error, app_commands.CommandInvokeError) else error
        if sentence is sentences.FAULT:
            command = interaction.command.qualified_name if interaction.command is not None else None
            log.error("command.failed", command=command, exc_info=cause)
        else:
            log.warning("command.not_done", error=str(cause))
        if interaction.type is discord.InteractionType.autocomplete:
            return
        if await refuse(interaction, sentence):
            return
        # A stranger gets nothing that others see.
        if interaction.channel_id is not None and who(interaction) is not None:
            await say_aside(interaction.client, interaction.channel_id, f"{interaction.user.display_name}: {sentence}")


def _sentence(error: app_commands.AppCommandError) -> str:
    if isinstance(error, app_commands.CommandNotFound | app_commands.CommandSignatureMismatch):
        return sentences.GONE
    if isinstance(error, app_commands.CheckFailure):
        return sentences.STRANGER
    if isinstance(error, app_commands.TransformerError):
        return "One of the command's options could not be read; choose it from what is offered as you type."
    if isinstance(error, app_commands.CommandInvokeError):
        cause = error.original
        if isinstance(cause, StorageError) and not isinstance(cause, Impossible):
            return sentences.NO_DATABASE
    return sentences.FAULT


async def setup(bot: NightporterBot) -> None:
    """For `load_extension`."""
    await bot.add_cog(Errors(bot))
