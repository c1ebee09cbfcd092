"""Coding agents behind one interface: see `bot.agents.base`."""
