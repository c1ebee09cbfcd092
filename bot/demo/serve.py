"""`nightporter demo --serve`: everything stays up, with a small prompt in the terminal to be one of the people."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
import threading

from bot.demo.story import Story
from bot.demo.transcript import Transcript
from bot.errors import EXIT_OK
from bot.loopback.discord import ApiError, CannotInvokeError, Channel, Member, WaitedTooLongError

_HELP = """\
You are alice in #backend; bob is a member too, ada is an admin. What you type is said in the channel, with a mention of the bot.
  /continuations list        any slash command; options as name=value, for example /continuations cancel id=c1
  as ada                     be somebody else: alice, bob, ada
  in website                 go to the other channel: backend, website
  help, quit
The model here is a small stand-in. It understands "remind me in 20s to look at CI" and plain orders:
  say TEXT, wait DELAY REASON, cancel_wait, send TEXT, skip REASON, shell COMMAND (all in bot/agents/script.py)"""


async def serve_until_told(story: Story, transcript: Transcript) -> int:
    """Start Nightporter and serve until `quit`, the end of the input, Ctrl-C or SIGTERM."""
    await story.start_porter()
    await story.ready()
    servers = story.servers
    for name, value in (
        ("Discord REST", servers.discord.api_base),
        ("Discord gateway", servers.discord.gateway_url),
        ("bot token", servers.discord.token),
        ("model API", servers.model.url),
        ("configuration", str(servers.folder / "config.toml")),
        ("database", str(servers.database)),
        ("Nightporter's log", str(servers.folder / "nightporter.log")),
    ):
        transcript.say(f"{name:<18} {value}")
    transcript.say("")
    transcript.say(_HELP)
    transcript.say("Ctrl-C ends everything.", "bold")
    told = asyncio.Event()
    for each in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(each, told.set)
    reading = asyncio.create_task(_Terminal(story, transcript).read())
    waiting = asyncio.create_task(told.wait())
    flushing = asyncio.create_task(_flush(story, transcript))
    try:
        await asyncio.wait({reading, waiting}, return_when=asyncio.FIRST_COMPLETED)
        if reading.done() and not reading.result():
            # No terminal to read from: it is somebody's background job, until it is told to end.
            await waiting
    finally:
        for task in (reading, waiting, flushing):
            task.cancel()
        await asyncio.gather(reading, waiting, flushing, return_exceptions=True)
    return EXIT_OK


async def _flush(story: Story, transcript: Transcript) -> None:
    """Write what has come, also when nothing follows that would push it out."""
    while True:
        await story.clock.sleep(0.2)
        transcript.flush()


def _lines() -> asyncio.Queue[str | None]:
    """Lines from the terminal, then None. A thread of its own that nothing waits for: reading cannot be interrupted."""
    queue: asyncio.Queue[str | None] = asyncio.Queue()
    loop = asyncio.get_running_loop()

    def read() -> None:
        with contextlib.suppress(OSError, ValueError, RuntimeError):
            for line in sys.stdin:
                loop.call_soon_threadsafe(queue.put_nowait, line.strip())
            loop.call_soon_threadsafe(queue.put_nowait, None)

    threading.Thread(target=read, name="demo-terminal", daemon=True).start()
    return queue


class _Terminal:
    """Turns typed lines into what people do."""

    def __init__(self, story: Story, transcript: Transcript) -> None:
        self._story = story
        self._transcript = transcript
        self._who: Member = story.cast.alice
        self._where: Channel = story.cast.backend

    async def read(self) -> bool:
        """Read lines until `quit`; False if the input ends."""
        lines = _lines()
        while (line := await lines.get()) is not None:
            if line == "quit":
                return True
            try:
                await self._obey(line)
            except (ApiError, CannotInvokeError, WaitedTooLongError) as refused:
                self._transcript.say(str(refused).splitlines()[0], "red")
        return False

    async def _obey(self, line: str) -> None:
        cast = self._story.cast
        word, _, rest = line.partition(" ")
        people = {"alice": cast.alice, "bob": cast.bob, "ada": cast.ada}
        channels = {"backend": cast.backend, "website": cast.website}
        if not line:
            return
        if line == "help":
            self._transcript.say(_HELP)
        elif word == "as" and rest in people:
            self._who = people[rest]
        elif word == "in" and rest in channels:
            self._where = channels[rest]
        elif line.startswith("/"):
            words = line.split()
            options = dict(one.split("=", 1) for one in words if "=" in one)
            await self._story.command(self._where, self._who, " ".join(one for one in words if "=" not in one), **options)
        else:
            await self._story.say(self._where, self._who, line)
