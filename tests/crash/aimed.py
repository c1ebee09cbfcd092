"""A process killed at each named crash point in turn, by what people do to make it pass there; then calm, and the checks of a storm.

One life follows the other on the same stage: the start that brings one kill in order is already ordered to die at the next
point. A life that does not pass its point in time is a fault of the table below.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bot.clock import SystemClock
from bot.demo.recorder import DidNotCome
from bot.loopback.discord import ApiError, CannotInvokeError, Code, LoopbackDiscord, Message
from storage.models import Snapshot
from storage.states import ContinuationState, PromptState, RunState
from tests.crash.rest import quiet
from tests.crash.storm import Outcome, Storm, extra_config
from tests.support.porter import Porter

Act = Callable[["Aimed"], Awaitable[None]]

_POST: Final = "/channels/{channel_id}/messages"
#: Much longer than any of them needs.
_REACHED_S: Final = 60.0
#: Between two plays of a story: Discord takes five messages in five seconds in a channel.
_BREATH_S: Final = 3.0


@dataclass(frozen=True, slots=True)
class Story:
    """How a process is brought to pass a point."""

    #: Played again and again until the process has died.
    act: Act
    #: The life before ends at this point, so that the next one finds something.
    first: str | None = None
    #: Done while no process runs, right before.
    away: Act | None = None


class Aimed(Storm):
    """A storm without chance."""

    #: Length of Discord's log when this life began.
    _began = 0

    async def kill_at(self, points: Mapping[str, Story]) -> None:
        """Both sides of each point, then the calm and the checks."""
        await self._move_in()
        await self._porter.kill()
        for point, story in points.items():
            for side in ("before", "after"):
                if story.first is not None:
                    await self._kill(story.first, Story(talk))
                await self._kill(f"{point}.{side}", story)
        self._porter.discord.faults.clear()
        self._porter.env.clear()
        await self._porter.start()
        await self._answer_offers()
        await self._calm()

    async def _kill(self, order: str, story: Story) -> None:
        porter = self._porter
        if story.away is not None:
            await story.away(self)
        self._began = len(porter.discord.log)
        await porter.start(crash=f"{order}:1", ready=False)
        acting = asyncio.create_task(self._act_on(story.act), name=order)
        try:
            await asyncio.wait_for(porter.process.wait(), _REACHED_S)
        except TimeoutError:
            self.outcome.broken.append(f"{order} was not reached")
            await porter.kill()
        finally:
            acting.cancel()
            (error,) = await asyncio.gather(acting, return_exceptions=True)
        if isinstance(error, Exception):
            raise error
        if porter.process.exit_code != -9:
            self.outcome.broken.append(f"P8: the process ended by itself with {porter.process.exit_code} on its way to {order}")
        self.outcome.kills += 1

    async def _act_on(self, act: Act) -> None:
        while self.lives:
            # What a client would not offer, or Discord refuses, is no act.
            with suppress(CannotInvokeError, ApiError):
                await act(self)
            with suppress(TimeoutError):
                await asyncio.wait_for(self._porter.process.wait(), _BREATH_S)

    async def _answer_offers(self) -> None:
        # What is answered has caught up before.
        await self.answered(await self.say("say {w}"))
        while any(prompt.state is PromptState.OFFERED for prompt in self._porter.rows.prompts):
            await self.press("np:offer-run:")
            await self._porter.clock.sleep(_BREATH_S)

    async def answered(self, message: Message) -> bool:
        """Wait for the end of its turn; False if the process dies before."""
        return await self.come(lambda rows: any(p.message_id == message.id and p.state is PromptState.SETTLED for p in rows.prompts))

    @property
    def discord(self) -> LoopbackDiscord:
        return self._porter.discord

    @property
    def state(self) -> Path:
        return self._porter.state

    @property
    def project(self) -> Path:
        return self._porter.project

    @property
    def lives(self) -> bool:
        """Whether the process is there."""
        return self._porter.process.exit_code is None

    async def come(self, check: Callable[[Snapshot], object]) -> bool:
        """Wait for something in the database; False if the process dies or it does not come."""
        rows = self._porter.recorder
        try:
            await rows.until(lambda: True if check(rows.rows) or not self.lives else None, "something", _REACHED_S)
        except DidNotCome:
            return False
        return self.lives

    async def listening(self) -> bool:
        """Wait until people's commands reach the process; False if it dies before."""
        log = self._porter.discord.log
        return await self.come(lambda _: log.of("gateway.identify", since=self._began))

    async def say(self, words: str, *, by: str = "alice") -> Message:
        """Somebody writes in the channel; `{w}` is the word of the answer, `{bot}` the bot's id."""
        self._number += 1
        word = f"m{self._number}x"
        return await self._tell(self._porter.channel, getattr(self._porter, by), word, words.format(w=word, bot=self.discord.people.bot.id))

    def word_of(self, message: Message) -> str:
        """The word of its answer."""
        return self._told[message.id].words[-1]

    async def edit(self, message: Message) -> None:
        """Its author writes something else instead."""
        await self._edit(message)

    async def delete(self, message: Message) -> None:
        """Its author takes it back."""
        self._told[message.id].commanded = True
        await self._porter.discord.people.delete(message)

    async def command(self, path: str, **options: str) -> None:
        """An admin gives a command."""
        for told in self._told.values():
            told.commanded = True
        await self._porter.discord.people.slash(self._porter.channel, self._porter.ada, path, options)

    async def press(self, custom_id: str, *, admin: bool = False) -> None:
        """Alice, or the admin, presses the newest button whose id begins like this, if there is one."""
        shown = [
            (message, button["custom_id"])
            for message in self._porter.discord.people.messages(self._porter.channel)
            for row in message.components
            for button in row.get("components", ())
            if button["custom_id"].startswith(custom_id)
        ]
        if shown:
            await self._porter.discord.people.click(shown[-1][0], self._porter.ada if admin else self._porter.alice, shown[-1][1])


async def killed_at(
    folder: Path, points: Mapping[str, Story], *, env: Mapping[str, str] | None = None, postgres: str | None = None
) -> Outcome:
    """Play these; `postgres` is the URL of an empty database."""
    (folder / "annex").mkdir()
    async with Porter(folder, config=extra_config(), env=env, postgres=postgres) as porter:
        aimed = Aimed(porter, 1, "scripted")
        await aimed.kill_at(points)
        return aimed.outcome


# --- what people do --------------------------------------------------------------------------------------------------


async def talk(story: Aimed) -> None:
    await story.say("say {w}")


async def call_by_name(story: Aimed) -> None:
    await story.say("<@{bot}> say {w}")


async def narrate(story: Aimed) -> None:
    await story.say("<@{bot}> say on it\ntool Bash 0.05\nsay {w}")


async def wait_and_wake(story: Aimed) -> None:
    await story.say("wait 1s say w{w}\nsay {w}")


async def sleep_long(story: Aimed) -> None:
    await story.say("sleep 12\nsay {w}")


async def wait_long(story: Aimed) -> int | None:
    """The number of a continuation that is pending."""
    await story.say("wait 30s say w{w}\nsay {w}")
    found: list[int] = []

    def pending(rows: Snapshot) -> bool:
        found.extend(wait.id for wait in rows.continuations if wait.state is ContinuationState.PENDING)
        return bool(found)

    return found[-1] if await story.come(pending) else None


async def cancel(story: Aimed) -> None:
    if (number := await wait_long(story)) is not None and await story.listening():
        await story.command("continuations cancel", id=f"c{number}")


async def wake_now(story: Aimed) -> None:
    if (number := await wait_long(story)) is not None and await story.listening():
        await story.command("continuations wake", id=f"c{number}")


async def stop(story: Aimed) -> None:
    await story.say("sleep 3\nsay {w}")
    if await story.come(_working) and await story.listening():
        await story.command("stop")


async def reset(story: Aimed) -> None:
    if await story.answered(await story.say("say {w}")) and await story.listening():
        await story.command("reset")


async def _behind(story: Aimed) -> Message | None:
    """A message that waits behind a turn."""
    await story.say("sleep 2\nsay {w}")
    if not await story.come(_working):
        return None
    message = await story.say("say {w}", by="bob")
    waits = await story.come(lambda rows: any(p.message_id == message.id and p.state is PromptState.WAITING for p in rows.prompts))
    return message if waits else None


async def edit(story: Aimed) -> None:
    if (message := await _behind(story)) is not None:
        await story.edit(message)


async def delete(story: Aimed) -> None:
    if (message := await _behind(story)) is not None:
        await story.delete(message)


async def resume(story: Aimed) -> None:
    if await story.come(quiet) and await story.listening():
        await story.press("np:resume:")


async def long_ago(story: Aimed) -> None:
    """Longer than the age up to which a message is taken up by itself."""
    await talk(story)
    await asyncio.sleep(1.1)


async def choose(story: Aimed) -> None:
    if await story.listening() and await story.come(quiet):
        await story.press("np:offer-run:")


async def unpark(story: Aimed) -> None:
    # One limit at a time, and a short one: what waits for its end must come to rest with the rest.
    if not await story.come(lambda rows: _parked(rows) or quiet(rows)) or not await story.listening():
        return
    await story.say("say {w}\nlimit 10")
    if await story.come(_parked):
        await story.press("np:try-now:", admin=True)


def _parked(rows: Snapshot) -> bool:
    return any(conversation.not_before_ms > SystemClock().now_ms() for conversation in rows.conversations)


async def attend(story: Aimed) -> None:
    if not await story.listening():
        return
    # Longer than the bound, so that the wake asks first.
    await story.say("wait 4s say w{w}\nsay {w}")
    asked = await story.come(lambda rows: any(conversation.unattended_asked for conversation in rows.conversations))
    if asked:
        await story.press("np:continue:")


async def nothing(_story: Aimed) -> None:
    """The start alone does it."""


async def lose_the_answer(story: Aimed) -> None:
    story.discord.faults.drop("POST", _POST, when="after")
    await talk(story)


async def forbid_the_answer(story: Aimed) -> None:
    message = await story.say("sleep 0.2\nsay {w}")
    # Only that: a notice that is refused would be told to nobody.
    word = story.word_of(message)
    story.discord.faults.refuse("POST", _POST, Code.MISSING_PERMISSIONS, where=lambda call: word in call.json.get("content", ""))


async def forget(story: Aimed) -> None:
    for file in (story.state / "scripted").glob("*.jsonl"):
        file.unlink()


async def without_folder(story: Aimed) -> None:
    if not await story.listening():
        return
    away = story.project.with_name("away")
    story.project.rename(away)
    try:
        await talk(story)
        await story.come(lambda _: False)
    finally:
        away.rename(story.project)


def _working(rows: Snapshot) -> bool:
    return any(run.state is RunState.DISPATCHED for run in rows.runs)


# --- the table -------------------------------------------------------------------------------------------------------

_INTERRUPTED: Final = "C3.after"
#: What a turn passes.
TURNS: Final = {
    "C1": Story(talk),
    "C2": Story(talk),
    "C3": Story(talk),
    "C4": Story(narrate),
    "C5": Story(talk),
    "C6": Story(talk),
    "C7": Story(talk),
    "C8": Story(wait_and_wake),
    "C9": Story(wait_and_wake),
    "renew": Story(sleep_long),
    "fail": Story(forbid_the_answer),
    "leaseended": Story(nothing, first="C2.after"),
    "takeover": Story(nothing, first=_INTERRUPTED),
    "sessionlost": Story(talk, away=forget),
    "release": Story(without_folder),
    # Last: the part that was resent holds up its channel for a while.
    "retry": Story(lose_the_answer),
}
#: What people ask for.
PEOPLE: Final = {
    "edit": Story(edit),
    "remove": Story(delete),
    "cancel": Story(cancel),
    "wakenow": Story(wake_now),
    "stop": Story(stop),
    "resume": Story(resume, first=_INTERRUPTED),
    "unpark": Story(unpark),  # last: what it leaves holds the agent for a while
}
#: What is done to the outside, or asked of it.
OUTSIDE: Final = {
    "agent.open": Story(talk),
    "agent.turn": Story(talk),
    "agent.swept": Story(talk),
    "agent.interrupt": Story(stop),
    "agent.close": Story(reset),
    "agent.outcome": Story(nothing, first="C5.before"),
    "agent.prove_dead": Story(nothing, first=_INTERRUPTED),
    "chat.send": Story(talk),
    "chat.seen": Story(talk),
    "chat.typing": Story(call_by_name),
}
#: What comes only with bounds that are met at once: see `BOUNDS`.
BOUNDED: Final = {
    "notify": Story(choose, away=long_ago),
    "choose": Story(choose, away=long_ago),
    "asktocontinue": Story(attend),
    "attend": Story(attend),
}
BOUNDS: Final = {"NIGHTPORTER_WAIT__UNATTENDED_TIME": "3s", "NIGHTPORTER_DISCORD__CATCH_UP_MAX_AGE": "1s"}
#: What no start of a real process comes by in a test's time, and why; the simulation kills there, on virtual time.
VIRTUAL: Final = {
    "undecided": "the window of a nonce has to end first",
    "chat.history": "the same",
    "nativeidchanged": "no agent changes its id by itself; see tests/contract",
    "giveup": "takes a host that is lost",
    "rebind": "takes another configuration",
}
