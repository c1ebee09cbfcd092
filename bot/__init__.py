"""Nightporter: a bridge between chat channels and coding agents that can wait."""
