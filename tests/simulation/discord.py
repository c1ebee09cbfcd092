"""Discord as it is there for everybody, whatever becomes of Nightporter: channels, messages, nonces, and a bad network."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass, field

from bot.clock import Clock
from bot.loopback.discord import EventLog, Record
from bot.loopback.discord.timing import LoopbackClock, Snowflakes
from bot.runtime.ports import OutcomeUnknown, Paused, Posted, Rejected, SendResult, Sent, Wait
from storage.models import Part
from tests.simulation.virtual import EPOCH_MS
from tests.support.fake_chat import NONCE_WINDOW_S, FakeChat, Message


class TrueClock(LoopbackClock):
    """Discord's own clock: nobody moves it."""

    def __init__(self, true_s: Callable[[], float]) -> None:
        super().__init__()
        self._true_s = true_s

    def now_ms(self) -> int:
        return EPOCH_MS + int(self._true_s() * 1_000)

    def monotonic_s(self) -> float:
        return self._true_s()


@dataclass
class Weather:
    """How likely it is that something goes wrong with one request, in percent."""

    #: It had its effect, and the response is lost.
    lost: int = 2
    #: It never arrived, and nobody says so.
    gone: int = 2
    limited: int = 3
    server_error: int = 2
    #: An answer that is no JSON, from the edge in front of Discord.
    edge: int = 1
    rejected: int = 1
    unauthorised: int = 1
    unreadable: int = 5


FINE = Weather(0, 0, 0, 0, 0, 0, 0, 0)
STORM = Weather(lost=20, gone=20, limited=10, server_error=20, edge=5, rejected=0, unauthorised=5, unreadable=30)


@dataclass
class Said:
    """A person's message as it is now."""

    id: int
    channel_id: int
    author: str
    author_id: int
    text: str
    addressed: bool
    deleted: bool = False


@dataclass
class Discord:
    """The service. Each life of Nightporter reaches it through a `Wire` of its own."""

    clock: TrueClock
    random: random.Random
    weather: Weather = field(default_factory=Weather)
    people: list[Said] = field(default_factory=list)
    bot: list[Message] = field(default_factory=list)
    #: Requests on their way: what is not done when Nightporter dies may still be done.
    flying: dict[int, Part] = field(default_factory=dict)
    #: Whether a history could ever not be read, or a message was ever refused.
    ever_unreadable: bool = False
    listeners: list[Callable[[Record], None]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.log = EventLog(self.clock)
        self._ids = Snowflakes(self.clock)
        self._requests = 0

    def next_id(self) -> int:
        return self._ids.next()

    def say(self, channel_id: int, author: str, author_id: int, text: str, *, addressed: bool) -> Said:
        said = Said(self.next_id(), channel_id, author, author_id, text, addressed)
        self.people.append(said)
        self._record("message.create", channel_id=channel_id, message_id=said.id, author_id=author_id, author=author, bot=False, text=text)
        return said

    def edit(self, said: Said, text: str) -> None:
        said.text = text
        self._record("message.edit", channel_id=said.channel_id, message_id=said.id, author_id=said.author_id, bot=False, text=text)

    def delete(self, said: Said) -> None:
        said.deleted = True
        self._record("message.delete", channel_id=said.channel_id, message_id=said.id)

    def since(self, channel_id: int, after_id: int) -> list[Said]:
        """What people wrote there, oldest first."""
        return [m for m in self.people if m.channel_id == channel_id and m.id > after_id and not m.deleted]

    def post(self, part: Part) -> Message:
        """Within the window the same nonce makes no second message."""
        now_s = self.clock.monotonic_s()
        for known in self.bot:
            if known.nonce == part.nonce and known.channel_id == part.channel_id and now_s - known.at_s < NONCE_WINDOW_S:
                self._record("message.duplicate", channel_id=part.channel_id, message_id=known.id, bot=True, nonce=part.nonce)
                return known
        made = Message(self.next_id(), part.channel_id, part.text.strip(), part.nonce, part, now_s, self.clock.now_ms())
        self.bot.append(made)
        self._record(
            "message.create",
            channel_id=part.channel_id,
            message_id=made.id,
            bot=True,
            text=made.text,
            nonce=part.nonce,
            detail={"kind": part.kind.value},
        )
        return made

    def begin(self, part: Part) -> int:
        self._requests += 1
        self.flying[self._requests] = part
        return self._requests

    def process_died(self) -> None:
        """What was on its way arrives, or not."""
        flying, self.flying = list(self.flying.values()), {}
        for part in flying:
            if self.random.random() < 0.5:
                self.post(part)

    def react(self, channel_id: int, message_id: int) -> None:
        self._record("reaction.add", channel_id=channel_id, message_id=message_id, bot=True)

    def _record(self, kind: str, **values: object) -> None:
        record = self.log.append(kind, **values)
        for listener in tuple(self.listeners):
            listener(record)

    def chance(self, percent: float) -> bool:
        return self.random.random() * 100 < percent


class Wire(FakeChat):
    """`bot.runtime.ports.Chat` of one life: the strict double, with delays and faults before and behind it."""

    def __init__(self, discord: Discord, clock: Clock) -> None:
        super().__init__(clock, ready=False)
        self._discord = discord
        #: Calls that have not come back.
        self.calls = 0

    async def send(self, part: Part, deadline_s: float) -> SendResult:
        if not self.ready:
            return Paused("not connected")
        discord = self._discord
        request = discord.begin(part)
        self.calls += 1
        try:
            fault = self._decide()
            await asyncio.sleep(min(discord.random.uniform(0.03, 0.4), deadline_s / 2))
            # Other channels post at the same time, so the fault is handed over only now.
            self.faults = [fault]
            result = await super().send(part, deadline_s)
            discord.flying.pop(request, None)
            # An answer that does not come is waited for, now and then to the very end.
            slow_s = (
                deadline_s if fault in {"lost", "gone"} and discord.chance(30) else min(discord.random.uniform(0.01, 3.0), deadline_s / 3)
            )
            await asyncio.sleep(slow_s)
            return result
        finally:
            self.calls -= 1
            discord.flying.pop(request, None)

    def _decide(self) -> SendResult | str | None:
        discord, weather = self._discord, self._discord.weather
        choices: tuple[tuple[int, Callable[[], SendResult | str]], ...] = (
            (weather.lost, lambda: "lost"),
            (weather.gone, lambda: "gone"),
            (weather.limited, lambda: Wait(round(discord.random.uniform(0.2, 8.0), 1))),
            (weather.server_error, lambda: "lost" if discord.chance(50) else OutcomeUnknown("Discord answered 502")),
            (weather.edge, lambda: Wait(30.0)),
            (weather.rejected, lambda: Rejected("missing permission")),
            (weather.unauthorised, lambda: Paused("Discord refuses the bot's token")),
        )
        drawn = discord.random.random() * 100
        for percent, fault in choices:
            if drawn < percent:
                return fault()
            drawn -= percent
        return None

    def _post(self, part: Part) -> Message:
        return self._discord.post(part)

    async def history(self, channel_id: int, after_id: int, after_ms: int = 0) -> tuple[Posted, ...] | Rejected | None:
        discord = self._discord
        await asyncio.sleep(discord.random.uniform(0.05, 1.0))
        if not self.ready or discord.chance(discord.weather.unreadable):
            discord.ever_unreadable = True
            return None
        self.messages = [m for m in discord.bot if m.channel_id == channel_id]
        return await super().history(channel_id, after_id, after_ms)

    async def seen(self, channel_id: int, message_id: int) -> None:
        await super().seen(channel_id, message_id)
        self._discord.react(channel_id, message_id)


__all__ = ["FINE", "STORM", "Discord", "Said", "Sent", "TrueClock", "Weather", "Wire"]
