"""What people, networks, disks and clocks do in one story: drawn from the seed before it begins."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from bot.runtime.ports import Person
from storage.events import Refusal
from tests.simulation.discord import STORM, Said, Weather
from tests.simulation.scripts import script, token

if TYPE_CHECKING:
    from tests.simulation.life import Life
    from tests.simulation.world import Room, World

PEOPLE = (Person(1, "Ada", admin=True), Person(7, "Ann", admin=False), Person(8, "Bob", admin=False))

#: Scenes and their weights.
SCENES = {
    "words": 40,
    "burst": 12,
    "piece": 2,
    "edit": 5,
    "delete": 4,
    "stop": 5,
    "reset": 2,
    "cancel": 3,
    "wake_now": 4,
    "remove": 3,
    "press": 10,
    "attend": 2,
    "gateway": 8,
    "storm": 4,
    "database": 5,
    "kill_agent": 4,
    "forget_session": 3,
    "crash": 9,
    "terminate": 4,
    "jump": 3,
    "hour": 3,
}


#: Stories about one thing, in which faults of one kind come thick enough to meet each other.
_THEMES: tuple[Mapping[str, int], ...] = (
    {"words": 30, "burst": 10, "storm": 12, "crash": 10, "gateway": 8, "jump": 8, "stop": 5, "terminate": 3},
    {"words": 30, "crash": 10, "jump": 8, "wake_now": 8, "cancel": 5, "stop": 5, "reset": 3, "remove": 5, "hour": 6, "forget_session": 6},
    {"words": 15, "burst": 20, "piece": 4, "edit": 8, "delete": 8, "gateway": 15, "crash": 12, "terminate": 5, "stop": 8, "database": 6},
    {"words": 30, "database": 20, "crash": 8, "press": 10, "stop": 5, "wake_now": 5, "kill_agent": 5, "forget_session": 3},
)


def write(world: World) -> None:
    """Fill the schedule."""
    draw = world.rng("story")
    if world.scenes is SCENES and draw.random() < 0.6:
        world.scenes = draw.choice(_THEMES)
        world.discord.weather = Weather(lost=draw.choice((2, 15)), gone=draw.choice((2, 15)))
    scenes = list(world.scenes)
    if world.scenes is SCENES and draw.random() < 0.15:
        # A quiet story: no fault at all, so that what it finds is plain.
        scenes = [s for s in scenes if s not in {"storm", "database", "crash", "jump", "kill_agent", "gateway"}]
        world.discord.weather = Weather(0, 0, 0, 0, 0, 0, 0, 0)
        world.agent_moods.unavailable = world.agent_moods.dies = 0
    elif draw.random() < 0.4:
        world.database_mood.locked = draw.choice((0.0, 0.3, 2.0))
        world.database_mood.unknown = draw.choice((0.0, 0.5, 3.0))
        world.database_mood.unread = draw.choice((0.0, 0.2, 1.0))
        world.database_mood.slow_s = draw.choice((0.0, 0.02, 0.3))
    weights = [world.scenes[s] for s in scenes]
    numbers = iter(range(1, 10_000))
    at_s = 2.0
    for _ in range(world.length or draw.randint(6, 22)):
        name = draw.choices(scenes, weights)[0]
        Scene(world, random.Random(f"{world.seed}:{name}:{at_s}"), numbers).play(name, at_s)
        at_s += draw.choice((0.0, 0.3, 2.0, 2.0, 10.0, 30.0, 90.0, 200.0)) * draw.uniform(0.3, 1.7)


class Scene:
    """One thing that happens, with its own randomness."""

    def __init__(self, world: World, draw: random.Random, numbers: Iterator[int]) -> None:
        self._world = world
        self._draw = draw
        self._numbers = numbers

    def play(self, name: str, at_s: float) -> None:
        """Put it into the schedule."""
        method = getattr(self, f"_{name}")
        self._world.at(at_s, method)

    # --- people -----------------------------------------------------------------------------------------------------------

    def _room(self) -> Room:
        return self._draw.choice(self._world.rooms)

    def _say(self, room: Room, person: Person, text: str) -> Said:
        self._world.note("said", room=room.channel_id, by=person.name, text=text[:200])
        return self._world.discord.say(room.channel_id, person.name, person.id, text, addressed=self._draw.random() < 0.8)

    def _say_at(self, when_s: float, room: Room, person: Person, text: str) -> None:
        def say(_life: Life | None) -> None:
            self._say(room, person, text)

        self._world.at(when_s, say)

    def _words(self, _life: Life | None) -> None:
        self._say(self._room(), self._draw.choice(PEOPLE), script(self._draw, next(self._numbers)))

    def _burst(self, life: Life | None) -> None:
        room, world = self._room(), self._world
        for n in range(self._draw.randint(2, 5)):
            person = self._draw.choice(PEOPLE[:2])
            text = script(self._draw, next(self._numbers))
            if n == 0:
                self._say(room, person, text)
            else:
                later_s = world.true_s() + n * self._draw.choice((0.0, 0.1, 1.0))
                self._say_at(later_s, room, person, text)
        del life

    def _piece(self, _life: Life | None) -> None:
        """A long message that a client has cut in two."""
        room, person, number = self._room(), self._draw.choice(PEOPLE), next(self._numbers)
        first = f"say {token(number, 1)} " + "x" * 1_950
        self._say(room, person, first[:1_960])
        if self._draw.random() < 0.8:
            second = f"say {token(number, 2)}"
            self._say_at(self._world.true_s() + self._draw.uniform(0, 1.0), room, person, second)

    def _recent(self) -> Said | None:
        people = self._world.discord.people[-4:]
        return self._draw.choice(people) if people else None

    def _edit(self, _life: Life | None) -> None:
        said = self._recent()
        if said is not None and not said.deleted:
            number = next(self._numbers)
            self._world.note("edited", message=said.id)
            self._world.discord.edit(said, f"say edited {token(number, 1)}")

    def _delete(self, _life: Life | None) -> None:
        said = self._recent()
        if said is not None and not said.deleted:
            self._world.note("deleted", message=said.id)
            self._world.discord.delete(said)

    # --- commands and buttons ------------------------------------------------------------------------------------------------

    def _stop(self, life: Life | None, *, reset: bool = False) -> None:
        if life is not None and self._listens(life):
            room, person = self._room(), self._draw.choice(PEOPLE)
            stop_id = self._world.discord.next_id()
            self._world.note("reset" if reset else "stop", room=room.channel_id, by=person.name)
            life.spawn(life.runtime.stop_conversation(room.conversation_id, stop_id=stop_id, by=person, reset=reset))

    def _reset(self, life: Life | None) -> None:
        self._stop(life, reset=True)

    def _listens(self, life: Life) -> bool:
        return life.wire.ready

    def _continuation(self, life: Life) -> int | None:
        found = life.look("SELECT group_concat(id) FROM continuations WHERE state NOT IN ('dispatched', 'dropped')")
        return int(self._draw.choice(found.split(","))) if found else None

    def _cancel(self, life: Life | None) -> None:
        if life is not None and (number := self._continuation(life)) is not None:
            self._world.note("cancel", continuation=number)
            life.spawn(life.runtime.cancel(number, self._draw.choice(PEOPLE)))  # type: ignore[arg-type]

    def _wake_now(self, life: Life | None) -> None:
        if life is not None and (number := self._continuation(life)) is not None:
            self._world.note("wake now", continuation=number)
            life.spawn(life.runtime.wake_now(number, self._draw.choice(PEOPLE)))  # type: ignore[arg-type]

    def _remove(self, life: Life | None) -> None:
        if life is not None:
            found = life.look("SELECT group_concat(id) FROM (SELECT id FROM prompts ORDER BY id DESC LIMIT 3)")
            if found:
                number = int(self._draw.choice(found.split(",")))
                self._world.note("remove", prompt=number)
                life.spawn(life.runtime.remove_prompt(number, self._draw.choice(PEOPLE)))  # type: ignore[arg-type]

    def _press(self, life: Life | None) -> None:
        """A button below some notice; impatient people press twice."""
        buttons = _buttons(self._world)
        if life is not None and self._listens(life) and buttons:
            custom_id = self._draw.choice(buttons[-4:])
            for _ in range(self._draw.choice((1, 1, 2))):
                press(self._world, life, custom_id, self._draw.choice(PEOPLE))

    def _attend(self, life: Life | None) -> None:
        if life is not None:
            life.spawn(life.runtime.attend(self._room().conversation_id, PEOPLE[0]))

    # --- the rest of the world -------------------------------------------------------------------------------------------------

    def _gateway(self, life: Life | None) -> None:
        if life is None or not life.wire.ready:
            return
        away_s = self._draw.choice((0.5, 5.0, 40.0, 200.0, 900.0))
        life.gateway.lose()
        back = self._draw.choice(("resume", "connect"))
        self._world.note("gateway lost", seconds=away_s, back=back)

        def return_(now: Life | None) -> None:
            if now is life and self._world.faulty:
                self._world.note("gateway back", how=back)
                life.gateway.resume() if back == "resume" else life.gateway.connect()

        self._world.at(self._world.true_s() + away_s, return_)

    def _storm(self, _life: Life | None) -> None:
        world, before = self._world, self._world.discord.weather
        world.note("storm")
        world.discord.weather = STORM

        def over(_life: Life | None) -> None:
            world.discord.weather = before if world.faulty else world.discord.weather

        world.at(world.true_s() + self._draw.choice((10.0, 60.0, 300.0)), over)

    def _database(self, _life: Life | None) -> None:
        """The database is nearly unusable for a while."""
        world, mood = self._world, self._world.database_mood
        before = (mood.locked, mood.unknown, mood.unread)
        world.note("database")
        mood.locked, mood.unknown, mood.unread = self._draw.choice(
            ((90.0, 0.0, 0.0), (20.0, 20.0, 10.0), (0.0, 50.0, 0.0), (0.0, 0.0, 60.0))
        )

        def over(_life: Life | None) -> None:
            mood.locked, mood.unknown, mood.unread = before

        world.at(world.true_s() + self._draw.choice((1.0, 10.0, 60.0)), over)

    def _kill_agent(self, life: Life | None) -> None:
        if life is not None:
            self._world.note("agent killed")
            life.agents.kill_one()

    def _forget_session(self, _life: Life | None) -> None:
        """The agent no longer knows its sessions."""
        files = sorted((self._world.folder / "scripted").glob("*.jsonl"))
        if files:
            self._world.note("session forgotten")
            self._draw.choice(files).unlink()

    def _crash(self, life: Life | None) -> None:
        if life is None:
            return
        if self._draw.random() < 0.6 or self._world.crash_points:
            life.faults.crash_in = self._draw.choice((1, 2, 3, 5, 8, 13, 21, 34))
        else:
            life.loop.crash_at = life.loop.steps + self._draw.randint(0, 600)

    def _terminate(self, life: Life | None) -> None:
        if life is not None:
            life.terminate()

    def _jump(self, _life: Life | None) -> None:
        """The wall clock is moved by hand, or by a time server."""
        minutes = self._draw.choice((-180, -30, -1, -0.1, 0.1, 1, 30, 180))
        self._world.note("jump", minutes=minutes)
        self._world.jumps_s.append(self._world.true_s())
        self._world.went_back = self._world.went_back or minutes < 0
        self._world.offset_ms += round(minutes * 60_000)

    def _hour(self, _life: Life | None) -> None:
        """Nothing happens for long: later scenes come later."""
        self._world.postpone(self._draw.choice((600.0, 3_600.0, 5_400.0)))


# --- buttons ---------------------------------------------------------------------------------------------------------------


def _buttons(world: World) -> list[str]:
    found: list[str] = []
    for message in world.discord.bot:
        if message.part.components:
            found += [button["custom_id"] for button in json.loads(message.part.components)]
    return found


def press(world: World, life: Life, custom_id: str, by: Person) -> None:
    """What the gateway does with a press."""
    _, verb, number = custom_id.split(":")
    world.note("press", button=custom_id, by=by.name)
    runtime, subject = life.runtime, int(number)
    match verb:
        case "resume":
            life.spawn(runtime.resume(subject, by))  # type: ignore[arg-type]
        case "continue":
            life.spawn(runtime.attend(subject, by))  # type: ignore[arg-type]
        case "offer-run" | "offer-discard":
            life.spawn(runtime.choose(subject, verb == "offer-run", by))  # type: ignore[arg-type]
        case _:
            pass


def answer_questions(world: World, life: Life) -> None:
    """At the end: what was offered is run, and what is held may go on."""

    async def answer() -> None:
        for room in world.rooms:
            if await life.store.prompts.offered(room.conversation_id):
                await life.runtime.choose(room.conversation_id, run=True, by=PEOPLE[0])
            status = await life.runtime.status(room.conversation_id)
            if status.unattended.met and status.waiting:
                outcome = await life.runtime.attend(room.conversation_id, PEOPLE[0])
                if isinstance(outcome, Refusal):
                    world.broken(f"Continue was refused: {outcome}")

    life.spawn(answer())


__all__ = ["PEOPLE", "SCENES", "Scene", "answer_questions", "press", "write"]
