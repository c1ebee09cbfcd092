"""One start of Nightporter's runtime on the story's database, from the first look to a crash, a shutdown or the story's end."""

from __future__ import annotations

import asyncio
import gc
import logging
import sqlite3
import traceback
import warnings
from collections.abc import Coroutine
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Literal

from bot.agents.base import PermissionMode, PermissionPolicy
from bot.agents.pool import AgentPool
from bot.runtime.ports import ProjectRules
from bot.runtime.runtime import Runtime
from storage.errors import StorageError
from storage.store import Store
from tests.simulation.agent import Agents
from tests.simulation.discord import Wire
from tests.simulation.faults import BUSY_S, Faults
from tests.simulation.gateway import Gateway
from tests.simulation.virtual import Crash, Stuck, VirtualLoop, WallClock

if TYPE_CHECKING:
    from tests.simulation.world import World

HowItEnded = Literal["crashed", "stopped", "done", "failed"]

#: Nothing is left to do: no active run, no open part, no waiting prompt, and nothing that a person has to decide.
BUSY = """
SELECT (SELECT count(*) FROM runs WHERE state IN ('claimed', 'dispatched'))
     + (SELECT count(*) FROM parts WHERE state IN ('ready', 'sending'))
     + (SELECT count(*) FROM prompts WHERE state IN ('waiting', 'taken'))
"""
_NEXT_DUE = "SELECT min(due_at_ms) FROM continuations WHERE state IN ('requested', 'pending', 'claimed')"

PROJECT = ProjectRules(PermissionPolicy(PermissionMode.ACCEPT_EDITS))


class Life:
    """One process. `run` may be called once."""

    def __init__(self, world: World, number: int) -> None:
        self.world = world
        self.number = number
        self.loop = VirtualLoop(world.now_s)
        self.clock = WallClock(self.loop.time, lambda: world.offset_ms)
        self.faults = Faults(self.loop, world.rng(f"database:{number}"), world.database_mood, world.crash_points)
        self.wire = Wire(world.discord, self.clock)
        self.agents = Agents(world.folder, self.clock, world.agent_log, world.rng(f"agents:{number}"), world.agent_moods)
        self._tasks: set[asyncio.Task[Any]] = set()
        self._terminate = asyncio.Event()
        self._eye: sqlite3.Connection | None = None

    runtime: Runtime
    gateway: Gateway
    store: Store

    def run(self) -> HowItEnded:
        world = self.world
        world.sources.wall_ms = self.clock.now_ms
        world.sources.statement_fault = self.faults.statement
        world.true_s = self.loop.time
        asyncio.set_event_loop(self.loop)
        how: HowItEnded = "crashed"
        try:
            how = self.loop.run_until_complete(self._live())
        except Crash:
            world.note("crash", at=self.faults.crashed_at or f"step {self.loop.steps}")
        except Stuck as stuck:
            world.broken(f"liveness: {stuck}")
            how = "failed"
        except Exception:  # noqa: BLE001 - whatever it is, the seed is told with it
            world.broken(f"a fault of the program:\n{traceback.format_exc()}")
            how = "failed"
        finally:
            world.now_s = self.loop.time()
            self._bury()
            asyncio.set_event_loop(None)
        return how

    # --- its days --------------------------------------------------------------------------------------------------------

    async def _live(self) -> HowItEnded:
        world = self.world
        url = f"sqlite+aiosqlite:///{world.database}"
        instance = f"porter-{self.number}"
        self.store = await Store.open(
            url, now=self.clock.now_ms, rules=world.rules, instance=instance, fault=self.faults.point, busy_s=BUSY_S
        )
        pool = AgentPool([self.agents], cap=world.warm_agents, idle_timeout_s=120, clock=self.clock)
        self.runtime = Runtime(self.store, pool, self.wire, self.clock, world.config)
        self.gateway = Gateway(world.discord, self.wire, self.runtime, self.clock, self._crashed)
        for room in world.rooms:
            bound = await self.runtime.bind(
                channel_id=room.channel_id,
                guild_id=1,
                project="backend",
                agent="scripted",
                folder=str(room.folder),
                shared=room.shared,
                last_seen_id=0,
            )
            room.conversation_id = bound.id
            self.gateway.bind(bound)
        await self.runtime.start()
        watching = asyncio.ensure_future(self._dies_loudly())
        world.discord.listeners[:] = [self.gateway.hear]
        self.faults.on = world.faulty
        self._eye = sqlite3.connect(f"{world.database.as_uri()}?mode=ro", uri=True, isolation_level=None)
        self.loop.quiet_until_s = self._quiet_until_s
        world.note("life", number=self.number)
        self.gateway.connect()
        how: HowItEnded = "stopped" if await self._until_the_end() else "done"
        watching.cancel()
        await self._shut_down(pool)
        return how

    async def _until_the_end(self) -> bool:
        """Act out the story; True if a person shut the process down before its end."""
        world = self.world
        while (at_s := world.next_at_s()) is not None:
            if at_s > self.loop.time():
                await self._first_of(asyncio.sleep(at_s - self.loop.time()), self._terminate.wait())
            if self._terminate.is_set():
                return True
            if world.next_at_s() == at_s and at_s <= self.loop.time():
                world.act(self)
        await world.calm_down(self)
        return False

    async def _shut_down(self, pool: AgentPool) -> None:
        await self.runtime.stop(self.world.config.drain_s)
        await self.gateway.aclose()
        await pool.aclose()
        await self.store.aclose()
        for task in tuple(self._tasks):
            task.cancel()

    async def _first_of(self, *waits: Coroutine[Any, Any, Any]) -> None:
        tasks = [asyncio.ensure_future(wait) for wait in waits]
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _dies_loudly(self) -> None:
        name = await self.runtime.died()
        self.world.broken(f"the loop {name} died")
        self.loop.crash()

    # --- what the story does to it ------------------------------------------------------------------------------------------

    def spawn(self, work: Coroutine[Any, Any, Any]) -> None:
        """Something a person does; a database that cannot is told to him, and he leaves it."""
        task = asyncio.ensure_future(self._tried(work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _tried(self, work: Coroutine[Any, Any, Any]) -> None:
        try:
            await work
        except StorageError as error:
            self.world.note("told", error=str(error))
        except Exception:  # noqa: BLE001 - a fault of the program ends the seed
            self.world.broken(f"a fault of the program:\n{traceback.format_exc()}")

    def terminate(self) -> None:
        """SIGTERM."""
        self._terminate.set()

    def _crashed(self, error: BaseException) -> None:
        self.world.broken(f"the gateway died: {error!r}")

    # --- how it looks from outside --------------------------------------------------------------------------------------------

    def look(self, query: str) -> Any:
        """The first value of the first row, read from outside the store."""
        if self._eye is None:
            return None
        return self._eye.execute(query).fetchone()[0]

    @property
    def busy(self) -> bool:
        mine = self.wire.calls > 0 or self.faults.under_way > 0 or bool(self._tasks) or not self.gateway.idle
        return mine or bool(self.look(BUSY))

    def _quiet_until_s(self, when_s: float) -> float:
        """Where nothing happens, the process sleeps until shortly before something does."""
        if self.busy:
            return when_s
        next_s, due_ms = self.world.next_at_s(), self.look(_NEXT_DUE)
        until_s = [] if next_s is None else [next_s]
        if due_ms is not None:
            until_s.append(self.loop.time() + (due_ms - self.clock.now_ms()) / 1_000 - 1.0)
        return max(when_s, min(until_s, default=when_s))

    # --- its end ---------------------------------------------------------------------------------------------------------------

    def _bury(self) -> None:
        """Nothing of it may write any more; then its tasks are thrown away where they stand."""
        world = self.world
        world.sources.kill_connections()
        if self._eye is not None:
            self._eye.close()
            self._eye = None
        world.discord.listeners.clear()
        self.loop.dead = True
        self.loop.set_exception_handler(lambda _loop, _context: None)
        engines = getattr(getattr(self, "store", None), "_engines", None)
        if engines is not None and engines.lock is not None:
            with suppress(OSError):
                engines.lock.release()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            logging.disable(logging.CRITICAL)
            for task in asyncio.all_tasks(self.loop):
                task._log_destroy_pending = False  # type: ignore[attr-defined]  # noqa: SLF001
                coro: Any = task.get_coro()
                # What ends here tries to tidy up, and cannot: there is no loop and no database.
                with suppress(BaseException):
                    coro.close()
            gc.collect()
            self.loop.close()
            logging.disable(logging.NOTSET)
        if world.discord.flying:
            world.discord.process_died()
