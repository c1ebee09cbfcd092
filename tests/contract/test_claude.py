"""What only the Claude adapter can break: the real program, its habits and its secrets."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
from claude_agent_sdk import AssistantMessage, ResultMessage, SystemMessage, TextBlock

from bot.agents.base import (
    AgentUnavailable,
    EndKind,
    ErrorKind,
    Lost,
    MessageDone,
    Notice,
    PermissionMode,
    PermissionPolicy,
    SessionStarted,
    TextDelta,
    ToolEnded,
    ToolStarted,
    Unknown,
    Usage,
)
from bot.agents.claude.permissions import TOOLS
from bot.agents.claude.session import ClaudeSession
from bot.loopback.model import ModelRequest
from bot.loopback.model.replies import Answer, Drop, ErrorEvent, Malformed, Reply, say, text
from tests.contract.harness import Calls, Rig, ended, make_rig, of, start, texts, turn

pytestmark = pytest.mark.real_cli

OURS = [f"mcp__nightporter__{name}" for name in ("wait", "cancel_wait", "send_message", "skip_reply")]


def tool_results(request: ModelRequest) -> list[str]:
    found = []
    for block in request.tool_results:
        content = block["content"]
        found.append(content if isinstance(content, str) else "".join(str(part.get("text")) for part in content))  # type: ignore[attr-defined]
    return found


@pytest.mark.parametrize("mode", list(PermissionMode))
async def test_the_model_sees_exactly_these_tools_and_the_standing_instructions(claude: Rig, mode: PermissionMode) -> None:
    await turn(await claude.open(claude.spec(permissions=PermissionPolicy(mode))), "say hi")
    (request,) = claude.model.log.requests()
    expected = {
        PermissionMode.ACCEPT_EDITS: ["Agent", "Bash", "Edit", "Glob", "Grep", "NotebookEdit", "Read", "Write"],
        PermissionMode.PLAN: ["Agent", "Glob", "Grep", "Read"],
    }[mode]
    assert sorted(request.tool_names) == sorted([*expected, *OURS])
    assert sorted(TOOLS[mode]) == expected
    assert "STANDING INSTRUCTIONS: be brief." in request.system_text


async def test_long_standing_instructions_pass(claude: Rig) -> None:
    # More than one argument of a program may hold (128 KiB).
    long = "x" * 200_000 + " THE END OF THEM"
    await turn(await claude.open(claude.spec(standing_instructions=long)), "say hi")
    assert "THE END OF THEM" in claude.model.log.requests()[0].system_text


@pytest.mark.parametrize("prompt", ["@/etc/hostname", "/clear", "/model sonnet", "/compact", "!ls", "# remember this"])
async def test_a_prompt_is_literal(claude: Rig, prompt: str) -> None:
    session = await claude.open()
    claude.model.brain = lambda _: say("read")
    assert texts(await turn(session, prompt)) == ["read"]
    (request,) = claude.model.log.requests()
    assert request.last_prompt == prompt
    assert Path("/etc/hostname").read_text().strip() not in json.dumps(request.messages).replace(prompt, "")


async def test_neither_agent_nor_launcher_has_a_secret_of_nightporter(claude: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NIGHTPORTER_DISCORD__TOKEN", "secret-of-nightporter")
    session = await claude.open(claude.spec(env={"SSH_AUTH_SOCK": "/run/agent.sock"}))
    calls = Calls(block=True)
    playing = start(session, "shell env\nwait 5m x", calls)
    await calls.arrived.wait()
    shown = tool_results(claude.model.log.requests()[-1])[0]
    assert "secret-of-nightporter" not in shown
    assert "SSH_AUTH_SOCK=/run/agent.sock" in shown
    for pid in (session.process.launcher_pid, session.process.agent_pid):
        assert b"secret-of-nightporter" not in Path(f"/proc/{pid}/environ").read_bytes()
    names = {line.split("=", 1)[0] for line in shown.splitlines() if "=" in line}
    foreign = {name for name in names if name.startswith(("NIGHTPORTER", "DISCORD", "PYTEST"))}
    assert foreign == {"NIGHTPORTER_MARK"}
    await session.interrupt()
    await playing.end()


async def test_a_line_of_five_megabytes_passes(claude: Rig) -> None:
    long = "y" * 5_000_000

    def brain(request: ModelRequest) -> Answer:
        return say(long) if "long" in request.last_prompt else say("short")

    claude.model.brain = brain
    session = await claude.open()
    assert texts(await turn(session, "long")) == [long]
    assert texts(await turn(session, "short")) == ["short"]


async def test_our_tools_refuse_a_sub_agent_and_its_words_are_not_the_agents(claude: Rig) -> None:
    session = await claude.open()
    calls = Calls()
    events = await turn(session, "agent say from below\\nwait 5m sneaky\\nsay still below\nsay from above", calls)
    assert calls.seen == []
    assert texts(events) == ["from above"]
    started = {(event.name, event.subagent, event.ours) for event in of(events, ToolStarted)}
    assert started == {("Agent", False, False), ("wait", True, True)}
    assert any("only the main agent" in event.text for event in of(events, Notice))


async def test_a_tool_call_without_a_run_is_refused(claude: Rig) -> None:
    session = await claude.open()
    calls = Calls()
    events = session.run("33333333-3333-4333-8333-333333333333", [], calls)
    await anext(events)
    await events.aclose()  # type: ignore[attr-defined]
    assert not session.alive
    assert await session.swept()
    assert calls.seen == []


async def test_a_turn_that_nobody_asked_for_does_nothing_and_is_not_taken_for_the_next_answer(claude: Rig) -> None:
    session = await claude.open()
    assert isinstance(session, ClaudeSession)
    # As if the program had woken itself: a prompt that no run of ours knows.
    await session._client.query("shell touch made\nwait 5m x\nsay unsolicited")  # noqa: SLF001  # nothing else can cause one
    await claude.model.log.wait_for(lambda entry: entry.kind == "answer" and entry.text == "unsolicited")
    calls = Calls()
    assert texts(await turn(session, "say mine", calls)) == ["mine"]
    assert texts(await turn(session, "say mine too", calls)) == ["mine too"]
    assert calls.seen == []
    assert not (claude.folder / "made").exists()


async def test_another_turns_words_and_end_are_not_the_runs(claude: Rig) -> None:
    session = await claude.open()
    assert isinstance(session, ClaudeSession)
    calls = Calls(block=True)
    playing = start(session, "wait 5m x", calls)
    await calls.arrived.wait()
    other = ["66666666-6666-4666-8666-666666666666"]
    session._on_message(AssistantMessage([TextBlock("not mine")], "m", user_message_uuids=other))  # noqa: SLF001
    session._on_message(ResultMessage("success", 1, 1, False, 1, session.native_id, user_message_uuids=other))  # noqa: SLF001
    await session.interrupt()
    assert (await playing.end()).end is EndKind.INTERRUPTED
    assert texts(playing.events) == []


async def test_an_interrupt_that_the_program_heard_before_the_prompt_is_said_again(claude: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    session = await claude.open()
    assert isinstance(session, ClaudeSession)
    client = session._client  # noqa: SLF001
    query, interrupt, heard = client.query, client.interrupt, asyncio.Event()

    async def late_query(prompt: AsyncIterator[dict[str, object]]) -> None:
        await heard.wait()
        await query(prompt)

    async def early_interrupt() -> None:
        await interrupt()
        heard.set()

    monkeypatch.setattr(client, "query", late_query)
    monkeypatch.setattr(client, "interrupt", early_interrupt)
    playing = start(session, "hang")
    await playing.until(lambda _: True)
    await session.interrupt()
    assert (await playing.end()).end is EndKind.INTERRUPTED


async def test_a_changed_native_id_is_told_as_soon_as_it_is_seen(claude: Rig) -> None:
    session = await claude.open()
    assert isinstance(session, ClaudeSession)
    calls = Calls(block=True)
    playing = start(session, "wait 5m x", calls)
    await calls.arrived.wait()
    # This program keeps its id, so its word is made up.
    session._on_message(SystemMessage("init", {"session_id": "55555555-5555-4555-8555-555555555555"}))  # noqa: SLF001
    changed = await playing.until(lambda event: isinstance(event, SessionStarted) and event.how == "changed")
    assert changed == SessionStarted("55555555-5555-4555-8555-555555555555", "changed")
    assert session.native_id == "55555555-5555-4555-8555-555555555555"
    await session.interrupt()
    await session.close()
    await playing.end()


async def test_what_the_program_would_allow_by_itself_is_our_decision_too(claude: Rig) -> None:
    policy = PermissionPolicy(PermissionMode.ACCEPT_EDITS, ("true",))
    session = await claude.open(claude.spec(permissions=policy))
    (claude.root / "outside.txt").write_text("outside")
    outside = json.dumps({"file_path": str(claude.root / "outside.txt")})
    inside = json.dumps({"file_path": str(claude.folder / "made.txt"), "content": "made"})
    events = await turn(session, f"shell ls\nshell echo hi\nshell true\ncall Read {outside}\ncall Write {inside}\nsay done")
    assert [event.is_error for event in of(events, ToolEnded)] == [True, True, False, True, False]
    denials = [event.text for event in of(events, Notice) if event.kind == "permission_denied"]
    assert len(denials) == 3
    assert all("Denied: " in sentence for sentence in denials)
    assert (claude.folder / "made.txt").read_text() == "made"
    assert "`ls` matches none of the allowed commands of this project (`true`)." in "".join(tool_results(claude.model.log.requests()[-1]))


async def test_plan_mode_changes_nothing(claude: Rig) -> None:
    session = await claude.open(claude.spec(permissions=PermissionPolicy(PermissionMode.PLAN, ("*",))))
    (claude.folder / "kept.txt").write_text("kept")
    write = json.dumps({"file_path": str(claude.folder / "kept.txt"), "content": "changed"})
    read = json.dumps({"file_path": str(claude.folder / "kept.txt")})
    events = await turn(session, f"call Read {read}\ncall Write {write}\nshell touch made\nsay done")
    assert [event.is_error for event in of(events, ToolEnded)] == [False, True, True]
    assert [path.name for path in claude.folder.iterdir()] == ["kept.txt"]
    assert (claude.folder / "kept.txt").read_text() == "kept"


async def test_a_rejected_key_fails_after_one_request(tmp_path: Path, claude: Rig) -> None:
    (tmp_path / "other").mkdir()
    rig = make_rig("claude", tmp_path / "other", claude.api, api_key="wrong", retries=10)
    session = await rig.open()
    end = ended(await turn(session, "say hi"))
    assert (end.end, end.error) == (EndKind.FAILED, ErrorKind.AUTH)
    assert len(claude.model.log.requests()) == 1
    await rig.close()


async def test_a_used_up_subscription_says_when_it_ends(tmp_path: Path, claude: Rig) -> None:
    (tmp_path / "other").mkdir()
    config = tmp_path / "other" / "login"
    rig = make_rig(
        "claude",
        tmp_path / "other",
        claude.api,
        api_key=None,
        config_dir=config,
        env={"CLAUDE_CODE_OAUTH_TOKEN": "loopback-key-of-this-test"},
    )
    session = await rig.open()
    end = ended(await turn(session, "limit 3600"))
    assert end.end is EndKind.LIMIT
    request = next(iter(claude.model.log))
    assert end.resets_at_ms is not None
    assert 0 <= end.resets_at_ms - (request.t_ms + 3_600_000) <= 2_000
    assert ended(await turn(session, "say on")).end is EndKind.COMPLETED
    await rig.close()


async def test_a_broken_stream_is_repeated_and_what_it_showed_is_void(claude: Rig) -> None:
    answers = iter([Reply((text("cut o"),), fault=Drop()), Reply((text("part"),), fault=Malformed()), say("whole")])
    claude.model.brain = lambda _: next(answers)
    session = await claude.open()
    events = await turn(session, "go")
    assert ended(events).end is EndKind.COMPLETED
    assert texts(events)[-1] == "whole"
    for block in {event.block for event in of(events, TextDelta)}:
        shown = ""
        for event in of(events, TextDelta):
            if event.block == block:
                shown = event.text if event.restart else shown + event.text
        complete = next((event.text for event in of(events, MessageDone) if event.block == block), None)
        assert complete is None or shown in complete


async def test_a_stream_that_is_cut_is_no_end_of_the_turn_for_the_transcript(claude: Rig) -> None:
    """Such a message is written with the stop reason of a finished one (CLI 2.1.332)."""
    answers = iter([Reply((text("cut off here"),), fault=ErrorEvent())])
    reached = asyncio.Event()
    held = asyncio.Event()

    def brain(_: ModelRequest) -> Answer:
        if (answer := next(answers, None)) is not None:
            return answer
        reached.set()
        return Reply((text("never"),), gate=held)

    claude.model.brain = brain
    spec = claude.spec()
    session = await claude.open(spec)
    playing = start(session, "go")
    await reached.wait()
    await session.close()
    await playing.end()
    assert await claude.provider.outcome(spec, playing.prompt_uuid) == Unknown()


async def test_usage_is_that_of_the_turn_and_not_of_the_session(claude: Rig) -> None:
    spec = claude.spec()
    session = await claude.open(spec)
    first, second = [of(await turn(session, "say hi"), Usage)[0] for _ in range(2)]
    await session.close()
    again = await claude.open(replace(spec, resume=True, turns=2))
    third = of(await turn(again, "say hi"), Usage)[0]
    assert first.input_tokens == second.input_tokens == third.input_tokens == 100
    assert first.cost_usd
    assert second.cost_usd == pytest.approx(first.cost_usd)
    assert third.cost_usd == pytest.approx(first.cost_usd)


@pytest.mark.parametrize("content", ["", "garbage\n", '{"type":"user","sessionId":"another"}\n'], ids=["empty", "garbage", "foreign"])
async def test_a_transcript_that_is_not_the_sessions_is_lost(claude: Rig, content: str) -> None:
    spec = claude.spec(resume=True, turns=1)
    folder = claude.root / "state" / "claude" / "projects" / "-some-project"
    folder.mkdir(parents=True)
    (folder / f"{spec.native_id}.jsonl").write_text(content)
    assert isinstance(await claude.provider.open(spec), Lost)
    assert claude.model.log.requests() == []


async def test_a_transcript_that_vanishes_at_the_last_moment_is_lost(claude: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """The program's own answer is understood too, not only our look at the file."""
    spec = claude.spec(resume=True, turns=1)
    monkeypatch.setattr("bot.agents.claude.transcript.knowledge", lambda *_: "known")
    assert isinstance(await claude.provider.open(spec), Lost)
    assert not list((claude.root / "state" / "run").iterdir())


@pytest.mark.parametrize("reading", ["knowledge", "cost_usd"])
async def test_a_transcript_that_cannot_be_read_is_unavailable_and_no_fault_of_the_program(
    claude: Rig, monkeypatch: pytest.MonkeyPatch, reading: str
) -> None:
    spec = claude.spec(resume=True)
    folder = claude.root / "state" / "claude" / "projects" / "p"
    folder.mkdir(parents=True)
    (folder / f"{spec.native_id}.jsonl").write_text(json.dumps({"sessionId": spec.native_id}))

    # Root may read everything, so the refusal is made here.
    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(f"bot.agents.claude.transcript.{reading}", refuse)
    with pytest.raises(AgentUnavailable, match="cannot be read: Permission denied"):
        await claude.provider.open(spec)


async def test_transcripts_that_cannot_be_read_are_unavailable_and_not_lost(claude: Rig) -> None:
    folder = claude.root / "state" / "claude"
    folder.mkdir()
    (folder / "projects").write_text("a file where a folder should be")
    spec = claude.spec(resume=True, turns=1)
    with pytest.raises(AgentUnavailable, match="cannot be read"):
        await claude.provider.open(spec)
    assert await claude.provider.outcome(spec, "44444444-4444-4444-8444-444444444444") == Unknown()


async def test_a_session_is_resumed_from_another_folder_under_the_same_id(claude: Rig) -> None:
    spec = claude.spec()
    session = await claude.open(spec)
    await turn(session, "say one")
    await session.close()
    moved = claude.root / "moved"
    shutil.copytree(claude.folder, moved)
    again = await claude.open(replace(spec, resume=True, turns=1, folder=moved))
    assert texts(await turn(again, "recall")) == ["prompts before this one: 1"]
    assert again.native_id == spec.native_id


async def test_state_folders_with_long_names_work(tmp_path: Path, claude: Rig) -> None:
    # A unix socket's path holds 107 characters; the state folder's may be longer.
    root = tmp_path / ("long " * 20) / ("name's" * 10)
    root.mkdir(parents=True)
    rig = make_rig("claude", root, claude.api)
    session = await rig.open()
    assert texts(await turn(session, "shell true\nsay hi")) == ["hi"]
    assert await session.swept()
    await rig.close()


async def test_a_wrong_version_is_named(tmp_path: Path, claude: Rig) -> None:
    program = tmp_path / "claude"
    program.write_text("#!/bin/sh\necho '1.0.0 (Claude Code)'\n")
    program.chmod(0o700)
    (tmp_path / "other").mkdir()
    rig = make_rig("claude", tmp_path / "other", claude.api, program=program)
    assert "1.0.0" in (await rig.provider.check() or "")


async def test_what_a_session_keeps_on_disk_is_for_its_owner_only(claude: Rig) -> None:
    session = await claude.open()
    folder = claude.root / "state" / "run" / session.process.mark
    assert folder.stat().st_mode & 0o777 == 0o700
    assert (folder / "s").stat().st_mode & 0o777 == 0o600
    # The orders hold the credential, so they are gone as soon as they are read.
    assert not (folder / "orders.json").exists()
