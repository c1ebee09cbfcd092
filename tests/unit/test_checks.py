from __future__ import annotations

import stat
import sys
from pathlib import Path

import pytest

from bot import checks
from bot.errors import ConfigError, Unavailable
from bot.settings import Settings, load_settings


def settings(folder: Path, text: str = "") -> Settings:
    (folder / "config.toml").write_text(text)
    return load_settings(folder / "config.toml", {"HOME": str(folder), "NIGHTPORTER_DISCORD__TOKEN": "a-token"})


def test_the_state_folder_is_made_for_nightporter_alone_and_one_that_stands_open_is_closed(tmp_path: Path) -> None:
    fresh, opened = tmp_path / "a" / "state", tmp_path / "open"
    opened.mkdir(mode=0o755)
    for folder in (fresh, opened):
        checks.prepare_state_dir(folder)
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_a_state_folder_that_cannot_be_made_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match=r"^state_dir: .*/file/state cannot be made: Not a directory; choose"):
        checks.prepare_state_dir(tmp_path / "file" / "state")


def test_an_installation_without_the_agents_program_is_unavailable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "claude_agent_sdk"
    package.mkdir()
    (package / "__init__.py").write_text("")
    monkeypatch.syspath_prepend(str(tmp_path))
    for name in [name for name in sys.modules if name.partition(".")[0] == "claude_agent_sdk"]:
        monkeypatch.delitem(sys.modules, name)
    assert checks.bundled_cli() is None
    with pytest.raises(Unavailable, match=r"claude-agent-sdk has no program in it: install on Linux with glibc"):
        checks.require(settings(tmp_path))


def test_a_database_file_in_a_folder_that_does_not_exist_is_wrong(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"^database\.url: the folder .*/gone does not exist"):
        checks.require(settings(tmp_path, '[database]\nurl = "sqlite+aiosqlite:///gone/x.db"'))


def test_a_configuration_with_everything_in_place_is_accepted(tmp_path: Path) -> None:
    checks.require(settings(tmp_path))
