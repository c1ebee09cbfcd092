"""The whole program on PostgreSQL."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

from bot.errors import EXIT_UNAVAILABLE
from tests.support.porter import Porter
from tests.support.postgres import running_postgres

pytestmark = [
    pytest.mark.ci,
    pytest.mark.postgres,
    pytest.mark.skipif(sys.version_info >= (3, 15), reason="the PostgreSQL wheel does not exist for this Python"),
]


async def test_it_answers_wakes_and_goes_on_after_a_kill_and_no_second_one_works_from_its_state_folder(tmp_path: Path) -> None:
    with running_postgres() as server:
        async with Porter(tmp_path, postgres=server.url(server.new_database())) as porter:
            await porter.start()
            await porter.say("wait 1s say good morning\nsay good evening")
            await porter.answer("good evening")
            await porter.answer("good morning")
            first = porter.process
            second = await porter.start(ready=False)
            assert await asyncio.wait_for(second.wait(), 30) == EXIT_UNAVAILABLE
            assert "state_dir: Another process uses" in porter.output
            await first.kill()
            await porter.start()
            await porter.say("say good night")
            await porter.answer("good night")
            await porter.at_rest()
            assert await porter.stop() == 0
            porter.assert_kept()


async def test_a_server_that_is_restarted_or_cuts_every_connection_loses_and_repeats_nothing(tmp_path: Path) -> None:
    with running_postgres() as server:
        name = server.new_database()
        async with Porter(tmp_path, postgres=server.url(name)) as porter:
            await porter.start()
            for number in range(4):
                # In the middle of a turn, and with a wait that comes due behind it.
                await porter.say(f"send s{number}x\nsleep 0.5\nwait 1s say w{number}x\nsay m{number}x")
                await porter.answer(f"s{number}x")
                await asyncio.to_thread(server.restart if number % 2 else lambda: server.cut(name))
                await porter.answer(f"m{number}x")
                await porter.answer(f"w{number}x")
            await porter.at_rest()
            assert await porter.stop() == 0
            porter.assert_kept()
            assert [porter.said(f"{kind}{number}x") for kind in "smw" for number in range(4)] == [1] * 12
