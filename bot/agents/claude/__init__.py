"""Claude Code as an agent, through claude-agent-sdk and the program in its wheel, both pinned."""

from bot.agents.claude.config import ClaudeConfig
from bot.agents.claude.provider import ClaudeProvider

__all__ = ["ClaudeConfig", "ClaudeProvider"]
