"""What every adapter promises about turns that end badly: the end always comes, and it has a name."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Mapping
from dataclasses import replace

import pytest

from bot.agents.base import AgentUnavailable, Death, Ended, EndKind, ErrorKind, MessageDone, RunEnded, ToolResult, ToolStarted, Unknown
from tests.contract.harness import Calls, Rig, ended, make_rig, sleepers, start, texts, turn


@pytest.mark.parametrize(
    ("failure", "kind"),
    [
        ("auth", ErrorKind.AUTH),
        ("rate_limit", ErrorKind.RATE_LIMIT),
        ("overloaded", ErrorKind.OVERLOADED),
        ("api", ErrorKind.API),
        ("bad_request", ErrorKind.BAD_REQUEST),
        ("prompt_too_long", ErrorKind.PROMPT_TOO_LONG),
    ],
)
async def test_an_error_of_the_model_ends_the_turn_with_its_kind_and_the_session_goes_on(rig: Rig, failure: str, kind: ErrorKind) -> None:
    session = await rig.open()
    end = ended(await turn(session, f"fail {failure}"))
    assert (end.end, end.error) == (EndKind.FAILED, kind)
    assert end.detail
    assert session.alive
    assert texts(await turn(session, "say on")) == ["on"]


async def test_an_interrupt_in_a_text_ends_the_turn_and_the_session_goes_on(rig: Rig) -> None:
    session = await rig.open()
    playing = start(session, "say some words\nhang")
    await playing.until(lambda event: isinstance(event, MessageDone) or rig.api is not None)
    if rig.api is not None:
        await rig.api.log.wait_kind("request")
    await session.interrupt()
    await session.interrupt()
    assert (await playing.end()).end is EndKind.INTERRUPTED
    assert session.alive
    assert await session.swept()
    assert texts(await turn(session, "say on")) == ["on"]


async def test_an_interrupt_before_the_turn_has_begun_is_not_lost(rig: Rig) -> None:
    session = await rig.open()
    playing = start(session, "hang")
    await playing.until(lambda _: True)
    await session.interrupt()
    assert (await playing.end()).end is EndKind.INTERRUPTED


async def test_an_interrupt_in_a_shell_command_leaves_nothing_of_it(rig: Rig) -> None:
    session = await rig.open()
    command = sleepers(rig.folder)
    playing = start(session, f"shell {command}\nhang")
    await playing.until(lambda event: isinstance(event, ToolStarted))
    await session.interrupt()
    await playing.end()
    assert await session.swept()
    assert session.alive


async def test_tool_calls_are_cancelled_when_the_run_ends(rig: Rig) -> None:
    session = await rig.open()
    calls = Calls(block=True)
    playing = start(session, "wait 5m x", calls)
    await calls.arrived.wait()
    await session.interrupt()
    await playing.end()
    assert calls.cancelled


async def test_an_interrupt_of_an_idle_session_does_nothing(rig: Rig) -> None:
    session = await rig.open()
    await session.interrupt()
    assert texts(await turn(session, "say on")) == ["on"]


async def test_sigkill_of_the_agent_in_a_turn_ends_it_and_the_session_can_be_resumed(rig: Rig) -> None:
    spec = rig.spec()
    session = await rig.open(spec)
    await turn(session, "say before")
    calls = Calls(block=True)
    playing = start(session, "wait 5m x", calls)
    await calls.arrived.wait()
    os.kill(session.process.agent_pid, signal.SIGKILL)
    end = await playing.end()
    assert (end.end, end.error) == (EndKind.FAILED, ErrorKind.PROCESS)
    assert calls.cancelled
    assert not session.alive
    assert await session.swept()
    assert await rig.provider.outcome(spec, playing.prompt_uuid) == Unknown()
    again = await rig.open(replace(spec, resume=True, turns=2))
    # Whether the killed prompt is in the history is the agent's affair; what was finished before is.
    assert texts(await turn(again, "recall"))[0] in {"prompts before this one: 1", "prompts before this one: 2"}


async def test_sigkill_of_the_launcher_ends_the_agent_too(rig: Rig) -> None:
    session = await rig.open()
    command = sleepers(rig.folder)
    playing = start(session, f"shell {command}\nsay started\nhang")
    await playing.until(lambda event: isinstance(event, ToolStarted))
    os.kill(session.process.launcher_pid, signal.SIGKILL)
    assert (await playing.end()).error is ErrorKind.PROCESS
    assert await rig.provider.prove_dead(session.process) is Death.DEAD


async def test_a_run_on_a_dead_session_ends_at_once(rig: Rig) -> None:
    session = await rig.open()
    os.kill(session.process.agent_pid, signal.SIGKILL)
    end = ended(await turn(session, "say hi"))
    assert (end.end, end.error) == (EndKind.FAILED, ErrorKind.PROCESS)
    assert not session.alive
    assert await session.swept()


async def test_closing_a_session_in_a_turn_ends_the_turn(rig: Rig) -> None:
    session = await rig.open()
    calls = Calls(block=True)
    playing = start(session, "wait 5m x", calls)
    await calls.arrived.wait()
    await session.close()
    assert (await playing.end()).error is ErrorKind.PROCESS
    assert await rig.provider.prove_dead(session.process) is Death.DEAD


async def test_a_silent_agent_is_stopped(rig: Rig) -> None:
    session = await rig.open()
    playing = start(session, "hang")
    if rig.api is not None:
        await rig.api.log.wait_kind("request")
    await rig.clock.until_sleeping()
    rig.clock.advance(599)
    assert playing.task is not None
    assert not playing.task.done()
    rig.clock.advance(2)
    end = await playing.end()
    assert (end.end, end.error) == (EndKind.FAILED, ErrorKind.TIMEOUT)
    assert await session.swept()


async def test_silence_within_a_tool_has_the_longer_limit(rig: Rig) -> None:
    session = await rig.open()
    calls = Calls(block=True)
    playing = start(session, "wait 5m x", calls)
    await calls.arrived.wait()
    for _ in range(5):
        await rig.clock.until_sleeping()
        rig.clock.advance(700)
    assert not any(isinstance(event, RunEnded) for event in playing.events)
    await rig.clock.until_sleeping()
    rig.clock.advance(700)
    assert (await playing.end()).error is ErrorKind.TIMEOUT


async def test_an_agent_that_ignores_the_interrupt_is_killed(rig: Rig) -> None:
    session = await rig.open()
    playing = start(session, "shell touch begun\nhang")
    await playing.until(lambda event: isinstance(event, ToolStarted))
    if rig.name == "scripted":
        # It runs in this process, so that it cannot ignore anything.
        await session.interrupt()
    else:
        os.kill(session.process.agent_pid, signal.SIGSTOP)
        await rig.clock.until_sleeping()
        stopping = asyncio.create_task(session.interrupt())
        await rig.clock.until_sleeping(2)
        rig.clock.advance(4)
        await stopping
        assert not session.alive
    assert (await playing.end()).end is EndKind.INTERRUPTED
    assert await session.swept()


async def test_a_finished_turn_is_found_in_the_transcript_even_if_the_agent_dies_with_its_end(rig: Rig) -> None:
    spec = rig.spec()
    session = await rig.open(spec)
    playing = start(session, "say one\nshell true\nsay two\nwait 5m x\nsay three")
    await playing.until(lambda event: isinstance(event, RunEnded))
    os.kill(session.process.agent_pid, signal.SIGKILL)
    await playing.end()
    assert await rig.provider.prove_dead(session.process) is Death.DEAD
    found = await rig.provider.outcome(spec, playing.prompt_uuid)
    assert isinstance(found, Ended)
    live = tuple(event for event in playing.events if isinstance(event, MessageDone | ToolStarted))
    assert found.events == live


async def test_what_the_transcript_does_not_show_is_unknown(rig: Rig) -> None:
    spec = rig.spec()
    assert await rig.provider.outcome(spec, "00000000-0000-4000-8000-000000000000") == Unknown()
    session = await rig.open(spec)
    await turn(session, "say one")
    assert await rig.provider.outcome(spec, "00000000-0000-4000-8000-000000000000") == Unknown()


async def test_a_transcript_that_is_lost_in_the_middle_of_a_turn_does_not_pass_for_the_whole_turn(rig: Rig) -> None:
    spec = rig.spec()
    session = await rig.open(spec)
    await turn(session, "say a turn before")

    async def lose_it(name: str, _arguments: Mapping[str, object]) -> ToolResult:
        (file,) = rig.root.rglob(f"{spec.native_id}*.jsonl")
        file.unlink()
        return ToolResult(f"[ok] {name}")

    prompt_uuid = "33333333-3333-4333-8333-333333333333"
    events = await turn(session, "say first\nwait 5m x\nsay last", lose_it, prompt_uuid=prompt_uuid)
    assert isinstance(events[-1], RunEnded)
    assert events[-1].end is EndKind.COMPLETED
    await session.close()
    # Claude Code writes a moment later than it acts, and may still have had the whole turn to write.
    whole = Ended(tuple(event for event in events if isinstance(event, MessageDone | ToolStarted)))
    assert await rig.provider.outcome(spec, prompt_uuid) in (Unknown(), whole)


async def test_an_interrupted_and_a_failed_turn_are_unknown_to_the_transcript(rig: Rig) -> None:
    spec = rig.spec()
    session = await rig.open(spec)
    calls = Calls(block=True)
    playing = start(session, "say one\nwait 5m x", calls)
    await calls.arrived.wait()
    await session.interrupt()
    await playing.end()
    failed = "11111111-1111-4111-8111-111111111111"
    await turn(session, "fail api", prompt_uuid=failed)
    fine = "22222222-2222-4222-8222-222222222222"
    await turn(session, "say fine", prompt_uuid=fine)
    await session.close()
    assert await rig.provider.outcome(spec, playing.prompt_uuid) == Unknown()
    assert await rig.provider.outcome(spec, failed) == Unknown()
    assert await rig.provider.outcome(spec, fine) == Ended((MessageDone("b0", "fine"),))


async def test_a_missing_program_is_unavailable(tmp_path_factory: pytest.TempPathFactory, claude: Rig) -> None:
    root = tmp_path_factory.mktemp("other")
    rig = make_rig("claude", root, claude.api, program=root / "nothing")
    assert "missing" in (await rig.provider.check() or "")
    with pytest.raises(AgentUnavailable, match="cannot start"):
        await rig.provider.open(rig.spec())
