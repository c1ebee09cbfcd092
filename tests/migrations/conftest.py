"""The databases of the storage suite: what upgrades is the same on both."""

from __future__ import annotations

from tests.integration.storage.conftest import empty_url, postgres, time

__all__ = ["empty_url", "postgres", "time"]
