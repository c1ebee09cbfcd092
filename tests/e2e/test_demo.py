"""`nightporter demo` tells the truth: the story succeeds, the file alone proves it, and a broken promise is noticed by both."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from bot.agents import procs
from bot.demo import check, scenes
from bot.demo.events import Event, read_events
from bot.demo.process import clean_env
from bot.errors import EXIT_FAILED, EXIT_OK

pytestmark = [pytest.mark.real_cli, pytest.mark.timeout(180)]

STEPS = 8


@dataclass(frozen=True)
class Played:
    """One demo that was played to its end."""

    exit_code: int
    text: str
    file: Path
    #: The folder that it had for temporary files, and what is in there afterwards.
    left_files: tuple[str, ...]
    mark: str

    def left_processes(self) -> list[str]:
        return marked(self.mark)


def marked(mark: str) -> list[str]:
    """Processes with this word in their environment."""
    found = []
    for proc in procs.table().values():
        try:
            environ = Path(f"/proc/{proc.pid}/environ").read_bytes()
        except OSError:
            continue
        if proc.runs and mark.encode() in environ:
            found.append(f"{proc.pid} {Path(f'/proc/{proc.pid}/cmdline').read_bytes()!r}")
    return found


def environment(folder: Path, mark: str) -> dict[str, str]:
    """Temporary files go to `folder`; everything inherits `mark`, the agent's processes too, whose environment keeps LC_…."""
    folder.mkdir()
    return {**clean_env("unused"), "TMPDIR": str(folder), "LC_TEST_MARK": mark}


def play(folder: Path, *options: str) -> Played:
    file, mark = folder / "out.jsonl", f"test-{folder.name}-{os.getpid()}"
    env = environment(folder / "tmp", mark)
    done = subprocess.run(
        [sys.executable, "-m", "bot.cli", "demo", "--json", str(file), *options],
        cwd=folder,
        env=env,
        capture_output=True,
        text=True,
        check=False,
        timeout=150,
    )
    return Played(done.returncode, done.stdout + done.stderr, file, tuple(path.name for path in (folder / "tmp").iterdir()), mark)


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Played:
    return play(tmp_path_factory.mktemp("good"))


@pytest.fixture(scope="module")
def events(good: Played) -> list[Event]:
    return read_events(good.file.read_text().splitlines())


def test_every_step_goes_as_promised(good: Played) -> None:
    assert good.exit_code == EXIT_OK, good.text
    verdicts = [line for line in good.text.splitlines() if line.startswith(("ok ", "FAIL ", "-- "))]
    assert [line.split(":")[0].split()[0] for line in verdicts] == ["ok"] * (STEPS + 1), good.text
    assert "\x1b[" not in good.text, "colour is for terminals"


def test_the_file_alone_proves_every_step(good: Played) -> None:
    done = subprocess.run([sys.executable, "-m", "bot.demo.check", good.file], capture_output=True, text=True, check=False)
    assert done.returncode == EXIT_OK, done.stdout + done.stderr
    assert len(done.stdout.splitlines()) == STEPS + 1


def test_every_line_of_the_file_has_all_fields_and_says_who_saw_it(good: Played) -> None:
    fields = {"t_ms", "kind", "conversation", "author", "text", "message_id", "run", "session", "continuation", "state", "source"}
    rows = [json.loads(line) for line in good.file.read_text().splitlines()]
    assert all(fields <= set(row) for row in rows)
    seen = {(row["source"], row["kind"]) for row in rows}
    assert {("discord", "message"), ("model", "request"), ("database", "run"), ("database", "continuation")} <= seen


def test_nothing_is_left(good: Played) -> None:
    assert good.left_files == ()
    assert good.left_processes() == []


def dropped(events: list[Event], which: Callable[[Event], bool]) -> list[Event]:
    kept = [event for event in events if not which(event)]
    assert len(kept) < len(events)
    return kept


def changed(events: list[Event], which: Callable[[Event], bool], **values: Any) -> list[Event]:
    assert any(which(event) for event in events)
    return [replace(event, **values) if which(event) else event for event in events]


def bot_says(scene: scenes.Scene) -> Callable[[Event], bool]:
    return lambda event: event.kind == "message" and bool(event.detail["bot"]) and scene.answer in (event.text or "")


def is_wake_prompt(event: Event) -> bool:
    return event.kind == "prompt" and event.detail["kind"] == "wake"


def of(kind: str, state: str | None = None, text: str | None = None) -> Callable[[Event], bool]:
    return lambda event: event.kind == kind and (state is None or event.state == state) and (text is None or text in (event.text or ""))


LIES: dict[str, tuple[str, Callable[[list[Event]], list[Event]]]] = {
    "the answer is not posted": ("step 1", lambda events: dropped(events, bot_says(scenes.ASK_CI))),
    "the answer is posted twice": ("step 1", lambda events: events + [event for event in events if bot_says(scenes.ASK_CI)(event)]),
    "the wait is not pending": ("step 1", lambda events: dropped(events, of("continuation", "pending", scenes.ASK_CI.reason))),
    "the list is empty": (
        "step 2",
        lambda events: changed(
            events, lambda event: event.kind == "answer" and bool(event.detail.get("embeds")), detail={"interaction": ""}
        ),
    ),
    "no wake": ("step 3", lambda events: dropped(events, is_wake_prompt)),
    "the wake is in another session": ("step 3", lambda events: changed(events, of("request", text=scenes.ASK_CI.reason), session="other")),
    "the wake has no history": (
        "step 3",
        lambda events: changed(events, lambda e: e.kind == "request" and "[wake]" in (e.text or ""), detail={"history": []}),
    ),
    "the wake is early": (
        "step 3",
        lambda events: [
            replace(event, detail={**event.detail, "due_ms": event.t_ms + 3_600_000}) if of("continuation", "pending")(event) else event
            for event in events
        ],
    ),
    "the cancelled wait wakes": (
        "step 4",
        lambda events: [
            *events,
            *(
                Event(event.t_ms, "prompt", "database", continuation=event.continuation, detail={"before": None})
                for event in events
                if of("continuation", "cancelled", scenes.ASK_STAGING.reason)(event)
            ),
        ],
    ),
    "the one without the right is obeyed": ("step 4", lambda events: dropped(events, lambda e: e.kind == "command" and e.author == "ada")),
    "the private turn is posted": (
        "step 5",
        lambda events: [
            *events,
            *(
                replace(event, author="nightporter", message_id="1", text="Lunch?", detail={**event.detail, "bot": True})
                for event in events
                if event.kind == "message" and event.text == scenes.NOT_FOR_IT.cue
            ),
        ],
    ),
    "the wake before the person": (
        "step 6",
        lambda events: changed(events, lambda e: e.kind == "run" and e.state == "dispatched" and e.detail["kind"] == "wake", t_ms=0),
    ),
    "the stopped run goes on": ("step 7", lambda events: changed(events, of("run", "cancelled"), state="succeeded")),
    "the message is lost while it is down": ("step 8", lambda events: dropped(events, bot_says(scenes.ASK_WHILE_DOWN))),
    "the agent outlives the kill": ("step 8", lambda events: dropped(events, of("agent_process"))),
    "something is left": ("the end", lambda events: changed(events, of("leftover"), state="left")),
}


@pytest.mark.parametrize("lie", LIES)
def test_the_checker_finds_a_file_that_lies(events: list[Event], lie: str) -> None:
    step, alter = LIES[lie]
    verdicts = check.check(sorted(alter(events), key=lambda event: event.t_ms))
    assert verdicts[step] is not None


@pytest.mark.ci
def test_a_demo_without_wakes_fails_and_so_does_its_file(tmp_path: Path) -> None:
    played = play(tmp_path, "--sabotage", "no-wake")
    assert played.exit_code == EXIT_FAILED, played.text
    failed = [line for line in played.text.splitlines() if line.startswith("FAIL ")]
    assert len(failed) == 1
    assert "step 3" in failed[0]
    assert "expected" in played.text
    assert "came" in played.text
    assert check.main([str(played.file)]) == EXIT_FAILED
    assert (played.left_files, played.left_processes()) == ((), [])


@pytest.mark.ci
async def test_ctrl_c_ends_everything(tmp_path: Path) -> None:
    mark = f"test-ctrl-c-{os.getpid()}"
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "bot.cli",
        "demo",
        cwd=tmp_path,
        env=environment(tmp_path / "tmp", mark),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    assert process.stdout is not None
    # In the middle of it: the agent's process is there.
    async for line in process.stdout:
        if b"dispatched" in line:
            break
    process.send_signal(signal.SIGINT)
    rest = (await process.stdout.read()).decode()
    assert await process.wait() == 128 + signal.SIGINT, rest
    assert "Traceback" not in rest
    assert list((tmp_path / "tmp").iterdir()) == []
    assert marked(mark) == []
