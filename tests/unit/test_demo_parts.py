"""The parts of the demo that must not lie: the model's scenes, the lines of the file, what counts as left behind."""

from __future__ import annotations

import asyncio
import io
import socket
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from bot.clock import ManualClock
from bot.demo import check, leftovers, scenes
from bot.demo.events import Event, read_events
from bot.demo.process import MARK
from bot.demo.transcript import Transcript, Verdict
from bot.loopback.model import ModelRequest
from bot.loopback.model.replies import Reply, Text, ToolUse

EVENT = Event(1_700_000_000_000, "run", "database", "backend", "alice", "é", "12", 3, "s", 4, "succeeded", {"kind": "user", "before": None})


def request(prompt: str) -> ModelRequest:
    return ModelRequest("s", None, "k", stream=True, body={"messages": [{"role": "user", "content": prompt}]})


async def first(prompt: str) -> tuple[str | ToolUse, ...]:
    """The first message that the demo's model answers to a prompt: its texts and tool calls."""
    reply = await scenes.DemoBrain(ManualClock())(request(prompt))
    assert isinstance(reply, Reply)
    return tuple(block.text if isinstance(block, Text) else block for block in reply.blocks if isinstance(block, Text | ToolUse))


async def test_a_person_s_sentence_comes_before_the_reason_of_what_is_pending() -> None:
    pending = f"[pending] c3 wakes soon, reason «{scenes.WAKE_NIGHTLY.cue}»\n\nbob: {scenes.ASK_MEANWHILE.cue}"
    assert await first(pending) == (scenes.ASK_MEANWHILE.answer,)


async def test_the_model_holds_its_answer_until_the_story_lets_it_go_on() -> None:
    brain = scenes.DemoBrain(ManualClock())
    answering = asyncio.ensure_future(brain(request(f"alice: {scenes.ASK_LONG.cue}")))
    await asyncio.sleep(0)
    assert not answering.done()
    brain.release(scenes.ASK_LONG)
    assert isinstance(await answering, Reply)


@pytest.mark.parametrize(
    ("prompt", "delay", "reason"),
    [
        ("alice: remind me in 20s to look at CI.", "20s", "say look at CI"),
        ("alice: please wake us in 5 minutes", "5m", "say say so"),
    ],
)
async def test_people_who_poke_at_it_can_ask_for_a_reminder(prompt: str, delay: str, reason: str) -> None:
    (call,) = await first(prompt)
    assert isinstance(call, ToolUse)
    assert (call.name, dict(call.input)) == ("mcp__nightporter__wait", {"delay": delay, "reason": reason})


def test_scenes_cannot_be_mistaken_for_each_other() -> None:
    cues = [scene.cue for scene in scenes.SCENES]
    answers = [scene.answer for scene in scenes.SCENES if scene.answer]
    for texts in (cues, answers):
        assert [(one, other) for one in texts for other in texts if one is not other and one in other] == []


def test_an_event_survives_the_file_and_events_are_read_in_the_order_of_their_times() -> None:
    earlier = replace(EVENT, t_ms=EVENT.t_ms - 1, detail={})
    assert read_events([EVENT.to_json(), earlier.to_json()]) == [earlier, EVENT]


@pytest.mark.parametrize("line", ["{}", "[]", "nonsense", EVENT.to_json().replace("database", "rumour")])
def test_what_is_no_event_is_refused(line: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "out.jsonl"
    file.write_text(line)
    assert check.main([str(file)]) == 2
    assert "out.jsonl" in capsys.readouterr().err


def test_an_empty_file_proves_nothing() -> None:
    verdicts = check.check([])
    assert len(verdicts) == len(check.CHECKS)
    assert all(verdicts.values())


def test_the_transcript_is_in_the_order_of_time_and_shows_markup_as_a_person_sees_it() -> None:
    out = io.StringIO()
    transcript = Transcript(lambda: 1_700_000_000_000, out, {7: "alice", 8: "backend"})
    said = Event(1_700_000_002_000, "message", "discord", "backend", "bot", "<@7> in <#8> <t:1700000005:R>", state="create")
    transcript.on_event(said)
    transcript.on_event(replace(said, t_ms=1_700_000_001_000, text="before"))
    transcript.flush()
    assert [line.split(maxsplit=3)[3] for line in out.getvalue().splitlines()] == ["before", "@alice in #backend in 5 s"]


def test_a_failed_verdict_says_what_was_expected_and_what_came() -> None:
    lines = Verdict("3", "a wake", passed=False, expected="c1 wakes", came="nothing").lines()
    assert "FAIL" in lines[0]
    assert [line.split(maxsplit=1) for line in lines[1:]] == [["expected", "c1 wakes"], ["came", "nothing"]]


def test_a_process_with_the_mark_or_in_the_folder_is_found(tmp_path: Path) -> None:
    sleep = [sys.executable, "-c", "input()"]
    one = subprocess.Popen(sleep, stdin=subprocess.PIPE, env={MARK: "m1"})
    two = subprocess.Popen(sleep, stdin=subprocess.PIPE, cwd=tmp_path, env={})
    try:
        found = {int(line.split()[0]) for line in leftovers.processes("m1", tmp_path)}
    finally:
        for process in (one, two):
            process.communicate()
    assert found == {one.pid, two.pid}
    assert leftovers.processes("m1", tmp_path) == []


def test_an_open_port_and_an_open_socket_are_found(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as tcp, socket.socket(socket.AF_UNIX) as unix:
        unix.bind(str(tmp_path / "s"))
        unix.listen()
        port = tcp.getsockname()[1]
        assert len(leftovers.sockets([port], tmp_path)) == 2
    assert leftovers.sockets([port], tmp_path) == []
