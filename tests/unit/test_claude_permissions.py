"""What the agent may do without asking, as a table."""

from __future__ import annotations

from pathlib import Path

import pytest

from bot.agents.base import PermissionMode, PermissionPolicy
from bot.agents.claude.permissions import Allow, Deny, decide

EDITS = PermissionPolicy(PermissionMode.ACCEPT_EDITS, ("git *", "pytest *", "make test", "cd *", "deploy [!p]*"))
PLAN = PermissionPolicy(PermissionMode.PLAN, ("git *",))


@pytest.fixture(name="folder")
def _folder(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    (folder / "sub").mkdir(parents=True)
    (tmp_path / "outside").mkdir()
    (folder / "link").symlink_to(tmp_path / "outside")
    (folder / "loop").symlink_to(folder / "loop")
    (folder / ".git").mkdir()
    (folder / "dotgit").symlink_to(folder / ".git")
    return folder.resolve()


@pytest.mark.parametrize(
    "command",
    [
        "git status",
        "git",
        "pytest",
        "pytest -x tests | git hash-object --stdin",
        "make test && git commit -am 'done; really'",
        "git log > sub/log.txt 2>/dev/null",
        "git log 2>&1",
        "cd sub && git log > {folder}/log.txt",
        "git log > log.txt && cd sub",
        "git log < .git/config",
        "git diff HEAD@{1}",
        "git stash show stash@{0} '{a,b}'",
        "deploy staging",
    ],
)
def test_commands_that_all_match_are_allowed(folder: Path, command: str) -> None:
    assert decide(EDITS, folder, "Bash", {"command": command.replace("{folder}", str(folder))}) == Allow()


@pytest.mark.parametrize(
    "command",
    [
        "rm -rf /",
        "git status; rm x",
        "git status && rm x",
        "git status | sh",
        "git status\nrm x",
        "git status & rm x",
        "git log $(rm x)",
        "git log `rm x`",
        "make tests",
        "make",
        "gitx status",
        "PAGER=rm git log",
        "git log > /etc/passwd",
        "git log > ../outside/x",
        "git log > link/x",
        "git log >> ~/.bashrc",
        "cd /tmp && git log > x",
        "cd sub; git log >> ../x",
        "cd /; git log < etc/passwd",
        "git log > .git/hooks/pre-commit",
        "git log >> sub/../.git/config",
        "git log > dotgit/config",
        "deploy {prod,staging}",
        "deploy {prod..prod}",
        "deploy {'prod',x}",
        "deploy prod",
        "",
    ],
)
def test_every_other_command_is_denied(folder: Path, command: str) -> None:
    decision = decide(EDITS, folder, "Bash", {"command": command})
    assert isinstance(decision, Deny)
    assert decision.sentence.startswith("Denied: ")


def test_a_denied_command_names_itself_and_the_rule(folder: Path) -> None:
    assert decide(EDITS, folder, "Bash", {"command": "git status; rm -rf x"}) == Deny(
        "Denied: `rm -rf x` matches none of the allowed commands of this project"
        " (`git *`, `pytest *`, `make test`, `cd *`, `deploy [!p]*`)."
    )


@pytest.mark.parametrize("policy", [EDITS, PLAN])
@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("Read", {"file_path": "a.txt"}),
        ("Read", {"file_path": "{folder}/sub/a.txt"}),
        ("Glob", {"pattern": "**/*.py"}),
        ("Glob", {"pattern": "{folder}/**/*.py"}),
        ("Glob", {"pattern": "*", "path": "{folder}/sub"}),
        ("Grep", {"pattern": "/etc/passwd"}),
        ("Grep", {"pattern": "x", "path": "sub"}),
        ("Agent", {"prompt": "x"}),
        ("mcp__nightporter__wait", {}),
    ],
)
def test_reading_inside_is_allowed_in_both_modes(folder: Path, policy: PermissionPolicy, tool: str, arguments: dict[str, str]) -> None:
    filled = {name: value.replace("{folder}", str(folder)) for name, value in arguments.items()}
    assert decide(policy, folder, tool, filled) == Allow()


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("Read", {"file_path": "/etc/passwd"}),
        ("Read", {"file_path": "../outside/x"}),
        ("Read", {"file_path": "link/x"}),
        ("Read", {"file_path": "loop"}),
        ("Read", {"file_path": "~/.ssh/id_rsa"}),
        ("Read", {"file_path": "a\0b"}),
        ("Read", {"file_path": ""}),
        ("Read", {}),
        ("Edit", {"file_path": "/etc/passwd"}),
        ("Write", {"file_path": "link/x"}),
        ("Write", {"file_path": ".git/hooks/pre-commit"}),
        ("Write", {"file_path": "sub/.git"}),
        ("Edit", {"file_path": "{folder}/.git/config"}),
        ("Edit", {"file_path": "dotgit/config"}),
        ("NotebookEdit", {"notebook_path": "/x.ipynb"}),
        ("Glob", {"pattern": "../**"}),
        ("Glob", {"pattern": "/etc/*"}),
        ("Glob", {"pattern": "~/*"}),
        ("Glob", {"pattern": "*", "path": "/etc"}),
        ("Grep", {"pattern": "x", "path": "/etc"}),
        ("WebFetch", {"url": "https://example.com/"}),
        ("WebSearch", {"query": "x"}),
        ("Bash", {"command": "git status", "run_in_background": True}),
        ("Agent", {"prompt": "x", "run_in_background": True}),
        ("CronCreate", {}),
        ("Monitor", {}),
        ("mcp__other__tool", {}),
    ],
)
def test_everything_else_is_denied_with_a_sentence(folder: Path, tool: str, arguments: dict[str, object]) -> None:
    filled = {name: value.replace("{folder}", str(folder)) if isinstance(value, str) else value for name, value in arguments.items()}
    decision = decide(EDITS, folder, tool, filled)
    assert isinstance(decision, Deny)
    assert decision.sentence.endswith(".")


@pytest.mark.parametrize("tool", ["Edit", "Write", "NotebookEdit", "Bash"])
def test_plan_mode_has_no_tool_that_changes(folder: Path, tool: str) -> None:
    arguments = {"file_path": "a", "notebook_path": "a", "command": "git status"}
    assert isinstance(decide(PLAN, folder, tool, arguments), Deny)


def test_edits_inside_are_allowed(folder: Path) -> None:
    for tool in ("Edit", "Write"):
        for path in ("new/deep/file.txt", ".gitignore", ".github/workflows/ci.yml"):
            assert decide(EDITS, folder, tool, {"file_path": path}) == Allow()


def test_git_s_own_files_may_be_read(folder: Path) -> None:
    assert decide(EDITS, folder, "Read", {"file_path": ".git/config"}) == Allow()


def test_a_sub_agent_may_not_use_our_tools_but_may_use_the_others(folder: Path) -> None:
    assert isinstance(decide(EDITS, folder, "mcp__nightporter__wait", {}, subagent=True), Deny)
    assert decide(EDITS, folder, "Read", {"file_path": "a"}, subagent=True) == Allow()


def test_long_outputs_kept_outside_may_be_read_and_not_changed(folder: Path, tmp_path: Path) -> None:
    kept = tmp_path / "outside"
    arguments = {"file_path": str(kept / "output.txt")}
    assert decide(EDITS, folder, "Read", arguments, read_roots=[kept]) == Allow()
    assert isinstance(decide(EDITS, folder, "Write", arguments, read_roots=[kept]), Deny)
