"""Strict stand-ins for Discord and for the model API on 127.0.0.1, for `nightporter demo` and for the tests."""
