"""Hours of load on one process, ten minutes of kills in between, faults at random; then calm, then every promise is checked.

    python -m tests.crash.load --minutes 120 --kill-minutes 10 --seed 1

If anything is broken, the log, the database and what Discord saw stay in the folder that is named at the end. `--haste 6` brings the
faults six times as often.

What people do and what goes wrong is that of the storm, and beside it: the database locked by somebody else, a disk that
takes no byte, a process that stands still for longer than a lease. Memory and descriptors are sampled, and must not grow
between the second and the last quarter of a life of ten minutes or more. Exit code 1 and an account of it if anything is broken.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import resource
import shutil
import signal
import sqlite3
import statistics
import sys
import tempfile
import time
from collections.abc import Coroutine, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

import structlog

from bot.agents import procs
from bot.demo.process import MARK
from tests.crash.rest import descriptors
from tests.crash.storm import Agent, Outcome, Storm, extra_config
from tests.support.porter import Porter

_PEOPLE: Final = 4
_MOST_THREADS: Final = 12
_SAMPLE_S: Final = 15.0
#: A life that is long enough to say whether something grows in it.
_LONG_LIFE_S: Final = 600.0
#: What the last quarter may have more than the second: the allocator's own ups and downs, and a pooled connection.
_MEMORY_SLACK: Final = 1.08
_DESCRIPTOR_SLACK: Final = 8


@dataclass(frozen=True)
class Sample:
    """What a process has at a time."""

    at_s: float
    pid: int
    memory_kib: int
    descriptors: int


class Load(Storm):
    """One story on one stage."""

    def __init__(self, porter: Porter, seed: int, agent: Agent, haste: float) -> None:
        super().__init__(porter, seed, agent)
        self._haste = haste
        self._samples: list[Sample] = []
        #: Kills and faults that need a living process take turns.
        self._hands = asyncio.Lock()

    async def play(self, minutes: float, kill_minutes: float) -> Outcome:
        """Two thirds of the calmer time before the kills, one behind them."""
        clock, recorder = self._porter.clock, self._porter.recorder
        await self._move_in()
        recorder.sleep()
        busy = [asyncio.create_task(self._person(), name=f"load-person-{n}") for n in range(_PEOPLE)]
        busy += [asyncio.create_task(self._trouble(), name="load-trouble"), asyncio.create_task(self._watch(), name="load-watch")]
        try:
            calmer_s = (minutes - kill_minutes) * 60
            await self._unless_one_fails(clock.sleep(calmer_s * 2 / 3), busy)
            await self._unless_one_fails(self._kill_for(kill_minutes * 60), busy)
            await self._unless_one_fails(clock.sleep(calmer_s / 3), busy)
        finally:
            for task in busy:
                task.cancel()
            await asyncio.gather(*busy, return_exceptions=True)
            await self._lift()
            recorder.wake_up()
        await self._calm()
        return self.outcome

    async def _unless_one_fails(self, work: Coroutine[object, object, None], busy: Sequence[asyncio.Task[None]]) -> None:
        main = asyncio.ensure_future(work)
        done, _ = await asyncio.wait({main, *busy}, return_when=asyncio.FIRST_COMPLETED)
        main.cancel()
        for task in done:
            await task

    # --- what goes on ----------------------------------------------------------------------------------------------------

    async def _person(self) -> None:
        while True:
            await self._talk(1)
            await self._porter.clock.sleep(self._random.uniform(0.5, 6.0))

    async def _open_thread(self) -> None:
        if sum(channel.thread is not None for channel in self._channels) < _MOST_THREADS:
            await super()._open_thread()

    def _newest(self, table: Literal["continuations", "prompts"]) -> int:
        with closing(sqlite3.connect(f"{self._porter.database.as_uri()}?mode=ro", uri=True)) as database:
            (newest,) = database.execute(f"SELECT max(id) FROM {table}").fetchone()  # noqa: S608 - one of two words
        return int(newest or 0)

    async def _kill_for(self, seconds: float) -> None:
        clock = self._porter.clock
        end = clock.monotonic_s() + seconds
        while clock.monotonic_s() < end:
            await clock.sleep(self._random.uniform(0.5, 7.0))
            async with self._hands:
                await self._porter.kill()
                self.outcome.kills += 1
                await self._porter.start(ready=False)

    async def _watch(self) -> None:
        """Sample, and see to it that the process is there: one that ends by itself has broken P8."""
        porter = self._porter
        while True:
            await porter.clock.sleep(_SAMPLE_S)
            async with self._hands:
                if porter.process.exit_code is not None:
                    self.outcome.broken.append(f"P8: the process ended by itself with {porter.process.exit_code}")
                    await porter.start(ready=False)
                with suppress(OSError):
                    self._samples.append(_sample(porter.clock.monotonic_s(), porter.process.pid))

    # --- what goes wrong -------------------------------------------------------------------------------------------------

    async def _trouble(self) -> None:
        while True:
            await self._porter.clock.sleep(self._random.uniform(10.0, 60.0) / self._haste)
            kind = self._random.choice(("lock", "lock", "disk", "still", "clear"))
            self.outcome.counts[f"fault {kind}"] += 1
            match kind:
                case "lock":
                    await asyncio.to_thread(_lock, self._porter.database, self._random.choice((0.5, 2.0, 8.0, 35.0)))
                case "disk":
                    await self._full_disk(self._random.choice((0.5, 3.0, 10.0)))
                case "still":
                    await self._stand_still(self._random.choice((0.5, 6.0, 6.0, 40.0)))
                case _:
                    self._weather.clear()

    async def _full_disk(self, seconds: float) -> None:
        """No file of the process grows any more (RLIMIT_FSIZE; Python ignores the signal that comes with it)."""
        async with self._hands:
            if self._porter.process.exit_code is None:
                _limit_files(self._porter.process.pid, 0)
                await self._porter.clock.sleep(seconds)
                await self._lift()

    async def _stand_still(self, seconds: float) -> None:
        async with self._hands:
            if self._porter.process.exit_code is None:
                os.kill(self._porter.process.pid, signal.SIGSTOP)
                await self._porter.clock.sleep(seconds)
                await self._lift()

    async def _lift(self) -> None:
        """What was started meanwhile inherited the limit; it is given back to all."""
        if self._porter.process.exit_code is None:
            os.kill(self._porter.process.pid, signal.SIGCONT)
        for pid in {self._porter.process.pid, *_with_mark(self._porter.mark)}:
            with suppress(ProcessLookupError):
                _limit_files(pid, resource.RLIM_INFINITY)

    # --- what is flat ----------------------------------------------------------------------------------------------------

    async def _leaks(self) -> list[str]:
        return [sentence for life in self._long_lives() for sentence in _grown(life, self.outcome)]

    def _long_lives(self) -> list[list[Sample]]:
        lives: dict[int, list[Sample]] = {}
        for sample in self._samples:
            lives.setdefault(sample.pid, []).append(sample)
        return [life for life in lives.values() if life[-1].at_s - life[0].at_s >= _LONG_LIFE_S]


def _sample(at_s: float, pid: int) -> Sample:
    status = Path(f"/proc/{pid}/status").read_text("ascii")
    memory = next((line.split()[1] for line in status.splitlines() if line.startswith("VmRSS")), "0")
    return Sample(at_s, pid, int(memory), descriptors(pid))


def _grown(life: Sequence[Sample], outcome: Outcome) -> list[str]:
    """Whether the last quarter has more than the second; the first is warming up."""
    quarter = len(life) // 4
    found = []
    for name, slack in (("memory_kib", _MEMORY_SLACK), ("descriptors", None)):
        values = [getattr(sample, name) for sample in life]
        before, after = statistics.median(values[quarter : 2 * quarter]), statistics.median(values[-quarter:])
        outcome.account.append(f"{name} over {life[-1].at_s - life[0].at_s:.0f} s: second quarter {before:.0f}, last {after:.0f}")
        if after > (before * slack if slack is not None else before + _DESCRIPTOR_SLACK):
            found.append(f"P12: {name} grew from {before:.0f} to {after:.0f}")
    return found


def _limit_files(pid: int, size: int) -> None:
    _, hard = resource.prlimit(pid, resource.RLIMIT_FSIZE)
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (size, hard))


def _with_mark(mark: str) -> set[int]:
    """The stage's own mark, which agents inherit."""
    needle, found = f"{MARK}={mark}".encode(), set()
    for pid in procs.table():
        with suppress(OSError):
            if needle in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
                found.add(pid)
    return found


def _lock(database: Path, seconds: float) -> None:
    """Somebody else writes for so long."""
    with closing(sqlite3.connect(database, timeout=5, isolation_level=None)) as other, suppress(sqlite3.OperationalError):
        other.execute("BEGIN IMMEDIATE")
        time.sleep(seconds)
        other.execute("ROLLBACK")


async def load(folder: Path, *, minutes: float, kill_minutes: float, seed: int, agent: Agent = "scripted", haste: float = 1) -> Outcome:
    """Play one."""
    (folder / "annex").mkdir()
    async with Porter(folder, agent=agent, config=extra_config()) as porter:
        return await Load(porter, seed, agent, haste).play(minutes, kill_minutes)


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit code: 0 if every promise was kept."""
    parser = argparse.ArgumentParser(prog="python -m tests.crash.load", description=__doc__)
    parser.add_argument("--minutes", type=float, default=120)
    parser.add_argument("--kill-minutes", type=float, default=10)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--agent", choices=("scripted", "real"), default="scripted")
    parser.add_argument("--haste", type=float, default=1, help="how many times as often something goes wrong")
    parser.add_argument("--keep", type=Path, help="work in this folder, and leave it there")
    chosen = parser.parse_args(arguments)
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(50))
    folder = chosen.keep or Path(tempfile.mkdtemp(prefix="np-load-"))
    folder.mkdir(parents=True, exist_ok=True)
    work = load(folder, minutes=chosen.minutes, kill_minutes=chosen.kill_minutes, seed=chosen.seed, agent=chosen.agent, haste=chosen.haste)
    outcome = asyncio.run(work)
    print(f"{chosen.minutes:g} minutes, {outcome.kills} kills, seed {chosen.seed}, agent {chosen.agent}")  # noqa: T201
    for sentence in (", ".join(f"{k} {n}" for k, n in sorted(outcome.counts.items())), *outcome.account, *outcome.broken):
        print(f"  {sentence}")  # noqa: T201 - a command
    print("nothing found" if not outcome.broken else f"{len(outcome.broken)} found; all of it is in {folder}")  # noqa: T201
    if not outcome.broken and not chosen.keep:
        shutil.rmtree(folder)
    return 1 if outcome.broken else 0


if __name__ == "__main__":
    sys.exit(main())
