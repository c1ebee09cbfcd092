"""The commands as real processes: what a person or a service manager sees of them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from bot.checks import bundled_cli

ROOT = Path(__file__).parents[2]
TOKEN = "MTk4NjIy.Cl2FMQ.secret-of-the-bot"


def nightporter(*arguments: str, cwd: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    env = {"PATH": os.environ["PATH"], "HOME": str(cwd), "PYTHONPATH": str(ROOT), **variables}
    result = subprocess.run([sys.executable, "-m", "bot.cli", *arguments], cwd=cwd, env=env, capture_output=True, text=True, check=False)
    assert "Traceback" not in result.stderr
    assert TOKEN not in result.stdout + result.stderr
    return result


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder where the example is a working configuration."""
    (tmp_path / "secrets").mkdir()
    token = tmp_path / "secrets" / "discord-token"
    token.write_text(TOKEN)
    token.chmod(0o600)
    (tmp_path / "backend").mkdir()
    example = (ROOT / "config.example.toml").read_text()
    (tmp_path / "config.toml").write_text(example.replace("/srv/backend", "backend"))
    return tmp_path


def test_the_version_is_that_of_the_installed_package(tmp_path: Path) -> None:
    result = nightporter("--version", cwd=tmp_path)
    assert (result.returncode, result.stdout) == (0, "nightporter, version 0.1.0\n")


def test_check_config_tells_what_it_found_one_line_each_and_writes_nothing(folder: Path) -> None:
    before = sorted(folder.rglob("*"))
    result = nightporter("check-config", cwd=folder)
    assert result.returncode == 0, result.stdout + result.stderr
    lines = result.stdout.splitlines()
    assert all(line.split()[0] in {"ok", "note"} for line in lines)
    assert f"ok       state_dir: {folder}/state will be made, for Nightporter alone" in lines
    assert "ok       discord: there is a token" in lines
    assert f"ok       project backend: {folder}/backend (claude, accept_edits)" in lines
    assert f"ok       agents.claude: {bundled_cli()}" in lines
    assert "ok       channel 100000000000000002: project backend, listens to mention" in lines
    assert sorted(folder.rglob("*")) == before


def test_check_config_names_everything_that_is_wrong_and_exits_with_78(folder: Path) -> None:
    (folder / "backend").rmdir()
    (folder / "config.toml").write_text((folder / "config.toml").read_text().replace('token_file = "secrets/discord-token"', ""))
    (folder / "state").write_text("a file where a folder should be")
    result = nightporter("check-config", cwd=folder)
    wrong = [line for line in result.stdout.splitlines() if line.startswith("wrong")]
    assert [line.split()[1] for line in wrong] == ["state_dir:", "discord.token_file:", "projects[0].path:"]
    assert result.returncode == 78


def test_check_config_notes_what_works_but_should_be_known(folder: Path) -> None:
    (folder / "secrets" / "discord-token").chmod(0o644)
    (folder / "state").mkdir(mode=0o755)
    text = (folder / "config.toml").read_text().replace("[100000000000000001]", "[]").replace("[100000000000000003]", "[]")
    (folder / "config.toml").write_text(text)
    result = nightporter("check-config", cwd=folder)
    notes = [line.split()[1] for line in result.stdout.splitlines() if line.startswith("note")]
    assert notes == ["state_dir:", "discord.token_file:", "discord.guilds:", "access:", "agents.claude:"]
    assert result.returncode == 0


@pytest.mark.parametrize("command", ["run", "check-config"])
def test_a_typo_in_the_configuration_is_one_sentence_and_78(folder: Path, command: str) -> None:
    (folder / "config.toml").write_text("[discord]\nguild = [1]\n")
    result = nightporter(command, cwd=folder)
    assert result.returncode == 78
    assert result.stderr == "nightporter: discord.guild: there is no such key; did you mean discord.guilds?\n"
    assert result.stdout == ""


@pytest.mark.parametrize("command", ["run", "check-config"])
def test_without_any_configuration_it_says_how_to_begin(tmp_path: Path, command: str) -> None:
    result = nightporter(command, cwd=tmp_path)
    assert result.returncode == 78
    assert result.stderr.startswith("nightporter: there is no config.toml in this folder: copy config.example.toml")


def test_a_named_file_that_is_not_there_is_78(tmp_path: Path) -> None:
    for arguments, variables in ((["--config", "other.toml"], {}), ([], {"NIGHTPORTER_CONFIG": "other.toml"})):
        result = nightporter("check-config", *arguments, cwd=tmp_path, **variables)
        assert result.returncode == 78
        assert result.stderr.startswith("nightporter: other.toml does not exist")


@pytest.mark.parametrize(
    ("spoil", "key"),
    [("project", "projects[0].path"), ("token", "discord.token_file")],
)
def test_run_refuses_to_start_with_what_check_config_calls_wrong(folder: Path, spoil: str, key: str) -> None:
    if spoil == "project":
        (folder / "backend").rmdir()
    else:
        (folder / "config.toml").write_text((folder / "config.toml").read_text().replace("token_file =", "# token_file ="))
    result = nightporter("run", cwd=folder)
    assert result.returncode == 78
    assert result.stderr.startswith(f"nightporter: {key}: ")
    assert not (folder / "state").exists()


def test_run_reads_a_configuration_that_came_through_the_environment_and_was_taken_out_of_it(tmp_path: Path) -> None:
    result = nightporter("run", cwd=tmp_path, NIGHTPORTER_DISCORD__TOKEN=TOKEN, NIGHTPORTER_PROJECTS='[{"name": "a", "path": "gone"}]')
    assert result.returncode == 78
    assert result.stderr.startswith(f"nightporter: projects[0].path: {tmp_path}/gone is not a folder")


def test_a_descriptor_set_by_hand_is_one_sentence_and_78(folder: Path) -> None:
    result = nightporter("run", cwd=folder, NIGHTPORTER_SECRETS_FD="99")
    assert result.returncode == 78
    assert result.stderr == "nightporter: NIGHTPORTER_SECRETS_FD is set, but not by Nightporter: unset it\n"


def test_a_wrong_command_line_is_2_with_the_usage(tmp_path: Path) -> None:
    result = nightporter("run", "--log-format", "xml", cwd=tmp_path)
    assert result.returncode == 2
    assert result.stderr.startswith("Usage: ")
