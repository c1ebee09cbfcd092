"""`python -m bot.demo.check FILE`: recomputes every verdict of a demo from its JSON file alone.

It shares the sentences of the story with the demo, and nothing of how the demo came to its own verdicts.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import click

from bot.demo import scenes
from bot.demo.events import Event, read_events
from bot.demo.scenes import Scene
from bot.errors import EXIT_FAILED, EXIT_OK

#: A cancelled wait counts as "never" when the file goes on for so long after its due time.
_NEVER_MS = 1_000
_USAGE = 2


class Broken(Exception):
    """A promise that the file does not bear out."""


def need(holds: object, what: str) -> None:
    """Raise Broken unless it holds."""
    if not holds:
        raise Broken(what)


@dataclass(frozen=True, slots=True)
class Story:
    """The events, and the questions that the checks ask of them."""

    events: Sequence[Event]

    def all(self, kind: str, **fields: object) -> list[Event]:
        """Events of one kind with these values."""
        return [event for event in self.events if event.kind == kind and all(getattr(event, k) == v for k, v in fields.items())]

    def said(self, scene: Scene) -> Event:
        """The person's message with the scene's sentence: exactly one."""
        found = [event for event in self.all("message", state="create") if scene.cue in (event.text or "") and not event.detail["bot"]]
        need(len(found) == 1, f'"{scene.cue}" was said once, not {len(found)} times')
        return found[0]

    def run(self, message: Event) -> int:
        """The run that took a message: exactly one prompt, and one run that was dispatched for it."""
        made = [event for event in self.all("prompt", message_id=message.message_id) if event.detail["before"] is None]
        need(len(made) == 1, f"message {message.message_id} became one prompt, not {len(made)}")
        return self._dispatched({event.run for event in self.all("prompt", message_id=message.message_id, state="taken")})

    def wake(self, continuation: int) -> int:
        """The run that a continuation woke: exactly one prompt, and one run that was dispatched for it."""
        made = [event for event in self.all("prompt", continuation=continuation) if event.detail["before"] is None]
        need(len(made) == 1, f"c{continuation} became one prompt, not {len(made)}")
        return self._dispatched({event.run for event in self.all("prompt", continuation=continuation, state="taken")})

    def _dispatched(self, runs: set[int | None]) -> int:
        called = {event.run for event in self.all("run", state="dispatched") if event.run in runs and event.detail["before"] == "claimed"}
        need(len(called) == 1, f"one of the runs {sorted(run for run in runs if run)} was dispatched, not {len(called)}")
        (run,) = called
        if run is None:
            raise Broken("a run without an id")
        return run

    def ended(self, run: int, state: str) -> Event:
        """The run's end in this state."""
        found = self.all("run", run=run, state=state)
        need(found, f"run {run} {state}")
        return found[0]

    def answers(self, scene: Scene, conversation: str) -> list[Event]:
        """The bot's messages with the scene's answer."""
        said = self.all("message", state="create", conversation=conversation)
        return [event for event in said if event.detail["bot"] and scene.answer in (event.text or "")]

    def answered_once(self, scene: Scene, conversation: str = "backend") -> None:
        """The answer is in the channel, once."""
        count = len(self.answers(scene, conversation))
        need(count == 1, f'"{scene.answer}" is in #{conversation} once, not {count} times')

    def wait_of(self, run: int, state: str) -> Event:
        """The continuation that a run asked for, at the moment it came into this state."""
        found = self.all("continuation", run=run, state=state)
        need(found, f"the wait of run {run} is {state}")
        return found[0]

    def prompt_text(self, run: int) -> str:
        """What the agent was told first in a run."""
        return (self.requests(run)[0].text or "").lstrip()

    def requests(self, run: int) -> list[Event]:
        """The requests to the model in a run, at least one."""
        found = self.all("request", run=run)
        need(found, f"the model API received the prompt of run {run}")
        return found

    def never_woke(self, wait: Event) -> None:
        """No prompt was ever made of it, and the file goes on for long enough to know."""
        need(not self.all("prompt", continuation=wait.continuation), f"c{wait.continuation} never wakes")
        need(self.events[-1].t_ms > wait.detail["due_ms"] + _NEVER_MS, f"the file goes on after the time of c{wait.continuation}")

    def command(self, path: str, author: str) -> Event:
        """A command that somebody gave once."""
        found = [event for event in self.all("command", author=author) if event.text == path]
        need(len(found) == 1, f"{author} gave /{path} once, not {len(found)} times")
        return found[0]


def ask(story: Story) -> None:
    """Step 1: an answer, a succeeded run, a pending continuation."""
    run = story.run(story.said(scenes.ASK_CI))
    story.ended(run, "succeeded")
    story.answered_once(scenes.ASK_CI)
    story.wait_of(run, "pending")


def listed(story: Story) -> None:
    """Step 2: the list shows the continuation while it is pending."""
    message = story.said(scenes.ASK_CI)
    wait = story.wait_of(story.run(message), "pending")
    command = story.command("continuations list", "ada")
    need(command.t_ms >= wait.t_ms, "the list was asked for while the wait was pending")
    answers = [event for event in story.all("answer") if event.detail["interaction"] == command.detail["interaction"]]
    shown = "\n".join(f"{event.text} {event.detail.get('embeds')}" for event in answers)
    need(f"c{wait.continuation}" in shown, "the list shows the id")
    need(f"<@{message.detail['author_id']}>" in shown or str(message.author) in shown, "the list shows who")
    need(f"<t:{wait.detail['due_ms'] // 1000}" in shown, "the list shows when")
    need(wait.text and wait.text in shown, "the list shows why")


def woke(story: Story) -> None:
    """Step 3: the same session, with its history, the wake prompt and the receipt, once and not early."""
    origin = story.run(story.said(scenes.ASK_CI))
    wait = story.wait_of(origin, "pending")
    run = story.wake(_number(wait.continuation))
    story.ended(run, "succeeded")
    request = story.requests(run)[0]
    need(request.session == story.requests(origin)[0].session == wait.session, "the wake ran in the session that asked")
    need(scenes.ASK_CI.cue in "\n".join(request.detail["history"]), "the model API received the earlier history")
    need(scenes.ASK_CI.reason in (request.text or ""), "the model API received the wake prompt")
    need(story.prompt_text(run).startswith("[delivered]"), "the wake's prompt begins with the [delivered] receipt")
    need(request.t_ms >= wait.detail["due_ms"], "the wake was not early")
    story.answered_once(scenes.WAKE_CI)


def cancelled(story: Story) -> None:
    """Step 4: refused to one, cancelled by an admin, never woken, and the agent is told."""
    wait = story.wait_of(story.run(story.said(scenes.ASK_STAGING)), "pending")
    refused = story.command("continuations cancel", "bob")
    given = story.command("continuations cancel", "ada")
    ends = [event for event in story.all("continuation", continuation=wait.continuation) if event.t_ms >= refused.t_ms]
    need([event.state for event in ends] == ["cancelled"], f"c{wait.continuation} ended cancelled")
    need(ends[0].t_ms >= given.t_ms, "the admin's command cancelled it, not the other one's")
    story.never_woke(wait)
    told = story.prompt_text(story.run(story.said(scenes.ASK_CHANGELOG)))
    need(f"c{wait.continuation}" in told and "cancelled" in told, "the agent's next prompt says that it was cancelled")
    story.answered_once(scenes.ASK_CHANGELOG)


def kept_quiet(story: Story) -> None:
    """Step 5: nothing posted, and the receipt says so."""
    message, following = story.said(scenes.NOT_FOR_IT), story.said(scenes.ASK_TESTS)
    run = story.run(message)
    story.ended(run, "succeeded")
    posted = [event for event in story.all("message", conversation="backend", state="create") if event.detail["bot"]]
    need(not [event for event in posted if message.t_ms <= event.t_ms <= following.t_ms], "nothing was posted")
    need(not story.all("part", run=run), "nothing was queued to be posted")
    told = story.prompt_text(story.run(following))
    need("[delivered] nothing: kept private" in told, "the next prompt's receipt says that nothing was posted")


def people_first(story: Story) -> None:
    """Step 6: the wake waited first, the person ran first."""
    wait = story.wait_of(story.run(story.said(scenes.ASK_NIGHTLY)), "pending")
    person = story.said(scenes.ASK_MEANWHILE)
    wake_waits = story.all("prompt", continuation=wait.continuation, state="waiting")[:1]
    person_waits = story.all("prompt", message_id=person.message_id, state="waiting")[:1]
    need(wake_waits and person_waits and wake_waits[0].t_ms <= person_waits[0].t_ms, "the wake waited before the person's message")
    runs = story.run(story.said(scenes.ASK_LONG)), story.run(person), story.wake(_number(wait.continuation))
    began = [story.all("run", run=run, state="dispatched")[0].t_ms for run in runs]
    ended = [story.ended(run, "succeeded").t_ms for run in runs]
    need(ended[0] <= began[1] and ended[1] <= began[2], "first the busy run, then the person, then the wake, one at a time")
    for scene in (scenes.ASK_LONG, scenes.ASK_MEANWHILE, scenes.WAKE_NIGHTLY):
        story.answered_once(scene)


def stopped(story: Story) -> None:
    """Step 7: the run is cancelled with its wait, which never wakes."""
    run = story.run(story.said(scenes.ASK_PUBLISH))
    wait = story.wait_of(run, "requested")
    command = story.command("stop", "bob")
    need(story.ended(run, "cancelled").t_ms >= command.t_ms, "the run was cancelled by /stop")
    need(story.wait_of(run, "cancelled").t_ms >= command.t_ms, "its wait was cancelled by /stop")
    story.never_woke(wait)
    need(not story.answers(scenes.ASK_PUBLISH, "website"), "the stopped turn's answer was not posted")


def survived(story: Story) -> None:
    """Step 8: killed while a wait is pending and a message is typed; both are served once."""
    wait = story.wait_of(story.run(story.said(scenes.ASK_LOAD)), "pending")
    killed = next((event for event in story.all("process", state="killed") if event.t_ms >= wait.t_ms), None)
    if killed is None:
        raise Broken("Nightporter was killed while the wait was pending")
    need(killed.detail["exit_code"] < 0, "a signal ended it")
    later = [event for event in story.all("continuation", continuation=wait.continuation) if event.t_ms > wait.t_ms]
    need(not [event for event in later if event.t_ms < killed.t_ms], "the wait was pending when Nightporter was killed")
    restarts = [event for event in story.all("process", state="started") if event.t_ms >= killed.t_ms]
    message = story.said(scenes.ASK_WHILE_DOWN)
    need(restarts and killed.t_ms <= message.t_ms <= restarts[0].t_ms, "the message was typed while it was down")
    gone = [event for event in story.all("agent_process", state="gone") if event.t_ms >= killed.t_ms]
    need(gone and gone[-1].t_ms <= restarts[0].t_ms, "the agent's process of before was gone")
    story.ended(story.run(message), "succeeded")
    story.ended(story.wake(_number(wait.continuation)), "succeeded")
    story.answered_once(scenes.ASK_WHILE_DOWN)
    story.answered_once(scenes.WAKE_LOAD)


def ended(story: Story) -> None:
    """The end: exit code 0, nothing left."""
    last = story.all("process")[-1:]
    need(last and last[0].detail.get("exit_code") == 0, "Nightporter ended with exit code 0")
    need([event.state for event in story.all("leftover")] == ["none"], "it was looked for what is left, and nothing was")


CHECKS: tuple[tuple[str, Callable[[Story], None]], ...] = (
    ("step 1", ask),
    ("step 2", listed),
    ("step 3", woke),
    ("step 4", cancelled),
    ("step 5", kept_quiet),
    ("step 6", people_first),
    ("step 7", stopped),
    ("step 8", survived),
    ("the end", ended),
)


def check(events: Sequence[Event]) -> dict[str, str | None]:
    """For each step None, or what the events do not bear out."""
    story = Story(events)
    verdicts: dict[str, str | None] = {}
    for name, function in CHECKS:
        try:
            function(story)
        except Broken as broken:
            verdicts[name] = str(broken)
        else:
            verdicts[name] = None
    return verdicts


def _number(value: int | None) -> int:
    if value is None:
        raise Broken("an event without the id it should have")
    return value


def main(arguments: Sequence[str]) -> int:
    """Print one line for each step; 0 if all hold, 1 if one does not, 2 for a file that cannot be read."""
    if len(arguments) != 1:
        click.echo("usage: python -m bot.demo.check FILE", err=True)
        return _USAGE
    try:
        events = read_events(_lines(Path(arguments[0])))
    except (OSError, ValueError) as error:
        click.echo(f"{arguments[0]}: {error}", err=True)
        return _USAGE
    verdicts = check(events)
    for name, broken in verdicts.items():
        click.echo(f"ok    {name}" if broken is None else f"FAIL  {name}: not so: {broken}")
    return EXIT_FAILED if any(verdicts.values()) else EXIT_OK


def _lines(path: Path) -> Iterable[str]:
    return path.read_text("utf-8").splitlines()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
