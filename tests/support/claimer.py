"""One process that works until nothing waits: claims, dispatches, settles. Waits for a line on stdin before it begins."""

from __future__ import annotations

import asyncio
import sys
from itertools import count

from storage.events import Refusal
from storage.models import Rules
from storage.store import Store
from tests.support.storage import Driver, Time


async def work(url: str, instance: str, first_number: int) -> None:
    time = Time()
    store = await Store.open(url, now=time, rules=Rules(batch_prompts=1), instance=instance)
    driver = Driver(store, time, by=instance, numbers=count(first_number))
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    await asyncio.to_thread(sys.stdin.readline)
    try:
        # Where the other one is at work nothing is claimable, and something may be again.
        while (places := await store.dispatch.claimable(time.ms)) or await store.runs.active_all():
            for place in places:
                if isinstance(await store.claim(driver.claim_event(), place), Refusal):
                    continue
                for run in await store.runs.active_all():
                    if run.holder == instance:
                        await driver.settle(await driver.dispatch(run))
    finally:
        await store.aclose()


if __name__ == "__main__":
    asyncio.run(work(sys.argv[1], sys.argv[2], int(sys.argv[3])))
