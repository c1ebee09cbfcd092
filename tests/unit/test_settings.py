from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from pydantic import ValidationError

from bot.agents.base import PermissionMode
from bot.errors import ConfigError
from bot.settings import Settings, load_settings

EXAMPLE = Path(__file__).parents[2] / "config.example.toml"
TOKEN = "token-of.the.bot-0123456789"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with the example as config.toml and the secret file that it names."""
    (tmp_path / "secrets").mkdir()
    (tmp_path / "secrets" / "discord-token").write_text(TOKEN + "\n")
    (tmp_path / "config.toml").write_text(EXAMPLE.read_text())
    return tmp_path


def load(folder: Path, *edits: tuple[str, str], env: Mapping[str, str] | None = None) -> Settings:
    """The example with each first text replaced by its second."""
    text = EXAMPLE.read_text()
    for old, new in edits:
        assert old in text, "the edit no longer applies to config.example.toml"
        text = text.replace(old, new, 1)
    (folder / "config.toml").write_text(text)
    return load_settings(folder / "config.toml", env or {"HOME": "/home/porter"})


def refusal(folder: Path, *edits: tuple[str, str], env: Mapping[str, str] | None = None) -> str:
    with pytest.raises(ConfigError) as caught:
        load(folder, *edits, env=env)
    sentence = str(caught.value)
    assert "\n" not in sentence
    return sentence


def test_the_example_means_what_its_comments_say(folder: Path) -> None:
    settings = load(folder)
    assert settings.state_dir == folder / "state"
    assert settings.database.sqlite_path == folder / "state" / "nightporter.db"
    assert settings.discord.token is not None
    assert settings.discord.token.get_secret_value() == TOKEN
    assert settings.discord.guilds == (100000000000000001,)
    assert settings.wait.min_ms == 30_000
    assert settings.limits.silent_tool_ms == 3_600_000
    assert settings.agents.claude.config_dir == Path("/home/porter/.claude")
    assert settings.project("backend").permission_mode is PermissionMode.ACCEPT_EDITS
    assert settings.channels[0].listen == "mention"


def test_every_default_is_what_the_example_shows(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text("")
    bare = load_settings(tmp_path / "config.toml", {"HOME": "/home/porter"})
    (tmp_path / "secrets").mkdir()
    (tmp_path / "secrets" / "discord-token").write_text(TOKEN)
    full = load(tmp_path)
    for section in ("access", "database", "runtime", "wait", "limits", "agents"):
        ours, example = getattr(bare, section), getattr(full, section)
        assert ours == example.model_copy(update={"roles": ()} if section == "access" else {})
    assert bare.state_dir == full.state_dir
    assert bare.discord.catch_up_max_age_ms == full.discord.catch_up_max_age_ms


def test_the_environment_wins_over_the_file(folder: Path) -> None:
    settings = load(
        folder,
        env={
            "NIGHTPORTER_WAIT__MIN": "1s",
            "NIGHTPORTER_DISCORD__TOKEN": "from-the-environment",
            "NIGHTPORTER_ACCESS__USERS": "[5, 6]",
            "NIGHTPORTER_STATE_DIR": "/var/lib/porter",
            "NIGHTPORTER_AGENTS__CLAUDE__ENV": '{"GOFLAGS": "-mod=mod"}',
            "NIGHTPORTER_WAIT__MAX": "",
        },
    )
    assert settings.wait.min_ms == 1_000
    assert settings.wait.max_ms == 86_400_000, "an empty variable is none"
    assert settings.discord.token is not None
    assert settings.discord.token.get_secret_value() == "from-the-environment"
    assert settings.access.users == (5, 6)
    assert settings.access.roles == (100000000000000003,), "what the variable does not name stays as in the file"
    assert settings.state_dir == Path("/var/lib/porter")
    assert settings.agents.claude.env == {"GOFLAGS": "-mod=mod"}


def test_the_environment_alone_is_enough(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    settings = load_settings(None, {"NIGHTPORTER_PROJECTS": '[{"name": "a", "path": "p"}]', "NIGHTPORTER_DISCORD__TOKEN": TOKEN})
    assert settings.projects[0].path == tmp_path / "p"
    assert settings.database.sqlite_path == tmp_path / "state" / "nightporter.db"


def test_the_process_environment_is_never_read_behind_the_callers_back(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NIGHTPORTER_AGENTS__CLAUDE__MODEL", "another")
    assert load(folder).agents.claude.model is None


def test_what_our_processes_tell_each_other_is_no_setting(folder: Path) -> None:
    assert load(folder, env={"NIGHTPORTER_MARK": "x", "NIGHTPORTER_CONFIG": "x", "NIGHTPORTER_CRASH": "C3.before:1"}).limits.queue == 50


def test_relative_paths_start_at_the_folder_of_the_file_and_home_is_the_users(folder: Path) -> None:
    settings = load(folder, ('"/srv/backend"', '"~/backend"'), ('state_dir = "state"', 'state_dir = "../elsewhere"'))
    assert settings.project("backend").path == Path("/home/porter/backend")
    assert settings.state_dir == folder.parent / "elsewhere"


def test_an_agent_with_a_key_of_its_own_does_not_touch_the_users_login(folder: Path) -> None:
    settings = load(folder, env={"HOME": "/home/porter", "NIGHTPORTER_AGENTS__CLAUDE__API_KEY": "sk-key"})
    assert settings.agents.claude.config_dir == folder / "state" / "claude"


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("guilds =", "guild =", "discord.guild: there is no such key; did you mean discord.guilds?"),
        ("[runtime]", "[runtimes]", "runtimes: there is no such key; did you mean runtime?"),
        ("state_dir", 'token_file = "x"\nstate_dir', "token_file: there is no such key; did you mean discord.token_file?"),
        ('name = "backend"', 'name = "backend"\nlisten = "all"', "projects[0].listen: there is no such key; did you mean channels.listen?"),
        ("[access]", "[access]\nzzz = 1", "access.zzz: there is no such key; remove it"),
    ],
)
def test_an_unknown_key_is_refused_with_the_nearest_right_name(folder: Path, old: str, new: str, expected: str) -> None:
    assert refusal(folder, (old, new)).startswith(expected)


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ('idle_timeout = "10m"', 'idle_timeout = "soon"', "runtime.idle_timeout: 'soon' is not a duration: write seconds"),
        ('min = "30s"', 'min = "30h"', "wait: min is longer than max: make it shorter"),
        ('path = "/srv/backend"', "", "projects[0].path is missing: add it"),
        ('"accept_edits"', '"yolo"', "projects[0].permission_mode: should be 'accept_edits' or 'plan'"),
        ('listen = "mention"', 'listen = "some"', "channels[0].listen: should be 'mention' or 'all'"),
        ('agent = "claude"', 'agent = "clod"', "projects[0].agent: should be 'claude'"),
        ('["org/backend"]', '["backend"]', 'projects[0].repositories[0]: must look like "org/backend"'),
        ("max_concurrent_runs = 4", "max_concurrent_runs = 0", "runtime.max_concurrent_runs: should be greater than or equal to 1"),
        ("id = 100000000000000002", "id = -5", "channels[0].id: should be greater than 0"),
        ('project = "backend"', 'project = "front"', "channels[0].project: there is no project 'front'; known: backend"),
        ("[[channels]]", '[[channels]]\nid = 100000000000000002\nproject = "backend"\n[[channels]]', "channels[1].id: channel 1000"),
        (
            "[[channels]]",
            '[[projects]]\nname = "backend"\npath = "x"\n[[channels]]',
            "projects[1].name: there is a project 'backend' already",
        ),
        ("sqlite+aiosqlite:///state/nightporter.db", "sqlite:///x.db", "database.url: must be sqlite+aiosqlite:///PATH"),
        ("sqlite+aiosqlite:///state/nightporter.db", "sqlite+aiosqlite:///:memory:", "database.url: must be sqlite+aiosqlite:///PATH"),
        ("sqlite+aiosqlite:///state/nightporter.db", "mysql://h/d", "database.url: must be sqlite+aiosqlite:///PATH"),
        ("[agents.claude]", '[agents.claude]\nenv = { NIGHTPORTER_X = "1" }', "agents.claude.env: NIGHTPORTER_X belongs to Nightporter"),
        (
            "[agents.claude]",
            '[agents.claude]\nenv = { CLAUDE_CONFIG_DIR = "/x" }',
            "agents.claude.env: CLAUDE_CONFIG_DIR has a key of its own, which Nightporter has to know: use agents.claude.config_dir",
        ),
        (
            "[agents.claude]",
            '[agents.claude]\nenv = { ANTHROPIC_API_KEY = "k" }',
            "agents.claude.env: ANTHROPIC_API_KEY has a key of its own",
        ),
        ("secrets/discord-token", "secrets/nope", "discord.token_file: "),
    ],
)
def test_a_wrong_value_is_refused_with_its_key_and_the_mend(folder: Path, old: str, new: str, expected: str) -> None:
    assert refusal(folder, (old, new)).startswith(expected)


@pytest.mark.parametrize(
    ("variable", "value", "expected"),
    [
        ("NIGHTPORTER_LIMITS__QUEUE", "many", "NIGHTPORTER_LIMITS__QUEUE: should be a valid integer"),
        ("NIGHTPORTER_DISCORD__GUILDS", "1,2", "NIGHTPORTER_DISCORD__GUILDS: must be JSON"),
        ("NIGHTPORTER_DISCORD__TOKN", "a-secret", "NIGHTPORTER_DISCORD__TOKN: there is no such key; did you mean discord.token?"),
        ("NIGHTPORTER_DATABSE__URL", "a-secret", "NIGHTPORTER_DATABSE__URL: there is no such key; did you mean database?"),
    ],
)
def test_a_wrong_variable_is_refused_by_its_own_name_and_its_value_is_not_shown(
    folder: Path, variable: str, value: str, expected: str
) -> None:
    sentence = refusal(folder, env={variable: value})
    assert sentence.startswith(expected)
    assert "a-secret" not in sentence


@pytest.mark.parametrize(
    ("old", "new", "key"),
    [
        ("token_file =", 'token = "abcdefgh"\ntoken_file =', "discord.token"),
        ("[agents.claude]", '[agents.claude]\napi_key = "abcdefgh"', "agents.claude.api_key"),
        ("sqlite+aiosqlite:///state/nightporter.db", "postgresql+asyncpg://porter:abcdefgh@host/db", "database.url"),
    ],
)
def test_a_secret_in_the_file_is_refused_and_not_repeated(folder: Path, old: str, new: str, key: str) -> None:
    sentence = refusal(folder, (old, new))
    assert sentence.startswith(f"{key}: a secret does not belong in config.toml; put it into a file named by {key}_file")
    assert "abcdefgh" not in sentence


@pytest.mark.parametrize(
    ("content", "reason"), [(b"", "one line"), (b"two words", "one line"), (b"a\nb", "one line"), (b"\xff\xfe\xfd", "not text")]
)
def test_a_secret_file_holds_one_secret_and_nothing_else(folder: Path, content: bytes, reason: str) -> None:
    (folder / "secrets" / "discord-token").write_bytes(content)
    sentence = refusal(folder)
    assert sentence.startswith("discord.token_file: ")
    assert reason in sentence


def test_a_database_with_a_password_comes_from_a_file(folder: Path) -> None:
    (folder / "secrets" / "db").write_text("postgresql+asyncpg://porter:p%40ssword@host/db\n")
    settings = load(folder, ('url = "sqlite+aiosqlite:///state/nightporter.db"', 'url_file = "secrets/db"'))
    assert settings.database.sqlite_path is None
    assert set(settings.secrets()) == {TOKEN, "p%40ssword", "p@ssword"}


def test_no_secret_shows_when_settings_are_printed(folder: Path) -> None:
    settings = load(
        folder, env={"NIGHTPORTER_AGENTS__CLAUDE__API_KEY": "sk-key-0123", "NIGHTPORTER_DATABASE__URL": "postgresql+asyncpg://u:pw0123@h/d"}
    )
    for text in (repr(settings), str(settings), repr(settings.discord), settings.model_dump_json()):
        assert not any(secret in text for secret in (TOKEN, "sk-key-0123", "pw0123"))
    assert set(settings.secrets()) == {TOKEN, "sk-key-0123", "pw0123"}


def test_what_the_agent_is_handed_under_a_secrets_name_is_masked_too(folder: Path) -> None:
    given = '{"GH_TOKEN": "ghp-012345", "AWS_SECRET_ACCESS_KEY": "aws-012345", "GOFLAGS": "-mod=mod", "KEYBOARD": "qwertz"}'
    settings = load(folder, env={"NIGHTPORTER_AGENTS__CLAUDE__ENV": given})
    assert set(settings.secrets()) == {TOKEN, "ghp-012345", "aws-012345"}


def test_settings_do_not_change_after_they_were_read(folder: Path) -> None:
    settings = load(folder)
    with pytest.raises(ValidationError, match="frozen"):
        settings.state_dir = folder  # type: ignore[misc] # refused by the checker too
    with pytest.raises(ValidationError, match="frozen"):
        settings.wait.min_ms = 1  # type: ignore[misc]


@pytest.mark.parametrize(
    ("content", "reason"), [(None, "does not exist: copy config.example.toml"), (b"[wait", "is not valid TOML"), (b"\xff", "is not UTF-8")]
)
def test_a_file_that_cannot_be_read_is_one_sentence(tmp_path: Path, content: bytes | None, reason: str) -> None:
    path = tmp_path / "config.toml"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ConfigError, match=reason):
        load_settings(path, {})
