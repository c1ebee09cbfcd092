"""Decides what Claude Code may do without asking: one pure function; what it does not know, it denies with a sentence."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from bot.agents.base import PermissionMode, PermissionPolicy
from bot.agents.shellwords import SimpleCommand, Unjudgeable, simple_commands

#: How the program names our tools: server `nightporter`, then the bare name.
OURS_PREFIX = "mcp__nightporter__"

#: The built-in tools on offer in each mode; nothing else exists for the agent, so no timer and no background task of its own.
#: Nothing that reaches the network is on offer: only `allowed_commands` may (design section 12).
TOOLS: Mapping[PermissionMode, tuple[str, ...]] = {
    PermissionMode.ACCEPT_EDITS: (
        "Agent",
        "Bash",
        "Edit",
        "Glob",
        "Grep",
        "NotebookEdit",
        "Read",
        "Write",
    ),
    PermissionMode.PLAN: ("Agent", "Glob", "Grep", "Read"),
}

#: Where each file tool names its object, and whether it changes it.
_FILE_TOOLS: Mapping[str, tuple[str, bool]] = {
    "Read": ("file_path", False),
    "Glob": ("path", False),
    "Grep": ("path", False),
    "Edit": ("file_path", True),
    "Write": ("file_path", True),
    "NotebookEdit": ("notebook_path", True),
}


@dataclass(frozen=True, slots=True)
class Allow:
    """It may be done."""


@dataclass(frozen=True, slots=True)
class Deny:
    """It may not; `sentence` names the rule and is what the agent reads."""

    sentence: str


Decision = Allow | Deny

_GITS_OWN = "Denied: what is inside .git is changed by git alone, since git runs what stands there."

#: Commands after which a relative path of the same line means another file than the one that is judged.
_MOVING = frozenset({"cd", "pushd", "popd"})


def decide(
    policy: PermissionPolicy,
    folder: Path,
    tool: str,
    arguments: Mapping[str, object],
    *,
    subagent: bool = False,
    read_roots: Sequence[Path] = (),
) -> Decision:
    """Whether this tool call is allowed.

    `folder` is the resolved project folder. `read_roots` are folders outside it that may be read: where the program keeps long
    outputs of this very session. Symbolic links are followed before anything is compared.
    """
    if tool.startswith(OURS_PREFIX):
        if subagent:
            return Deny("Denied: only the main agent may use Nightporter's tools, not a sub-agent. Report to it what you want instead.")
        return Allow()
    if tool not in TOOLS[policy.mode]:
        return Deny(f"Denied: {tool} is not one of the tools of this project's permission mode ({policy.mode}).")
    if arguments.get("run_in_background") is True:
        return Deny(
            "Denied: nothing may run in the background, since a turn leaves nothing running. Use the tool wait for what takes long."
        )
    if tool == "Bash":
        return _command(policy, folder, arguments.get("command"))
    if (known := _FILE_TOOLS.get(tool)) is not None:
        return _file(folder, tool, arguments, known, read_roots)
    return Allow()


def _file(folder: Path, tool: str, arguments: Mapping[str, object], known: tuple[str, bool], read_roots: Sequence[Path]) -> Decision:
    name, changes = known
    paths = [arguments.get(name)]
    if tool == "Glob" and isinstance(pattern := arguments.get("pattern"), str):
        if ".." in Path(pattern).parts:
            return Deny("Denied: a pattern may not contain `..`.")
        if pattern.startswith(("/", "~")):
            # What stands before the first wildcard is where it looks.
            paths.append(re.split(r"[*?\[{]", pattern, maxsplit=1)[0])
    for path in paths:
        if path is None and tool in {"Glob", "Grep"}:
            continue
        if not isinstance(path, str) or not path or "\0" in path:
            return Deny(f"Denied: {tool} names no file.")
        roots = (folder,) if changes else (folder, *read_roots)
        if path.startswith("~") or not _within(folder, path, roots):
            verb = "change" if changes else "read"
            return Deny(f"Denied: this project's rules let you {verb} files only inside {folder}, and {path} is outside.")
        if changes and _is_gits_own(folder, path):
            return Deny(_GITS_OWN)
    return Allow()


def _is_gits_own(folder: Path, path: str) -> bool:
    """Whether it is in a `.git`: a hook or a setting there is a command that the next allowed `git status` runs."""
    named, resolved = Path(path).parts, (folder / path).resolve().relative_to(folder.resolve()).parts
    return ".git" in named or ".git" in resolved


def _within(folder: Path, path: str, roots: Sequence[Path]) -> bool:
    try:
        resolved = (folder / path).resolve()
    except (OSError, RuntimeError, ValueError):
        # A loop of symbolic links, or no path at all.
        return False
    return any(resolved.is_relative_to(root.resolve()) for root in roots)


def _command(policy: PermissionPolicy, folder: Path, line: object) -> Decision:
    if not isinstance(line, str):
        return Deny("Denied: Bash names no command.")
    allowed = ", ".join(f"`{pattern}`" for pattern in policy.allowed_commands) or "none"
    try:
        commands = simple_commands(line)
    except Unjudgeable as why:
        return Deny(
            f"Denied: the command line holds {why}, which cannot be checked against the allowed commands ({allowed}). Write it simpler."
        )
    moved = False
    for command in commands:
        if not any(_matches(command, pattern) for pattern in policy.allowed_commands):
            return Deny(f"Denied: `{command.text}` matches none of the allowed commands of this project ({allowed}).")
        if (denied := _redirections(folder, command, moved=moved)) is not None:
            return denied
        moved = moved or command.words[0] in _MOVING
    return Allow()


def _redirections(folder: Path, command: SimpleCommand, *, moved: bool) -> Deny | None:
    for redirection in command.redirections:
        target = redirection.target
        if target == "/dev/null":
            continue
        if moved and not target.startswith("/"):
            return Deny(f"Denied: after `cd` in the same line it is not known where {target} is. Write its whole path.")
        if not _within(folder, target, (folder,)):
            return Deny(f"Denied: a redirection may only use files inside {folder}, and {target} is outside.")
        if redirection.operator != "<" and _is_gits_own(folder, target):
            return Deny(_GITS_OWN)
    return None


def _matches(command: SimpleCommand, pattern: str) -> bool:
    # `pytest *` means pytest with any arguments, and none is any.
    return fnmatchcase(command.text, pattern) or (pattern.endswith(" *") and fnmatchcase(command.text, pattern[:-2]))
