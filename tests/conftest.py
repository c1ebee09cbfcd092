"""What holds for every test: nothing from the developer's own environment, and no clock in hypothesis.

That sockets reach loopback only is set in pyproject.toml (pytest-socket).
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import hypothesis
import pytest

#: The same examples in every run, so that a change is judged by what it changes; `--hypothesis-profile=explore` looks for new ones.
hypothesis.settings.register_profile("nightporter", deadline=None, print_blob=True, derandomize=True)
hypothesis.settings.register_profile("explore", deadline=None, print_blob=True, max_examples=2_000)
hypothesis.settings.load_profile("nightporter")

#: Somebody who develops this with an agent, or runs a Nightporter, has these; a test must not see them.
_FOREIGN = ("NIGHTPORTER_", "ANTHROPIC_", "CLAUDE", "DISCORD_")


@pytest.fixture(scope="session", autouse=True)
def _clean_environment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for name in list(os.environ):
            if name.upper().startswith(_FOREIGN):
                patch.delenv(name)
        patch.setenv("HOME", str(tmp_path_factory.mktemp("home")))
        yield
