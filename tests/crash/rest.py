"""What a calm process looks like from outside: rows at rest, few descriptors, and which messages are no part of the outbox."""

from __future__ import annotations

from pathlib import Path

from bot.loopback.discord import Record
from storage.models import Snapshot
from storage.states import ACTIVE_RUN, LIVE_CONTINUATION, OPEN_PART, PromptState


def aside(record: Record, nonces: set[str]) -> bool:
    """A line that the bot said without the outbox. discord.py gives its own nonce, a number, to none of them."""
    return record.nonce not in nonces and record.interaction_id is None and (record.nonce is None or record.nonce.isdigit())


def quiet(rows: Snapshot) -> bool:
    return not (
        any(run.state in ACTIVE_RUN for run in rows.runs)
        or any(prompt.state in {PromptState.WAITING, PromptState.TAKEN} for prompt in rows.prompts)
        or any(part.state in OPEN_PART for part in rows.parts)
        or any(wait.state in LIVE_CONTINUATION for wait in rows.continuations)
    )


def descriptors(pid: int) -> int:
    return sum(1 for _ in Path(f"/proc/{pid}/fd").iterdir())
