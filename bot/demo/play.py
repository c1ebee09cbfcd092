"""The order of a demo: set the stage, play the story, end everything, look for what is left, sum up."""

from __future__ import annotations

import asyncio
import signal
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path

from bot.clock import SystemClock
from bot.demo import leftovers
from bot.demo.recorder import DidNotCome, Recorder
from bot.demo.serve import serve_until_told
from bot.demo.servers import Servers
from bot.demo.steps import STEPS
from bot.demo.story import Story
from bot.demo.transcript import Transcript, Verdict
from bot.errors import EXIT_FAILED, EXIT_OK
from storage.outside import Outside

#: What a shell reports for a program that Ctrl-C ended: 128 + SIGINT.
_EXIT_INTERRUPTED = 130
#: How long a step waits for each thing that must follow. Many times what is needed, so that a busy machine is no failure.
_PATIENCE_S = 30.0
#: A sabotaged run waits in vain for a wake that was asked for in a few seconds, so it need not wait long.
_SABOTAGED_PATIENCE_S = 6.0
#: How long Nightporter may take to end when it is told to.
_STOP_S = 25.0


def main(*, json_file: Path | None = None, serve: bool = False, sabotage: str | None = None) -> int:
    """Play the story (or with `serve` only set the stage) and return the exit code: 0 if everything was as promised."""
    try:
        return asyncio.run(_main(json_file, serve=serve, sabotage=sabotage))
    except asyncio.CancelledError:
        return _EXIT_INTERRUPTED


async def _main(json_file: Path | None, *, serve: bool, sabotage: str | None) -> int:
    _end_on_signals()
    clock = SystemClock()
    names: dict[int, str] = {}
    transcript = Transcript(clock.now_ms, names=names)
    began_s = clock.monotonic_s()
    # With a shortest wait of an hour, every wait of the story is raised to it: no wake comes, and that must be noticed.
    servers = Servers(clock, shortest_wait="1h" if sabotage == "no-wake" else "1s")
    wake_patience_s = _PATIENCE_S if sabotage is None else _SABOTAGED_PATIENCE_S
    async with AsyncExitStack() as stack:
        file = None if json_file is None else stack.enter_context(json_file.open("w", encoding="utf-8"))
        await stack.enter_async_context(servers)
        world = servers.discord.world
        names |= {user.id: user.name for user in world.users.values()} | {one.id: one.name for one in world.channels.values()}
        recorder = Recorder(servers.discord, servers.model, Outside.of_file(servers.database), clock, file)
        stack.push_async_callback(recorder.aclose)
        recorder.listen(transcript.on_event)
        story = Story(servers, recorder, transcript, clock, _PATIENCE_S, wake_patience_s)
        transcript.say(f"A Discord at {servers.discord.base_url} and a model API at {servers.model.url}, both started here.", "dim")
        if serve:
            return await serve_until_told(story, transcript)
        verdicts = await _play(story, transcript)
        end = await _end(story, recorder, transcript)
    return _sum_up([*verdicts, end], transcript, clock.monotonic_s() - began_s)


def _end_on_signals() -> None:
    """Ctrl-C and SIGTERM end everything properly; asked again they change nothing, or Nightporter could be left running."""
    task, loop = asyncio.current_task(), asyncio.get_running_loop()

    def end() -> None:
        if task is not None and not task.cancelling():
            task.cancel()

    for each in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(each, end)


async def _play(story: Story, transcript: Transcript) -> list[Verdict]:
    try:
        await story.start_porter()
        await story.ready()
    except DidNotCome as failure:
        verdict = Verdict("0", "Nightporter starts", passed=False, expected=failure.expected, came=story.what_came())
        transcript.verdict(verdict)
        return [verdict]
    verdicts = await story.play(STEPS)
    for woke in await story.woke_after_all() if all(verdict.passed for verdict in verdicts) else ():
        transcript.verdict(woke)
        verdicts.append(woke)
    return verdicts


async def _end(story: Story, recorder: Recorder, transcript: Transcript) -> Verdict:
    """Tell Nightporter to stop, close the servers, and look for what is left by mark, folder and socket."""
    transcript.heading("The end")
    servers = story.servers
    code: int | None = servers.porter.exit_code
    if code is None:
        await story.end_porter(partial(servers.porter.stop, _STOP_S))
        code = servers.porter.exit_code
    await recorder.aclose()
    ports = servers.ports
    launched = leftovers.marks(run.process for run in recorder.rows.runs)
    found = leftovers.sockets((), servers.folder)
    await servers.close_servers()
    found += leftovers.processes(servers.mark, servers.folder, launched) + leftovers.sockets(ports, servers.folder)
    for thing in found:
        recorder.note("leftover", text=thing, state="left")
    if not found:
        recorder.note("leftover", state="none")
    came = "; ".join([f"exit code {code}", *found])
    verdict = Verdict(
        "end",
        "Nightporter stops and nothing is left",
        passed=code == EXIT_OK and not found,
        expected="exit code 0, no process with the demo's mark, no open socket",
        came=came if found or code != EXIT_OK else "Nightporter stopped with exit code 0; no process and no socket is left",
    )
    transcript.verdict(verdict)
    return verdict


def _sum_up(verdicts: list[Verdict], transcript: Transcript, seconds: float) -> int:
    failed = [verdict for verdict in verdicts if not verdict.passed]
    passed = sum(verdict.passed is True and verdict.step.isdigit() for verdict in verdicts)
    transcript.say("")
    if failed:
        transcript.say(f"FAILED: {passed} of {len(STEPS)} steps went as promised ({seconds:.0f} s).", "red")
        return EXIT_FAILED
    transcript.say(f"All {passed} steps went as promised ({seconds:.0f} s).", "green")
    return EXIT_OK
