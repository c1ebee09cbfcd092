"""The alarm clock: fires due continuations. It only ever wakes a look at the database, which is the truth.

APScheduler holds one job, for the earliest due row, in memory; beside it a look once in a sweep bounds the lateness when the
wall clock jumps, the machine sleeps, or another process writes.
"""

from __future__ import annotations

from datetime import UTC, datetime

import structlog
from apscheduler.executors.asyncio import AsyncIOExecutor
from apscheduler.jobstores.memory import MemoryJobStore
from apscheduler.schedulers.asyncio import AsyncIOScheduler

from bot.runtime import notices
from bot.runtime.services import Services
from bot.runtime.timing import set_within
from storage.events import Code, Due, Entity, Move, Refusal
from storage.models import ContinuationId

log = structlog.get_logger(__name__)

#: Fired in one pass; more are fired in the next, which follows at once.
_AT_ONCE = 100
_JOB = "earliest"


class Alarm:
    """Fires what is due, never early."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._armed_for_ms: int | None = None
        self._scheduler = AsyncIOScheduler(
            timezone=UTC,
            jobstores={"default": MemoryJobStore()},
            executors={"default": AsyncIOExecutor()},
            # Without grace a wake that is a second late would be dropped by the scheduler.
            job_defaults={"misfire_grace_time": None, "coalesce": True, "max_instances": 1},
        )

    def start(self) -> None:
        """Begin; needs a running loop."""
        self._scheduler.start()

    def stop(self) -> None:
        """End. Idempotent."""
        if self._scheduler.running:
            self._scheduler.shutdown(wait=False)

    async def step(self) -> None:
        """Fire everything that is due, set the alarm for the next one, and wait for it, for a change, or for the sweep."""
        services = self._services
        services.ledger.alarm.clear()
        due = await services.store.continuations.due(services.clock.now_ms(), _AT_ONCE)
        for continuation_id in due:
            await self._fire(continuation_id)
        if len(due) == _AT_ONCE:
            return
        await self._arm()
        await set_within(services.ledger.alarm, services.clock, services.config.sweep_s)

    async def _fire(self, continuation_id: ContinuationId) -> None:
        """C8: its prompt is queued, or it has expired; both in one transaction."""
        services = self._services
        continuation = await services.store.continuations.by_id(continuation_id)
        if continuation is None:
            return
        outcome = await services.ledger.do(Due(services.instance, continuation_id, notices.wake_expired(continuation)))
        if isinstance(outcome, Refusal):
            if outcome.code is not Code.ENDED:
                log.info("continuation.not_fired", continuation=continuation_id, why=outcome.code.value)
            return
        became = next((c.after.value for c in outcome.changes if isinstance(c, Move) and c.entity is Entity.CONTINUATION), None)
        late_ms = services.clock.now_ms() - continuation.due_at_ms
        log.info("continuation.fired", continuation=continuation_id, became=became, late_ms=late_ms)

    async def _arm(self) -> None:
        """One job for the earliest due row; none if there is none."""
        earliest_ms = await self._services.store.continuations.next_due_ms()
        if earliest_ms == self._armed_for_ms and (earliest_ms is None or self._scheduler.get_job(_JOB) is not None):
            return
        self._armed_for_ms = earliest_ms
        if self._scheduler.get_job(_JOB) is not None:
            self._scheduler.remove_job(_JOB)
        if earliest_ms is not None:
            at = datetime.fromtimestamp(earliest_ms / 1_000, UTC)
            self._scheduler.add_job(self._ring, "date", run_date=at, id=_JOB, misfire_grace_time=None)

    async def _ring(self) -> None:
        self._services.ledger.alarm.set()
