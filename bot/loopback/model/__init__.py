"""A Messages API on 127.0.0.1 that the real agent program can talk to: strict, scriptable, with every fault on request."""

from bot.loopback.model.brain import Brain, script_brain
from bot.loopback.model.log import Entry, ModelLog, ModelRequest
from bot.loopback.model.server import ModelApi

__all__ = ["Brain", "Entry", "ModelApi", "ModelLog", "ModelRequest", "script_brain"]
