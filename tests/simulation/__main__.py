"""`python -m tests.simulation --seed N [--trace]` replays one seed; `--seeds COUNT [--first N] [--processes P]` plays many."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor

from tests.simulation.world import Ended, run_seed


def main() -> int:
    """The exit code: 0 if every promise was kept."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seed", type=int, help="play this one and print what it broke")
    parser.add_argument("--trace", action="store_true", help="with --seed: print everything that happens")
    parser.add_argument("--seeds", type=int, default=200, help="how many to play")
    parser.add_argument("--first", type=int, default=1, help="the first of them")
    parser.add_argument("--processes", type=int, default=min(2, os.cpu_count() or 1))
    chosen = parser.parse_args()
    if chosen.seed is not None:
        return _one(chosen.seed, traced=chosen.trace)
    return _many(range(chosen.first, chosen.first + chosen.seeds), chosen.processes)


def _one(seed: int, *, traced: bool) -> int:
    ended = run_seed(seed, traced=traced)
    for line in ended.trace:
        print(line)  # noqa: T201 - a command
    print(f"seed {seed}: {ended.digest}")  # noqa: T201 - a command
    _tell(ended)
    return 1 if ended.broken else 0


def _many(seeds: range, processes: int) -> int:
    began = time.monotonic()
    broken: list[int] = []
    counts: Counter[str] = Counter()
    with ProcessPoolExecutor(processes) as pool:
        for ended in pool.map(run_seed, seeds, chunksize=1):
            counts.update(ended.counts)
            if ended.broken:
                broken.append(ended.seed)
                _tell(ended)
    happened = ", ".join(f"{name} {count}" for name, count in sorted(counts.items()) if not name.startswith("log "))
    print(f"what happened: {happened}")  # noqa: T201 - a command
    print(f"{len(seeds)} seeds in {time.monotonic() - began:.0f} s, {len(broken)} broken: {broken}")  # noqa: T201 - a command
    return 1 if broken else 0


def _tell(ended: Ended) -> None:
    if ended.broken:
        print(f"seed {ended.seed} broke promises; replay: python -m tests.simulation --seed {ended.seed} --trace")  # noqa: T201 - a command
        for sentence in ended.broken:
            print(f"  {sentence}")  # noqa: T201 - a command
        sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
