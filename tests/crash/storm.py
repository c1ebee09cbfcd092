"""People talk, command and press in several channels while the process is killed again and again; then calm, then every promise is checked.

    python -m tests.crash.storm --kills 50 --seed 7 [--agent scripted|real]

A seed decides what people do, what Discord does wrong and how each kill is aimed; what the machine makes of it in between is
chance, as it is in life. Exit code 1 and an account of it if anything is broken or left behind.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Final, Literal

import structlog

from bot.demo import leftovers
from bot.demo.events import Event
from bot.loopback.discord import ApiError, CannotInvokeError, Channel, Member, Message, Record
from tests.crash.account import Told, unaccounted
from tests.crash.rest import aside, descriptors, quiet
from tests.crash.weather import Weather
from tests.support.history import violations
from tests.support.porter import Porter

Agent = Literal["scripted", "real"]

#: A kill that was aimed at something that does not come falls then.
_AIM_S: Final = 6.0
#: Longer than the window of a nonce and the pauses of what is tried again.
_CALM_S: Final = 200.0
_FIRST_CHANNEL: Final = 910_000_000_000_000_001
#: File descriptors that come and go by themselves: a pooled connection, a second reader of the database.
_FD_SLACK: Final = 8
_PLACES: Final = (("lobby", "backend", "mention"), ("deploy", "annex", "all"), ("ops", "annex", "all"))
#: What a kill may be aimed at; None: whatever comes.
_TARGETS: Final = (
    None,
    ("prompt", "waiting"),
    ("prompt", "taken"),
    ("run", "claimed"),
    ("run", "dispatched"),
    ("run", "dispatched"),
    ("run", "succeeded"),
    ("continuation", "requested"),
    ("continuation", "pending"),
    ("continuation", "claimed"),
    ("continuation", "dispatched"),
    ("part", "ready"),
    ("part", "sending"),
    ("part", "delivered"),
    ("message", "create"),
    ("answer", "create"),
)
_POINTS: Final = tuple(f"C{n}.{side}" for n in range(1, 10) for side in ("before", "after"))


@dataclass
class Outcome:
    """What came of a storm."""

    kills: int = 0
    broken: list[str] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    #: What was measured, a line each.
    account: list[str] = field(default_factory=list)
    log: str = ""


def extra_config() -> str:
    """Two more projects' worth of channels: one folder that is shared, one that two channels take turns in."""
    channels = "\n".join(
        f'[[channels]]\nid = {_FIRST_CHANNEL + n}\nproject = "{project}"\nlisten = "{listen}"\n'
        for n, (_, project, listen) in enumerate(_PLACES)
    )
    return f'{channels}\n[[projects]]\nname = "annex"\npath = "annex"\nallowed_commands = ["sleep *"]\nshared = true\n'


class Storm:
    """One story on one stage."""

    def __init__(self, porter: Porter, seed: int, agent: Agent) -> None:
        self._porter = porter
        self._random = random.Random(seed)
        self._agent = agent
        self._weather = Weather(porter.discord, self._random)
        self._channels: list[Channel] = []
        self._mention: set[int] = set()
        self._told: dict[int, Told] = {}
        self._said: list[Message] = []
        self._number = 0
        self.outcome = Outcome()

    async def run(self, kills: int) -> Outcome:
        """The whole story; every process that it starts has ended when it returns."""
        await self._move_in()
        for number in range(kills):
            await self._life(number)
        await self._calm()
        return self.outcome

    async def _move_in(self) -> None:
        """A first life without harm: what is bound for the first time begins now."""
        porter = self._porter
        people = porter.discord.people
        self._channels = [porter.channel]
        for n, (name, _, listen) in enumerate(_PLACES):
            self._channels.append(await people.create_channel(porter.guild, name, channel_id=_FIRST_CHANNEL + n))
            if listen == "mention":
                self._mention.add(_FIRST_CHANNEL + n)
        await porter.start()
        await porter.until(lambda rows: len(rows.conversations) == len(self._channels), "every channel is bound")

    # --- a life, and its end ---------------------------------------------------------------------------------------------

    async def _life(self, number: int) -> None:
        """People talk while the process runs (or starts, or is away), until it is killed and started again."""
        porter = self._porter
        talking = asyncio.create_task(self._talk(self._random.randint(2, 9)), name="storm-people")
        try:
            await self._aim()
            if porter.process.exit_code is None:
                await porter.kill()
            elif porter.process.exit_code != -9:
                self.outcome.broken.append(f"P8: the process ended by itself with {porter.process.exit_code} in life {number}")
            self.outcome.kills += 1
            if self._random.random() < 0.4:
                # Some go on talking while nobody is there.
                await talking
        finally:
            if not talking.done() and self._random.random() < 0.5:
                talking.cancel()
            await asyncio.gather(talking, return_exceptions=True)
        if not talking.cancelled() and (error := talking.exception()) is not None:
            raise error
        self._weather.between()
        crash = f"{self._random.choice(_POINTS)}:{self._random.randint(1, 5)}" if self._random.random() < 0.35 else None
        await porter.start(crash=crash, ready=False)

    async def _aim(self) -> None:
        """Wait for the instant of the kill: after so many things have happened, and a little; or at any time of the start."""
        clock, chance = self._porter.clock, self._random
        if chance.random() < 0.15:
            await clock.sleep(chance.uniform(0.0, 2.0))
            return
        enough, target, left = asyncio.Event(), chance.choice(_TARGETS), chance.randint(1, 4)

        def count(event: Event) -> None:
            nonlocal left
            left -= target is None or (event.kind, event.state) == target
            if left <= 0:
                enough.set()

        # A listener stays until the recorder is closed; it only counts.
        self._porter.recorder.listen(count)
        ended = asyncio.create_task(self._porter.process.wait())
        waiting = asyncio.create_task(enough.wait())
        await asyncio.wait({ended, waiting}, timeout=_AIM_S, return_when=asyncio.FIRST_COMPLETED)
        for task in (ended, waiting):
            task.cancel()
        await asyncio.gather(ended, waiting, return_exceptions=True)
        await clock.sleep(chance.choice((0.0, 0.0, 0.002, 0.01, 0.03, 0.1)))

    # --- people ----------------------------------------------------------------------------------------------------------

    async def _talk(self, acts: int) -> None:
        for _ in range(acts):
            # What a client would not offer, or Discord refuses, is no act.
            with suppress(CannotInvokeError, ApiError):
                await self._act()
            await self._porter.clock.sleep(self._random.choice((0.0, 0.0, 0.01, 0.05, 0.2)))

    async def _act(self) -> None:
        chance = self._random
        act = chance.choices(
            ("say", "stop", "reset", "cancel", "wake", "remove", "edit", "delete", "thread", "press", "weather"),
            (50, 3, 2, 4, 4, 3, 4, 4, 3, 6, 10),
        )[0]
        self.outcome.counts[act] += 1
        match act:
            case "say":
                await self._say(chance.choice(self._channels))
            case "stop" | "reset":
                await self._command(act)
            case "cancel" | "wake":
                newest = self._newest("continuations")
                await self._command(f"continuations {act}", id=f"c{max(0, newest - chance.randint(-1, 2))}")
            case "remove":
                newest = self._newest("prompts")
                await self._command("queue remove", id=f"p{max(0, newest - chance.randint(-1, 3))}")
            case "edit" | "delete":
                await self._take_back(act)
            case "thread":
                await self._open_thread()
            case "press":
                await self._press()
            case _:
                await self._weather.change()

    def _newest(self, table: Literal["continuations", "prompts"]) -> int:
        return max((row.id for row in getattr(self._porter.recorder.rows, table)), default=0)

    async def _say(self, channel: Channel) -> None:
        self._number += 1
        word = f"m{self._number}x"
        text = self._words(word)
        if channel.id in self._mention or channel.thread is not None:
            text = f"<@{self._porter.discord.people.bot.id}> {text}"
        await self._tell(channel, self._random.choice((self._porter.alice, self._porter.bob, self._porter.ada)), word, text)

    async def _tell(self, channel: Channel, by: Member, word: str, text: str) -> Message:
        message = await self._porter.discord.people.say(channel, by, text)
        self._told[message.id] = Told(message.id, channel.id, [word])
        self._said.append(message)
        return message

    def _words(self, word: str) -> str:
        chance = self._random
        shapes = {
            f"say {word}": 8,
            f"say working on it\ntool Bash 0.1\nsay {word}": 4,
            f"wait 1s say w{word}\nsay {word}": 5,
            f"wait {chance.randint(1, 4)}s say w{word}\nsay {word}": 4,
            f"send s{word}\nsay {word}": 3,
            f"sleep 0.5\nsay {word}": 4,
            f"send s{word}\ntool Bash 0.5\nwait 1s say w{word}\ntool Bash 0.5\nsay {word}": 4,
            f"shell sleep 0.05\nsay {word}": 3,
            "say " + f"{word} {'long words ' * 260}"[:1_800]: 2,
            f"wait 1s first\ncancel_wait\nsay {word}": 1,
            f"say {word}\nfail api": 1,
            f"skip not for me\nsay {word}": 1,
            f"say {word}\ndie": 1,
        }
        return chance.choices(list(shapes), list(shapes.values()))[0]

    async def _command(self, path: str, **options: str) -> None:
        channel = self._random.choice(self._channels)
        by = self._random.choice((self._porter.ada, self._porter.ada, self._porter.alice, self._porter.stranger))
        await self._porter.discord.people.slash(channel, by, path, options)
        for told in self._told.values():
            told.commanded = told.commanded or path == "queue remove" or told.channel_id == channel.id

    async def _take_back(self, act: str) -> None:
        if not self._said:
            return
        message = self._random.choice(self._said[-4:])
        told = self._told[message.id]
        if act == "delete":
            told.commanded = True
            await self._porter.discord.people.delete(message)
        else:
            await self._edit(message)

    async def _edit(self, message: Message) -> None:
        self._number += 1
        word = f"m{self._number}x"
        prefix = message.content.partition(" ")[0] + " " if message.content.startswith("<@") else ""
        await self._porter.discord.people.edit(message, f"{prefix}say {word}")
        self._told[message.id].words.append(word)

    async def _open_thread(self) -> None:
        parent = self._random.choice([one for one in self._channels if one.thread is None])
        on = self._random.choice([one for one in self._said if one.channel is parent] or [None])
        thread = await self._porter.discord.people.create_thread(parent, self._porter.alice, f"thread {self._number}", on=on)
        self._channels.append(thread)
        await self._say(thread)

    async def _press(self) -> None:
        """Any button of any notice that is still there; twice."""
        shown = [
            (message, button["custom_id"])
            for channel in self._channels
            for message in self._porter.discord.people.messages(channel)
            for row in message.components
            for button in row.get("components", ())
        ]
        if not shown:
            return
        message, custom_id = self._random.choice(shown)
        by = self._random.choice((self._porter.alice, self._porter.ada, self._porter.stranger))
        for _ in range(2):
            await self._porter.discord.people.click(message, by, custom_id)

    # --- the end of the story --------------------------------------------------------------------------------------------

    async def _calm(self) -> None:
        porter, outcome = self._porter, self.outcome
        self._weather.clear()
        # A crash that was ordered and has not come by now is called off.
        await porter.kill()
        await porter.start()
        try:
            await porter.recorder.until(lambda: True if quiet(porter.recorder.rows) else None, "everything is at rest", _CALM_S)
            outcome.broken += await self._leaks()
        except Exception as error:  # noqa: BLE001 - told in the account, with the rest of it
            outcome.broken.append(f"P8: it does not come to rest: {error!r}")
        code = await porter.stop()
        if code != 0:
            outcome.broken.append(f"P8: the last stop ended with {code}")
        outcome.broken += self._checked()
        # This very process names the folder on its command line, if it is to be kept.
        ours = {str(os.getpid()), str(os.getppid())}
        outcome.broken += [f"P12: left behind: {one}" for one in porter.left() if one.partition(" ")[0] not in ours]
        outcome.broken += [f"P12: {one}" for one in leftovers.sockets((), porter.folder)]
        stats = porter.discord.stats()
        outcome.broken += [f"P12: {stats[name]} {name}" for name in ("gateway_connections", "requests_in_flight") if stats[name]]
        rows = porter.rows
        outcome.counts.update(f"run {run.state}" for run in rows.runs)
        outcome.counts.update(f"prompt {prompt.state}" for prompt in rows.prompts)
        outcome.counts.update(f"wait {wait.state}" for wait in rows.continuations)
        outcome.counts.update(f"part {part.state}" for part in rows.parts)
        outcome.log = porter.output
        (porter.folder / "discord.jsonl").write_text(porter.discord.log.to_json_lines())

    async def _leaks(self) -> list[str]:
        """Work leaves no descriptor and no process behind in a process that goes on."""
        porter = self._porter
        # The first of them fill the pools: of connections, and of warm agents.
        few = min(6, self.outcome.kills)
        await self._ask_calmly(range(few))
        before = descriptors(porter.process.pid)
        await self._ask_calmly(range(few, 2 * few))
        after = descriptors(porter.process.pid)
        grown = [f"P12: {after} file descriptors are open, {before} were {few} messages before"] if after > before + _FD_SLACK else []
        return grown + [f"P6: calm{n}y was said {times} times" for n in range(2 * few) if (times := porter.said(f"calm{n}y")) != 1]

    async def _ask_calmly(self, numbers: Iterable[int]) -> None:
        """One question after the other, each answered before the next."""
        porter = self._porter
        for n in numbers:
            await porter.say(f"say calm{n}y\nshell true")
            asked = f"calm{n}y"
            await porter.recorder.until(partial(self._answered, asked), f"an answer to {asked}", _CALM_S)

    def _answered(self, word: str) -> bool:
        return self._porter.said(word) > 0 and quiet(self._porter.recorder.rows)

    def _checked(self) -> list[str]:
        porter = self._porter
        members = {porter.alice.id, porter.bob.id, porter.ada.id}
        ours = {channel.id for channel in self._channels}
        deleted = {record.message_id for record in porter.discord.log.of("message.delete")}

        def heard(record: Record) -> bool:
            return record.channel_id in ours and record.author_id in members and record.message_id not in deleted

        history = replace(porter.history(), heard=heard)
        # Courtesies (no promise is about them) have no nonce of ours.
        nonces = {part.nonce for part in history.rows.parts}
        known = [one for one in history.discord if not (one.kind == "message.create" and one.bot and aside(one, nonces))]
        history = replace(history, discord=known)
        return violations(history) + unaccounted(history, self._told.values())


async def storm(folder: Path, *, kills: int, seed: int, agent: Agent = "scripted", postgres: str | None = None) -> Outcome:
    """Play one; `postgres` is the URL of an empty database."""
    before = descriptors(os.getpid())
    (folder / "annex").mkdir()
    async with Porter(folder, agent=agent, config=extra_config(), postgres=postgres) as porter:
        outcome = await Storm(porter, seed, agent).run(kills)
    after = descriptors(os.getpid())
    if after > before + _FD_SLACK:
        outcome.broken.append(f"P12: {after - before} descriptors of the stage are still open")
    return outcome


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit code: 0 if every promise was kept."""
    parser = argparse.ArgumentParser(prog="python -m tests.crash.storm", description=__doc__)
    parser.add_argument("--kills", type=int, default=30)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--agent", choices=("scripted", "real"), default="scripted")
    parser.add_argument("--keep", type=Path, help="work in this folder, and leave it there")
    chosen = parser.parse_args(arguments)
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(50))
    with tempfile.TemporaryDirectory(prefix="np-storm-") as temporary:
        folder = chosen.keep or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        outcome = asyncio.run(storm(folder, kills=chosen.kills, seed=chosen.seed, agent=chosen.agent))
    print(f"{outcome.kills} kills, seed {chosen.seed}: " + ", ".join(f"{k} {n}" for k, n in sorted(outcome.counts.items())))  # noqa: T201
    for sentence in outcome.broken:
        print(f"  {sentence}")  # noqa: T201 - a command
    if outcome.broken and not chosen.keep:
        print(outcome.log[-8_000:])  # noqa: T201 - a command
    return 1 if outcome.broken else 0


if __name__ == "__main__":
    sys.exit(main())
