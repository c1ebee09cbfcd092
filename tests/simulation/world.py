"""The world of one seed: its rooms and people, its faults, its lives, and what is known of it at the end."""

from __future__ import annotations

import asyncio
import hashlib
import heapq
import itertools
import random
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import structlog
import structlog.testing

from bot.runtime.ports import RuntimeConfig, WaitBounds
from storage.engine import open_engines
from storage.migrate import migrate
from storage.models import ConversationId, Rules
from storage.outside import Outside
from tests.simulation import check, story
from tests.simulation.agent import AgentLog, Moods
from tests.simulation.discord import FINE, Discord, TrueClock
from tests.simulation.faults import DatabaseMood
from tests.simulation.life import PROJECT, Life
from tests.simulation.virtual import Sources, simulated
from tests.support.history import History

#: Within so much virtual time everything has to come to rest once the faults have ended.
_REST_S = 8 * 3600.0
#: A story that needs more lives has run away.
_LIVES = 60
_NOT_BOUND = ConversationId(0)

Action = Callable[["Life | None"], None]


@dataclass
class Room:
    """A channel with its conversation."""

    channel_id: int
    folder: Path
    shared: bool
    #: Known once it is bound.
    conversation_id: ConversationId = _NOT_BOUND


@dataclass(frozen=True)
class Ended:
    """What became of a seed."""

    seed: int
    broken: tuple[str, ...]
    digest: str
    counts: dict[str, int]
    trace: tuple[str, ...]


@dataclass
class World:
    """Everything that outlives a process."""

    seed: int
    folder: Path
    sources: Sources
    now_s: float = 0.0
    offset_ms: int = 0
    faulty: bool = True
    traced: bool = False
    #: What may happen, with its weights; and how many scenes there are, if the seed shall not say.
    scenes: Mapping[str, int] = field(default_factory=lambda: story.SCENES)
    length: int | None = None
    #: The only commit points at which a process dies, if not all of them.
    crash_points: frozenset[str] = frozenset()
    trace: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    #: True times at which the wall clock was moved, and whether it ever went backwards.
    jumps_s: list[float] = field(default_factory=list)
    went_back: bool = False
    #: True times at which a process was up: begin and end.
    up_s: list[tuple[float, float]] = field(default_factory=list)
    trouble_s: list[float] = field(default_factory=list)
    acknowledged: set[int] = field(default_factory=set)
    counts: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.true_s: Callable[[], float] = lambda: self.now_s
        self.clock = TrueClock(self._true_s)
        self.discord = Discord(self.clock, self.rng("discord"))
        self.agent_log = AgentLog(self.clock)
        self.agent_moods = Moods()
        self.database_mood = DatabaseMood()
        self._order = itertools.count()
        self._schedule: list[tuple[float, int, Action]] = []
        draw = self.rng("settings")
        self.rooms = self._rooms(draw)
        self.warm_agents = draw.choice((0, 1, 4))
        self.rules = Rules(
            unattended_runs=draw.choice((2, 4, 24)),
            catch_up_max_age_ms=draw.choice((120_000, 600_000, 3_600_000)),
            words_expire_ms=draw.choice((600_000, 6 * 3_600_000)),
            queue_limit=draw.choice((3, 50, 50)),
        )
        self.config = RuntimeConfig(
            host=check.HOST,
            projects={"backend": PROJECT},
            max_concurrent_runs=draw.choice((1, 2, 4)),
            narration=draw.choice(("silent", "silent", "off")),
            wait=WaitBounds(expire_after_ms=draw.choice((120_000, 3_600_000))),
            # Production looks once in a second; most stories look seldom, since a hint that is missing shows the better so.
            sweep_s=draw.choice((1.0, 10.0, 30.0, 30.0, 30.0)),
            drain_s=draw.choice((0.0, 5.0, 20.0)),
        )

    def _true_s(self) -> float:
        # Of the life that runs now, or of the time between two.
        return self.true_s()

    @property
    def database(self) -> Path:
        return self.folder / "nightporter.db"

    def rng(self, name: str) -> random.Random:
        """Each part draws from a stream of its own, so that one more fault here does not change all the rest."""
        return random.Random(f"{self.seed}:{name}")

    def _rooms(self, draw: random.Random) -> list[Room]:
        """Two in one folder, one that shares its folder with everybody, one alone: as many of them as the seed says."""
        plans = [(101, "one", False), (102, "one", False), (103, "two", True), (104, "two", True), (105, "three", False)]
        chosen = plans[: draw.randint(1, len(plans))] if draw.random() < 0.7 else draw.sample(plans, 2)
        rooms = []
        for channel_id, name, shared in chosen:
            folder = self.folder / name
            folder.mkdir(exist_ok=True)
            rooms.append(Room(channel_id, folder, shared))
        return rooms

    # --- what happens when ---------------------------------------------------------------------------------------------------

    def at(self, when_s: float, action: Action) -> None:
        heapq.heappush(self._schedule, (when_s, next(self._order), action))

    def next_at_s(self) -> float | None:
        return self._schedule[0][0] if self._schedule else None

    def postpone(self, seconds: float) -> None:
        """Everything that has not happened yet happens so much later."""
        self._schedule = [(when_s + seconds, order, action) for when_s, order, action in self._schedule]

    def act(self, life: Life | None) -> None:
        _, _, action = heapq.heappop(self._schedule)
        action(life)

    def note(self, what: str, **details: object) -> None:
        self.counts[what] = self.counts.get(what, 0) + 1
        if self.traced:
            values = " ".join(f"{name}={value}" for name, value in details.items())
            self.trace.append(f"{self.true_s():10.3f} {what} {values}")

    def broken(self, problem: str) -> None:
        self.problems.append(problem)
        self.note("BROKEN", problem=problem)

    # --- the whole story ---------------------------------------------------------------------------------------------------

    def run(self) -> None:
        story.write(self)
        for number in range(1, _LIVES + 1):
            life = Life(self, number)
            began_s = self.now_s
            how = life.run()
            self.true_s = lambda: self.now_s
            self.up_s.append((began_s, self.now_s))
            self.trouble_s += life.faults.trouble_s
            if hasattr(life, "gateway"):
                self.acknowledged |= life.gateway.acknowledged
            self.note("ended", life=number, how=how)
            if how in {"done", "failed"}:
                return
            self._away(self.rng(f"away:{number}").choice((3.0, 3.0, 20.0, 200.0, 1_500.0)))
        self.broken(f"the story did not end within {_LIVES} lives")

    def _away(self, seconds: float) -> None:
        """No process is up; people go on writing."""
        until_s = self.now_s + seconds
        while (at_s := self.next_at_s()) is not None and at_s < until_s:
            self.now_s = max(self.now_s, at_s)
            self.act(None)
        self.now_s = until_s

    async def calm_down(self, life: Life) -> None:
        """No more faults; people answer every question; then nothing may be left to do."""
        self.faulty = life.faults.on = False
        life.faults.crash_in = None
        life.loop.crash_at = None
        self.discord.weather = FINE
        self.agent_moods.unavailable = self.agent_moods.still_alive = self.agent_moods.dies = 0
        self.note("calm")
        life.gateway.connect()
        until_s = life.loop.time() + _REST_S
        while life.loop.time() < until_s:
            await asyncio.sleep(20.0)
            if life.busy or life.look("SELECT count(*) FROM prompts WHERE state = 'offered'"):
                story.answer_questions(self, life)
            elif not life.look("SELECT count(*) FROM continuations WHERE state IN ('requested', 'pending', 'claimed')"):
                self.at_rest_ms = life.clock.now_ms()
                return
        self.broken("liveness: there is no rest")
        self.at_rest_ms = life.clock.now_ms()

    at_rest_ms: int | None = None

    # --- what is known of it -----------------------------------------------------------------------------------------------

    def history(self) -> History:
        with Outside.of_file(self.database) as outside:
            view = outside.view()
        assert view is not None
        deleted = {said.id for said in self.discord.people if said.deleted}
        return History(
            view,
            tuple(self.discord.log),
            tuple(self.agent_log.entries),
            heard=lambda record: record.message_id not in deleted,
            at_rest_ms=self.at_rest_ms,
            clock_went_back=self.went_back,
        )

    def ended(self) -> Ended:
        history = self.history()
        broken = [*self.problems, *check.violations(self, history)]
        return Ended(self.seed, tuple(broken), _digest(self, history), dict(self.counts), tuple(self.trace))


def _digest(world: World, history: History) -> str:
    """Everything that was observed, but what names this machine."""
    digest = hashlib.sha256()
    rows = history.rows
    everything: list[object] = [{**asdict(run), "process": None} for run in rows.runs]
    for kind in (rows.conversations, rows.sessions, rows.prompts, rows.continuations, rows.parts):
        everything += kind
    everything += history.view.entries
    everything += [record.to_json() for record in world.discord.log]
    everything += world.agent_log.turns
    for each in everything:
        digest.update(repr(each).replace(str(world.folder), "").encode())
    return digest.hexdigest()


# --- one seed ------------------------------------------------------------------------------------------------------------

_template: bytes | None = None


def run_seed(seed: int, *, traced: bool = False, tweak: Callable[[World], None] = lambda _world: None) -> Ended:
    """Play one seed to its end; never raises for what the program does wrong."""
    folder = Path(tempfile.mkdtemp(prefix="np-sim-", dir="/dev/shm" if Path("/dev/shm").is_dir() else None))
    try:
        (folder / "nightporter.db").write_bytes(_fresh_database())
        with simulated(seed) as sources:
            world = World(seed, folder, sources, traced=traced)
            tweak(world)
            with _logs(world):
                world.run()
            return world.ended()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _fresh_database() -> bytes:
    """A migrated database without rows: made once for each process, since a migration is no part of any story."""
    global _template  # noqa: PLW0603 - a cache
    if _template is None:
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "template.db"

            async def make() -> None:
                engines = open_engines(f"sqlite+aiosqlite:///{file}")
                await migrate(engines)
                await engines.aclose()

            with structlog.testing.capture_logs():
                asyncio.run(make())
            _template = file.read_bytes()
    return _template


@contextmanager
def _logs(world: World) -> Iterator[None]:
    """The program's own log goes into the trace, or nowhere."""

    def keep(_logger: Any, _method: str, event: Any) -> Any:
        name = event.pop("event")
        error = event.get("exc_info")
        if isinstance(error, BaseException):
            event["exc_info"] = repr(error)
        if world.traced:
            world.note(f"log {name}", **event)
        raise structlog.DropEvent

    processors = structlog.get_config()["processors"]
    before = processors.copy()
    processors.clear()
    processors.append(keep)
    try:
        yield
    finally:
        processors.clear()
        processors.extend(before)
