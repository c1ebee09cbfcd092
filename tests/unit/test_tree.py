"""Walks the source tree: what holds for every module, so that nobody has to look for it in a review."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
#: The hard limit; above it a module is split by meaning.
LONGEST = 400
PRODUCT = sorted(path for folder in ("bot", "cogs", "storage") for path in (ROOT / folder).rglob("*.py"))
TESTS = sorted((ROOT / "tests").rglob("*.py"))
#: Proofs and a process that must not depend on anything installed.
STANDARD_LIBRARY_ONLY = ("storage.states", "storage.models", "storage.transitions", "storage.rules", "bot.agents.launcher")


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def test_there_is_something_to_walk() -> None:
    assert {"bot/cli.py", "storage/states.py"} <= {name(path) for path in PRODUCT}


def test_no_module_is_longer_than_the_limit() -> None:
    lengths = {name(path): len(path.read_text().splitlines()) for path in PRODUCT + TESTS}
    assert {module: length for module, length in lengths.items() if length > LONGEST} == {}


def test_every_module_says_in_its_first_line_what_it_is_for() -> None:
    silent = []
    for path in PRODUCT:
        docstring = ast.get_docstring(ast.parse(path.read_text())) or ""
        first = docstring.partition("\n")[0]
        if len(first.split()) < 3:
            silent.append(name(path))
    assert silent == []


def file_of(module: str) -> Path | None:
    """The file of a module of ours; None for everybody else's."""
    base = ROOT / module.replace(".", "/")
    return next((path for path in (base.with_suffix(".py"), base / "__init__.py") if path.exists()), None)


def imported(path: Path) -> set[str]:
    """Every module that the file imports, wherever in it, with the packages they are in."""
    modules: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        match node:
            case ast.Import():
                modules.update(alias.name for alias in node.names)
            case ast.ImportFrom(module=str(module), level=0):
                members = [f"{module}.{alias.name}" for alias in node.names]
                modules.update([module, *(member for member in members if file_of(member))])
            case _:
                pass
    return modules | {module.rpartition(".")[0] for module in modules if "." in module}


def everything_behind(module: str) -> set[str]:
    """The module, what it imports, what that imports, and so on."""
    seen: set[str] = set()
    pending = {module}
    while pending:
        current = pending.pop()
        seen.add(current)
        path = file_of(current)
        if path is not None:
            pending |= imported(path) - seen
    return seen


@pytest.mark.parametrize("module", STANDARD_LIBRARY_ONLY)
def test_what_must_stand_alone_needs_nothing_that_has_to_be_installed(module: str) -> None:
    assert file_of(module) is not None
    behind = {target for target in everything_behind(module) if file_of(target) is None}
    assert {target for target in behind if target.partition(".")[0] not in sys.stdlib_module_names} == set()


def test_only_the_clock_asks_what_time_it_is() -> None:
    asking = {"time", "time_ns", "monotonic", "monotonic_ns", "perf_counter", "now", "utcnow", "today", "sleep"}
    modules = {"time", "datetime", "date", "asyncio"}
    # The launcher stands alone: the clock is none of its own.
    allowed = {file_of(module) for module in ("bot.clock", *everything_behind("bot.agents.launcher"))}
    found = []
    for path in (path for path in PRODUCT if path not in allowed):
        for node in ast.walk(ast.parse(path.read_text())):
            match node:
                case ast.Call(args=[ast.Constant(value=0)]):
                    pass  # asyncio.sleep(0) only gives way
                case ast.Call(func=ast.Attribute(value=ast.Name(id=module), attr=function)) if module in modules and function in asking:
                    found.append(f"{name(path)}:{node.lineno} {module}.{function}")
                case _:
                    pass
    assert found == []
