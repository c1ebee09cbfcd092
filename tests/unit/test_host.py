"""The identity of a state folder outlives names and processes."""

from __future__ import annotations

import socket
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from bot.agents.host import host


def test_a_folder_keeps_its_identity_when_the_machine_is_renamed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = host(tmp_path)
    monkeypatch.setattr(socket, "gethostname", lambda: "another-name")
    assert host(tmp_path) == before
    assert len(before) == 16
    assert [path.name for path in tmp_path.iterdir()] == ["host-id"]
    assert (tmp_path / "host-id").stat().st_mode & 0o777 == 0o600


def test_another_folder_is_another_host(tmp_path: Path) -> None:
    first, second = tmp_path / "a", tmp_path / "b"
    first.mkdir()
    second.mkdir()
    assert host(first) != host(second)


def test_who_asks_at_the_same_time_gets_the_same_answer(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        assert len(set(pool.map(lambda _: host(tmp_path), range(8)))) == 1
