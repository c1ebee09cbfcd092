"""Kills a store with SIGKILL at named commit points: one process that imports everything once and forks for each point.

Reads lines of JSON `{"url": …, "channel": …, "point": …}` and answers each with the number of the signal that ended the child.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from itertools import count

from storage import events as e
from storage.models import Rules
from storage.store import Store
from tests.support.storage import START_MS, Driver, Time


async def life(url: str, channel: int, point: str) -> None:
    """A conversation's whole life, in a process that dies at the point."""

    async def die(name: str) -> None:
        if name == point:
            os.kill(os.getpid(), signal.SIGKILL)
            await asyncio.Event().wait()

    time = Time(START_MS)
    store = await Store.open(url, now=time, rules=Rules(), instance="worker-1", fault=die)
    driver = Driver(store, time, numbers=count(channel * 1000 + 1))
    conversation = await driver.bind(channel, f"/srv/{channel}")
    prompt = driver.message(conversation.id, source_key=f"message:{channel}")
    await driver.done(prompt)
    (candidate,) = [c for c in await store.dispatch.claimable(time.ms) if c.conversation_id == conversation.id]
    run = await driver.dispatch(await driver.claim(candidate))
    asked = await driver.wait(run)
    await driver.settle(run, words=("the answer",))
    (part,) = await store.outbox.of_run(run.id)
    await driver.done(e.Send(driver.by, part.id, time.ms + 20_000))
    await driver.done(e.Receipt(driver.by, part.id, 4711, attempt=1))
    time.ms = asked.due_at_ms
    await driver.done(e.Due(driver.by, asked.id))


def main() -> None:
    for line in sys.stdin:
        order = json.loads(line)
        child = os.fork()
        if child == 0:
            asyncio.run(life(order["url"], order["channel"], order["point"]))
            os._exit(0)
        _, status = os.waitpid(child, 0)
        sys.stdout.write(f"{os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
