"""The full bounds, then every mutation: `python -m tests.model.full [processes]`. Exit code 1 if a promise breaks."""

from __future__ import annotations

import subprocess
import sys
import time
from concurrent.futures import ProcessPoolExecutor

from storage.states import EDGES
from tests.model.mutations import MUTATIONS
from tests.model.scenarios import FULL
from tests.model.search import Found, explore
from tests.model.world import Fired


def _explore(name: str) -> tuple[str, Found, set[Fired], float]:
    model = FULL[name]()
    begin = time.monotonic()
    found = explore(model, limit=900_000)
    return name, found, model.fired, time.monotonic() - begin


def main(workers: int) -> int:
    """Explore, print, and say whether everything held."""
    commit = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=True).stdout.strip()
    _say(f"commit {commit}")
    fired: set[Fired] = set()
    states, broken = 0, False
    with ProcessPoolExecutor(max_workers=workers) as pool:
        for name, found, moves, seconds in pool.map(_explore, FULL):
            fired |= moves
            states += found.states
            broken = broken or found.violation is not None or not found.complete
            numbers = f"{found.states:>9,} states {found.steps:>10,} steps {found.depth:>3} deep {seconds:>5.0f} s"
            _say(f"{numbers}  {name}: {found.story().splitlines()[0]}")
            if found.violation is not None:
                _say(found.story())
    never = [
        f"{type(edge.after).__name__} {edge.before} -> {edge.after}"
        for edge in EDGES
        if (type(edge.after), edge.before, edge.after) not in fired
    ]
    _say(f"{states:,} states in all; from each of them everything comes to rest when nothing more comes from outside")
    _say(f"moves of the table that never happen: {never or 'none'}")
    for mutation in MUTATIONS:
        found = mutation.search()
        hit = found.violation is not None and found.violation.startswith(mutation.expect)
        broken = broken or not hit
        _say(f"\n--- mutation: {mutation.name} ({mutation.broken_rule}){'' if hit else ' NOT FOUND'}\n{found.story()}")
    return 1 if broken or never else 0


def _say(line: str) -> None:
    print(line, flush=True)  # noqa: T201 - this is a program for people


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 2))
