"""What a person got wrong in the configuration is one clear sentence and an exit code, never a traceback."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

from bot.demo.process import RUN, clean_env
from bot.errors import EXIT_CONFIG, EXIT_UNAVAILABLE
from bot.loopback.discord import PRIVILEGED, Intent, LoopbackConfig
from tests.support.porter import Porter

#: Runs the same command while the SDK's own program cannot be found.
WITHOUT_CLI = """\
import sys
import bot.checks
bot.checks.bundled_cli = lambda: None
from bot.cli import main
sys.exit(main())
"""


async def ends(porter: Porter) -> tuple[int, str]:
    """Start it; its exit code and what it has written to the screen."""
    await porter.start(ready=False)
    return await porter.until_ended(), porter.output


def sentence(output: str) -> str:
    """The one sentence for the person; there is no traceback anywhere."""
    assert "Traceback" not in output
    said = [line for line in output.splitlines() if line.startswith("nightporter: ")]
    assert len(said) == 1, output
    return said[0]


async def test_a_wrong_token(tmp_path: Path) -> None:
    async with Porter(tmp_path) as porter:
        token = tmp_path / "discord-token"
        token.write_text("somebody.elses.token")
        code, output = await ends(porter)
        assert code == EXIT_CONFIG
        assert "discord.token" in sentence(output)
        assert "somebody.elses.token" not in output


async def test_a_missing_privileged_intent(tmp_path: Path) -> None:
    without = LoopbackConfig(privileged_intents=PRIVILEGED & ~Intent.MESSAGE_CONTENT)
    async with Porter(tmp_path, discord=without) as porter:
        code, output = await ends(porter)
        assert code == EXIT_CONFIG
        assert "Message Content" in sentence(output)


async def test_a_missing_project_folder(tmp_path: Path) -> None:
    async with Porter(tmp_path, command=RUN) as porter:
        (porter.project / "README.md").unlink()
        porter.project.rmdir()
        code, output = await ends(porter)
        assert code == EXIT_CONFIG
        assert "projects[0].path" in sentence(output)
        assert str(porter.project) in sentence(output)


async def test_a_missing_agent_program(tmp_path: Path) -> None:
    async with Porter(tmp_path, command=(sys.executable, "-c", WITHOUT_CLI, "run")) as porter:
        code, output = await ends(porter)
        assert code == EXIT_UNAVAILABLE
        assert "claude-agent-sdk" in sentence(output)


async def test_a_typo_in_the_configuration(tmp_path: Path) -> None:
    async with Porter(tmp_path, command=RUN) as porter:
        text = porter.config_file.read_text()
        porter.config_file.write_text(text.replace("token_file", "tokn_file"))
        code, output = await ends(porter)
        assert code == EXIT_CONFIG
        assert "discord.tokn_file" in sentence(output)
        assert "token_file" in sentence(output).replace("tokn_file", "")


async def test_a_second_process_on_the_same_database(tmp_path: Path) -> None:
    async with Porter(tmp_path) as porter:
        await porter.start()
        first = porter.process
        second = await porter.start(ready=False)
        assert await asyncio.wait_for(second.wait(), 30) == EXIT_UNAVAILABLE
        assert "Another process uses" in sentence(porter.output)
        assert first.exit_code is None


@pytest.mark.parametrize("arguments", [("run",), ("check-config",)])
async def test_no_configuration_at_all(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "bot.cli", *arguments, cwd=tmp_path, env=clean_env("none"), stderr=asyncio.subprocess.PIPE
    )
    _, written = await process.communicate()
    assert process.returncode == EXIT_CONFIG
    assert "config.example.toml" in sentence(written.decode())
