"""The time-limited right to own a run: renewed by a heartbeat, given up before anybody else could believe that it has ended.

Inside the process only monotonic time counts, so a jump of the wall clock neither ends nor lengthens a lease. An owner trusts
itself until `begin of the last successful renewal + lease - margin`, whenever the database answered.
"""

from __future__ import annotations

import asyncio

import structlog

from bot.clock import Clock
from bot.runtime.ledger import Ledger
from bot.runtime.ports import RuntimeConfig
from bot.runtime.supervisor import Supervisor
from storage.errors import StorageError
from storage.events import Refusal, Renew
from storage.models import RunId

log = structlog.get_logger(__name__)

#: Pause after a renewal that the database could not take.
_AGAIN_S = 1.0


class Lease:
    """One run's lease, from the moment before it was claimed or taken over."""

    def __init__(self, ledger: Ledger, clock: Clock, config: RuntimeConfig, supervisor: Supervisor, since_s: float) -> None:
        self._ledger = ledger
        self._clock = clock
        self._config = config
        self._supervisor = supervisor
        self._trusted_until_s = since_s + config.lease_s - config.margin_s
        self._refused = False
        #: Set once the run may belong to somebody else: kill the agent, write nothing without its fence.
        self.lost = asyncio.Event()

    @property
    def held(self) -> bool:
        """Whether this process may still act for the run."""
        return not self._refused and self._clock.monotonic_s() < self._trusted_until_s

    async def keep(self, run_id: RunId, fence: int) -> None:
        """Renew until cancelled; returns only when the lease is lost."""
        pause_s = min(self._config.heartbeat_s, self._config.lease_s / 3)
        while not self.lost.is_set():
            await self._clock.sleep(min(pause_s, max(0.0, self._left_s())))
            if self.held:
                pause_s = await self._renew(run_id, fence)
            self._notice()
        log.warning("lease.lost", run=run_id, fence=fence, refused=self._refused)

    def _notice(self) -> None:
        if not self.held:
            self.lost.set()

    def _left_s(self) -> float:
        return self._trusted_until_s - self._clock.monotonic_s()

    async def _renew(self, run_id: RunId, fence: int) -> float:
        """One renewal, bounded by what is left; how long to pause after it."""
        since_s = self._clock.monotonic_s()
        renewing = self._supervisor.spawn("renew", self._write(run_id, fence, since_s))
        # A database that hangs does not answer a cancellation either, so the renewal is left to itself, not waited for.
        sleeping = asyncio.ensure_future(self._clock.sleep(self._left_s()))
        try:
            await asyncio.wait({renewing, sleeping}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            sleeping.cancel()
        renewed = self._trusted_until_s == since_s + self._config.lease_s - self._config.margin_s
        return self._config.heartbeat_s if renewed else _AGAIN_S

    async def _write(self, run_id: RunId, fence: int, since_s: float) -> None:
        until_ms = self._clock.now_ms() + round(self._config.lease_s * 1_000)
        try:
            outcome = await self._ledger.do(Renew(self._ledger.instance, run_id, fence, until_ms))
        except StorageError as error:
            log.warning("lease.not_renewed", run=run_id, error=str(error))
            return
        if isinstance(outcome, Refusal):
            self._refused = True
            return
        self._trusted_until_s = since_s + self._config.lease_s - self._config.margin_s


def lease_until_ms(clock: Clock, config: RuntimeConfig) -> int:
    """What a claim or takeover stores."""
    return clock.now_ms() + round(config.lease_s * 1_000)
