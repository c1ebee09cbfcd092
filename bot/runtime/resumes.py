"""What a prompt that goes on with an earlier turn is about, and how often it was gone on with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from bot.runtime.limits import AGAIN
from storage.models import Prompt, RunId
from storage.store import Store

#: A turn that is cut off this often after a press of Resume is not offered again: it may be what it does that ends it.
MOST_RESUMES: Final = 3


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


def _goes_on_with(prompts: Sequence[Prompt]) -> tuple[RunId, bool] | None:
    """`resume:<run>` or `again:<n>:<run>`; whether it was a person's press."""
    for prompt in prompts:
        kind, _, number = prompt.source_key.partition(":")
        if kind in {"resume", AGAIN} and (number := number.rpartition(":")[2]).isdigit():
            return RunId(int(number)), kind == "resume"
    return None
