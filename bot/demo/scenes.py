"""What is said in the demo, and what the model makes of it: natural sentences, each with the script that answers it."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from bot.clock import Clock
from bot.loopback.model import Brain, ModelRequest, script_brain
from bot.loopback.model.log import blocks_of
from bot.loopback.model.replies import Answer


@dataclass(frozen=True, slots=True)
class Scene:
    """A sentence and the model's behaviour when the prompt contains it, in the language of `bot.agents.script`."""

    #: What the person writes, or for a wake the reason that the agent gave.
    cue: str
    script: tuple[str, ...]
    #: The story lets the model go on (`DemoBrain.release`) only when it wants to: after this many messages of the turn.
    hold_after: int | None = None

    @property
    def answer(self) -> str:
        """The words that reach the channel at the end of the turn; empty if there are none."""
        said = [line.removeprefix("say ") for line in self.script if line.startswith("say ")]
        return said[-1] if said else ""

    @property
    def reason(self) -> str:
        """Why it waits, if it does."""
        waits = [line.split(" ", 2)[2] for line in self.script if line.startswith("wait ")]
        return waits[-1] if waits else ""


# --- step 1 to 3 -----------------------------------------------------------------------------------------------------
ASK_CI = Scene(
    "CI for the login fix is still running. Please tell us when it is green.",
    (
        "say Let me see which commit that is.",
        "shell git log --oneline -1",
        "wait 4s look at CI of the login fix again",
        "say CI has just begun. I look again in a moment and tell you.",
    ),
)
WAKE_CI = Scene(ASK_CI.reason, ("say CI of the login fix is green, you can merge it.",))
# --- step 4 ----------------------------------------------------------------------------------------------------------
ASK_STAGING = Scene(
    "The deploy to staging takes a while. Please keep an eye on it.",
    ("wait 6s see whether staging is up", "say I keep an eye on staging."),
)
ASK_CHANGELOG = Scene(
    "Thanks, I saw staging come up myself. Is the changelog written?",
    ("say It is: the login fix is its first line.",),
)
# --- step 5 ----------------------------------------------------------------------------------------------------------
NOT_FOR_IT = Scene("bob, are you coming to lunch?", ("skip this is a question to bob",))
ASK_TESTS = Scene("Does the login fix have a test?", ("say It has: test_login_survives_a_restart.",))
# --- step 6 ----------------------------------------------------------------------------------------------------------
ASK_NIGHTLY = Scene(
    "The nightly job is nearly done. Please look at its result in a moment.",
    ("wait 3s read the result of the nightly job", "say I read its result in a moment."),
)
ASK_LONG = Scene(
    "What does the login fix change?",
    ("say It keeps the session when the server restarts.",),
    hold_after=0,
)
ASK_MEANWHILE = Scene("Which branch do we release from?", ("say From main.",))
WAKE_NIGHTLY = Scene(ASK_NIGHTLY.reason, ("say The nightly job has passed.",))
# --- step 7 ----------------------------------------------------------------------------------------------------------
ASK_PUBLISH = Scene(
    "Please publish the website and check it afterwards.",
    ("wait 1s check the published website", "say It is published."),
    hold_after=1,
)
# --- step 8 ----------------------------------------------------------------------------------------------------------
ASK_LOAD = Scene(
    "The load test runs for a while. Please tell us how it went.",
    ("wait 3s read the result of the load test", "say I read its result when it is done."),
)
ASK_WHILE_DOWN = Scene("Is anybody there?", ("say I am back.",))
WAKE_LOAD = Scene(ASK_LOAD.reason, ("say The load test has passed: 200 requests a second.",))

#: People's sentences come first: a prompt also names what is pending or was cancelled, with its reason.
SCENES = (
    ASK_CI,
    ASK_STAGING,
    ASK_CHANGELOG,
    NOT_FOR_IT,
    ASK_TESTS,
    ASK_NIGHTLY,
    ASK_LONG,
    ASK_MEANWHILE,
    ASK_PUBLISH,
    ASK_LOAD,
    ASK_WHILE_DOWN,
    WAKE_CI,
    WAKE_NIGHTLY,
    WAKE_LOAD,
)

#: For people who poke at `--serve`: "remind me in 20s to feed the cat".
_REMIND = re.compile(
    r"\b(?:remind|tell|wake|call) (?:me|us) in (?P<delay>\d+ ?[smh])\w*(?: (?:to|that|about) (?P<what>.+))?", re.IGNORECASE
)


class DemoBrain:
    """A `Brain`: turns the demo's sentences into scripts; anything else is read as a script itself (`bot.agents.script`)."""

    def __init__(self, clock: Clock) -> None:
        self._script: Brain = script_brain(clock)
        self._gates = {scene.cue: asyncio.Event() for scene in SCENES if scene.hold_after is not None}

    def release(self, scene: Scene) -> None:
        """Let the model go on where the scene holds it."""
        self._gates[scene.cue].set()

    async def __call__(self, request: ModelRequest) -> Answer:
        """Answer one request."""
        scene = scene_of(request.last_prompt)
        if scene is not None and scene.hold_after is not None and _said(request) >= scene.hold_after:
            await self._gates[scene.cue].wait()
        script = scene.script if scene is not None else _reminder(request.last_prompt)
        answer = self._script(request if script is None else _with_prompt(request, "\n".join(script)))
        return answer if isinstance(answer, Answer) else await answer


def scene_of(prompt: str) -> Scene | None:
    """The scene that a prompt belongs to."""
    return next((scene for scene in SCENES if scene.cue in prompt), None)


def _reminder(prompt: str) -> tuple[str, ...] | None:
    match = _REMIND.search(prompt)
    if match is None:
        return None
    delay = match["delay"].replace(" ", "")
    what = (match["what"] or "say so").strip().rstrip(".!")
    return (f"wait {delay} say {what}", f"say I come back in {delay}.")


def _said(request: ModelRequest) -> int:
    """How many messages the model has written in this turn."""
    at = request.last_prompt_at
    later = () if at is None else request.messages[at + 1 :]
    return sum(message.get("role") == "assistant" and bool(blocks_of(message)) for message in later)


def _with_prompt(request: ModelRequest, script: str) -> ModelRequest:
    """The same request with the last prompt's text replaced, as if the person had written the script."""
    at = request.last_prompt_at
    if at is None:
        return request
    messages: list[Mapping[str, Any]] = [*request.messages]
    # Without the texts before it: one of them could hold a statement by chance.
    messages[at] = {**messages[at], "content": [{"type": "text", "text": script}]}
    return replace(request, body={**request.body, "messages": messages})
