"""Several processes on one PostgreSQL database: each prompt runs once, and never two runs where one may be."""

from __future__ import annotations

import asyncio
import os
import sys
from collections import Counter

import pytest

from storage.events import Entity
from storage.models import Rules
from storage.states import PromptState, RunState
from storage.store import Store
from tests.support.postgres import Postgres
from tests.support.storage import Driver, Time

WORKERS = 2


@pytest.mark.postgres
async def test_two_processes_share_the_work_and_no_prompt_runs_twice(postgres: Postgres, time: Time) -> None:
    url = postgres.url(postgres.new_database())
    store = await Store.open(url, now=time, rules=Rules(), instance="observer")
    processes: list[asyncio.subprocess.Process] = []
    try:
        driver = Driver(store, time)
        bound = [await driver.bind(number, f"/srv/{number // 2}", shared=number == 5) for number in range(6)]
        prompts = [await driver.prompt(conversation.id) for _ in range(4) for conversation in bound]
        for number in range(WORKERS):
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "tests.support.claimer", url, f"worker-{number}", str((number + 1) * 100_000)),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            )
            processes.append(process)
        for process in processes:
            assert process.stdout is not None
            while (line := await process.stdout.readline()) != b"ready\n":
                assert line, "a worker ended before it began"
        ended = await asyncio.gather(*(process.communicate(b"go\n") for process in processes))
        assert [process.returncode for process in processes] == [0] * WORKERS, ended
        entries = await store.journal.after(0, 10**6)
        taken = Counter(entry.entity_id for entry in entries if entry.entity is Entity.PROMPT and entry.after == PromptState.TAKEN)
        assert taken == {prompt.id: 1 for prompt in prompts}
        ends = Counter(entry.after for entry in entries if entry.entity is Entity.RUN)
        assert ends == dict.fromkeys((RunState.CLAIMED, RunState.DISPATCHED, RunState.SUCCEEDED), len(prompts))
    finally:
        for process in processes:
            if process.returncode is None:
                process.kill()
                await process.wait()
        await store.aclose()
