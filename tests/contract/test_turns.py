"""What every adapter promises about turns that go well: events, sessions, our tools."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from bot.agents.base import AgentUnavailable, EndKind, Lost, MessageDone, SessionStarted, TextDelta, ToolEnded, ToolStarted, Usage
from tests.contract.harness import Calls, Rig, ended, of, start, texts, turn


async def test_a_turn_tells_its_words_and_tools_in_order_and_then_its_end(rig: Rig) -> None:
    session = await rig.open()
    calls = Calls()
    events = await turn(session, "say first\nshell true\nsay second\nwait 20m the build\nsay third", calls)

    assert events[0] == SessionStarted(session.native_id, "new")
    told = [event for event in events if isinstance(event, MessageDone | ToolStarted)]
    assert [event.text if isinstance(event, MessageDone) else (event.name, event.ours) for event in told] == [
        "first",
        ("Bash", False),
        "second",
        ("wait", True),
        "third",
    ]
    assert [event.is_error for event in of(events, ToolEnded)] == [False, False]
    assert {event.tool_id for event in of(events, ToolEnded)} == {event.tool_id for event in of(events, ToolStarted)}
    assert calls.seen == [("wait", {"delay": "20m", "reason": "the build"})]
    assert ended(events).end is EndKind.COMPLETED
    assert [event.scope for event in of(events, Usage)] == [rig.provider.capabilities.usage_scope]


async def test_block_ids_are_unique_and_those_of_the_pieces_that_came_before(rig: Rig) -> None:
    events = await turn(await rig.open(), "say one\nshell true\nsay two\nsay three")
    blocks = [event.block for event in of(events, MessageDone)]
    assert len(set(blocks)) == 3
    pieces = {block: "".join(event.text for event in of(events, TextDelta) if event.block == block) for block in blocks}
    assert list(pieces.values()) == texts(events) == ["one", "two", "three"]


async def test_a_warm_session_goes_on_where_it_was(rig: Rig) -> None:
    session = await rig.open()
    process = session.process
    await turn(session, "say one")
    events = await turn(session, "recall")
    assert texts(events) == ["prompts before this one: 1"]
    assert events[0] == SessionStarted(session.native_id, "warm")
    assert session.process == process


async def test_a_resumed_session_keeps_its_id_and_its_history(rig: Rig) -> None:
    spec = rig.spec()
    first = await rig.open(spec)
    await turn(first, "say one")
    await first.close()
    second = await rig.open(replace(spec, resume=True, turns=1))
    events = await turn(second, "recall")
    assert events[0] == SessionStarted(spec.native_id, "resumed")
    assert texts(events) == ["prompts before this one: 1"]
    assert second.native_id == spec.native_id
    assert second.process != first.process


async def test_a_session_that_was_opened_and_never_prompted_can_be_opened_again(rig: Rig) -> None:
    spec = rig.spec()
    await (await rig.open(spec)).close()
    assert ended(await turn(await rig.open(spec), "say hi")).end is EndKind.COMPLETED


async def test_an_unknown_session_is_lost_and_not_replaced(rig: Rig) -> None:
    spec = rig.spec(resume=True, turns=3)
    assert isinstance(await rig.provider.open(spec), Lost)


async def test_an_id_in_use_is_unavailable_and_not_lost(rig: Rig) -> None:
    spec = rig.spec()
    session = await rig.open(spec)
    await turn(session, "say hi")
    await session.close()
    with pytest.raises(AgentUnavailable):
        await rig.provider.open(spec)


async def test_a_missing_folder_is_unavailable_and_not_lost(rig: Rig) -> None:
    with pytest.raises(AgentUnavailable, match="does not exist"):
        await rig.provider.open(rig.spec(folder=rig.root / "gone"))


async def test_a_second_run_while_one_is_active_is_refused_and_harms_nothing(rig: Rig) -> None:
    session = await rig.open()
    calls = Calls(block=True)
    playing = start(session, "wait 5m x\nsay never", calls)
    await calls.arrived.wait()
    with pytest.raises(RuntimeError):
        await turn(session, "say hi")
    await session.interrupt()
    assert (await playing.end()).end is EndKind.INTERRUPTED


async def test_each_run_has_its_own_tool_handler(rig: Rig) -> None:
    session = await rig.open()
    first, second = Calls(), Calls()
    await turn(session, "wait 1m first", first)
    await turn(session, "wait 2m second", second)
    assert [arguments["reason"] for _, arguments in first.seen] == ["first"]
    assert [arguments["reason"] for _, arguments in second.seen] == ["second"]


async def test_a_handler_that_fails_is_an_error_result_and_the_turn_goes_on(rig: Rig) -> None:
    async def broken(_name: str, _arguments: object) -> None:
        raise ValueError("private detail")

    events = await turn(await rig.open(), "wait 5m x\nsay on", broken)  # type: ignore[arg-type]
    assert [event.is_error for event in of(events, ToolEnded)] == [True]
    assert texts(events) == ["on"]


async def test_sessions_do_not_mix(rig: Rig) -> None:
    sessions = [await rig.open(rig.spec(session_id=number)) for number in range(3)]
    handlers = [Calls() for _ in sessions]
    played = await asyncio.gather(
        *(turn(session, f"say {at}\nwait {at + 1}m for {at}", handlers[at]) for at, session in enumerate(sessions))
    )
    assert [texts(events)[0] for events in played] == ["0", "1", "2"]
    assert [calls.seen[0][1]["reason"] for calls in handlers] == ["for 0", "for 1", "for 2"]


async def test_the_check_finds_a_usable_agent(rig: Rig) -> None:
    rig.clock.advance(0)
    assert await rig.provider.check() is None
