"""`nightporter demo`: the main job, played on this machine alone and told as a transcript; no account, no network."""

from bot.demo.play import main

__all__ = ["main"]
