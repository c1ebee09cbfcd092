"""Nightporter looks for transcripts where the agent writes them."""

from __future__ import annotations

from pathlib import Path

from bot.agents.claude import ClaudeConfig


def test_the_transcripts_are_in_the_home_folder_that_the_agent_is_given(tmp_path: Path) -> None:
    config = ClaudeConfig(state_dir=tmp_path, environ={"HOME": "/home/porter"})
    assert config.transcripts == Path("/home/porter/.claude/projects")
    moved = ClaudeConfig(state_dir=tmp_path, environ={"HOME": "/home/porter"}, env={"HOME": "/home/agent"})
    assert moved.transcripts == Path("/home/agent/.claude/projects")


def test_a_folder_of_its_own_is_named_to_the_agent_unless_it_is_the_default_one(tmp_path: Path) -> None:
    default = ClaudeConfig(state_dir=tmp_path, environ={"HOME": "/home/porter"}, config_dir=Path("/home/porter/.claude"))
    assert default.own_folder is None
    # The same folder is not the default one of an agent that has another home.
    moved = ClaudeConfig(
        state_dir=tmp_path, environ={"HOME": "/home/porter"}, config_dir=Path("/home/porter/.claude"), env={"HOME": "/home/agent"}
    )
    assert moved.own_folder == Path("/home/porter/.claude")
