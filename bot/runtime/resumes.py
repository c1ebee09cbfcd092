"""What a prompt that goes on with an earlier turn is about, and how often it was gone on with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from bot.runtime.limits import AGAIN
from storage.models import PartKind, Prompt, PromptKind, Run, RunId
from storage.store import Store

#: A turn that is cut off this often after a press of Resume is not offered again: it may be what it does that ends it.
MOST_RESUMES: Final = 3


#: So many turns are told to a session that begins afresh.
_TURNS_TOLD: Final = 10
_WORDS: Final = frozenset({PartKind.ANSWER, PartKind.SENT})


@dataclass(frozen=True, slots=True)
class Chain:
    """The turns that led to some prompts."""

    #: How many of them somebody resumed.
    resumes: int
    #: What the first of them was asked.
    original: tuple[Prompt, ...]

    @property
    def resumable(self) -> bool:
        """Whether people may resume it once more."""
        return self.resumes < MOST_RESUMES


async def chain_of(store: Store, prompts: Sequence[Prompt]) -> Chain:
    """Follow the prompts that go on with an earlier turn to the first request. Raises StorageError."""
    resumes, about = 0, tuple(prompts)
    while (before := _goes_on_with(about)) is not None:
        # Of an earlier run each time, so this ends.
        run_id, by_a_person = before
        resumes += by_a_person
        about = await store.prompts.of_run(run_id)
    return Chain(resumes, about)


async def said_before(store: Store, run: Run) -> tuple[tuple[str, str], ...]:
    """Who said what in the turns before `run`, oldest first: people's messages, and the agent's words that were not kept private."""
    said: list[tuple[str, str]] = []
    for earlier in reversed(await store.runs.recent(run.conversation_id, _TURNS_TOLD)):
        if earlier.id >= run.id:
            continue
        said += [(p.author_name, p.text) for p in await store.prompts.of_run(earlier.id) if p.kind is PromptKind.USER]
        said += [("you", part.text) for part in await store.outbox.of_run(earlier.id) if part.kind in _WORDS]
    return tuple(said)


def _goes_on_with(prompts: Sequence[Prompt]) -> tuple[RunId, bool] | None:
    """`resume:<run>` or `again:<n>:<run>`; whether it was a person's press."""
    for prompt in prompts:
        kind, _, number = prompt.source_key.partition(":")
        if kind in {"resume", AGAIN} and (number := number.rpartition(":")[2]).isdigit():
            return RunId(int(number)), kind == "resume"
    return None
