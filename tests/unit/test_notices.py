"""What people are told of a turn that failed: a sentence never names a button that is not below it."""

from __future__ import annotations

import pytest

from bot.agents.base import ErrorKind
from bot.runtime import notices
from storage.models import RunId


@pytest.mark.parametrize("resumable", [True, False])
@pytest.mark.parametrize("kind", list(ErrorKind))
def test_start_fresh_is_named_where_it_can_be_pressed(kind: ErrorKind, resumable: bool) -> None:
    told = notices.failed(RunId(1), kind, resumable=resumable)
    assert ("Start fresh" in told.text) is ("np:fresh:1" in (told.components or ""))
    assert (told.components is None) is not resumable
