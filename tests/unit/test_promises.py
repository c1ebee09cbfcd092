"""The page of promises names every promise, and every proof that it or the page of faults names exists."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "promises.md").read_text()
FAULTS = (ROOT / "docs" / "faults.md").read_text()


def test_every_promise_of_the_design_has_its_section() -> None:
    promised = re.findall(r"^- \*\*(P\d+) (.+?)\.?\*\*", (ROOT / "docs" / "design.md").read_text(), re.MULTILINE)
    assert len(promised) == 12
    assert re.findall(r"^## (P\d+) (.+)$", PAGE, re.MULTILINE) == promised


def test_every_proof_that_is_named_exists() -> None:
    named = re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", PAGE + FAULTS)
    assert len(named) > 60
    for path, test in named:
        tree = ast.parse((ROOT / path).read_text())
        there = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
        assert not test or test in there, f"{path}::{test}"


def test_every_recipe_and_every_record_that_is_named_exists() -> None:
    recipes = set(re.findall(r"^([a-z][a-z-]*)\b.*:$", (ROOT / "justfile").read_text(), re.MULTILINE))
    assert set(re.findall(r"`just ([a-z-]+)", PAGE)) <= recipes
    for record in re.findall(r"\]\(([\w./-]+)\)", PAGE):
        assert (ROOT / "docs" / record).is_file(), record


def test_every_record_of_a_proof_says_of_which_commit_it_is() -> None:
    for record in (ROOT / "docs" / "proofs").glob("*.txt"):
        assert re.match(r"commit [0-9a-f]{40}\n", record.read_text()), record.name


def test_every_line_of_the_log_that_is_named_is_written_somewhere() -> None:
    source = "".join(path.read_text() for folder in ("bot", "storage") for path in (ROOT / folder).rglob("*.py"))
    named = re.findall(r"`([a-z_]+\.[a-z_]+)`", FAULTS)
    assert len(named) > 15
    assert {name for name in named if f'"{name}"' not in source} == set()
