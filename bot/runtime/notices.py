"""Nightporter's own words to people: one plain sentence each, and the buttons below them as JSON.

The buttons' custom ids are read by the gateway, also after a restart; `Part.components` holds them.
"""

from __future__ import annotations

import base64
import json
import secrets
from collections.abc import Iterable
from dataclasses import replace

from bot.agents.base import ErrorKind
from storage.events import NewPart
from storage.models import Continuation, ConversationId, PartKind, Run, RunId

#: Discord takes at most this many code points in a message (developer docs, Create Message).
LONGEST_MESSAGE = 2_000
#: Discord's small text (developer docs, markdown: subtext).
SMALL = "-# "


def new_nonce() -> str:
    """A fresh nonce: 80 random bits in 16 characters; Discord takes at most 25 (developer docs, Create Message)."""
    return base64.b32encode(secrets.token_bytes(10)).decode().lower()


def words(kind: PartKind, texts: Iterable[str], *, reply_to_id: int | None = None) -> tuple[NewPart, ...]:
    """Texts as parts in order; only the first one replies to a message."""
    return tuple(NewPart(kind, text, new_nonce(), reply_to_id if index == 0 else None) for index, text in enumerate(texts))


def notice(text: str, *buttons: dict[str, str]) -> NewPart:
    """One notice, with buttons below it; a text that is too long for Discord, such as an error's, is cut."""
    text = text if len(text) <= LONGEST_MESSAGE else f"{text[: LONGEST_MESSAGE - 1]}…"
    return NewPart(PartKind.NOTICE, text, new_nonce(), components=json.dumps(buttons) if buttons else None)


# --- buttons ---------------------------------------------------------------------------------------------------------


def _button(label: str, style: str, custom_id: str) -> dict[str, str]:
    return {"label": label, "style": style, "custom_id": custom_id}


#: Instead of the button.
_TOO_OFTEN = "It was cut off each time it was resumed, so it is not offered again; tell the agent what to do differently."


def _resume(run_id: RunId) -> dict[str, str]:
    return _button("Resume", "primary", f"np:resume:{run_id}")


# --- about a turn ----------------------------------------------------------------------------------------------------


def interrupted(run_id: RunId, why: str, *, resumable: bool) -> NewPart:
    """A turn was cut off: people choose, unless it was resumed too often."""
    if not resumable:
        return notice(f"The agent's turn was interrupted: {why}. {_TOO_OFTEN}")
    discard = _button("Discard", "secondary", f"np:discard:{run_id}")
    return notice(f"The agent's turn was interrupted: {why}. Resume it, or leave it as it is?", _resume(run_id), discard)


_AFRESH = "Start fresh goes on in a new session that is told what was said last; `/reset` begins an empty one."

#: One sentence for each kind of failure, and whether resuming in the same session makes sense.
_FAILURES: dict[ErrorKind, tuple[str, bool]] = {
    ErrorKind.AUTH: ("The agent's login was rejected; somebody who runs Nightporter has to renew it.", True),
    ErrorKind.RATE_LIMIT: ("The model's service limits our rate at the moment.", True),
    ErrorKind.OVERLOADED: ("The model's service is overloaded at the moment.", True),
    ErrorKind.API: ("The model's service had an error.", True),
    ErrorKind.NETWORK: ("The model's service could not be reached.", True),
    ErrorKind.BAD_REQUEST: ("The agent's session is not accepted any more by the model's service.", False),
    ErrorKind.PROMPT_TOO_LONG: ("The conversation has grown too long for the model.", False),
    ErrorKind.SESSION_LOST: ("The agent no longer knows this session; resuming begins a new one.", True),
    ErrorKind.PROCESS: ("The agent's process ended in the middle of its turn.", True),
    ErrorKind.TIMEOUT: ("The agent was silent for too long and was stopped.", True),
    ErrorKind.DISK: ("The agent could not write to its disk.", True),
    ErrorKind.UNKNOWN: ("The agent's turn failed for an unknown reason.", True),
}


def failed(run_id: RunId, kind: ErrorKind, *, resumable: bool) -> NewPart:
    """A turn ended with an error; `resumable`: it was not resumed too often."""
    sentence, sensible = _FAILURES[kind]
    if not resumable:
        return notice(f"{sentence} {_TOO_OFTEN}")
    if sensible:
        return notice(sentence, _resume(run_id))
    return notice(f"{sentence} {_AFRESH}", _button("Start fresh", "primary", f"np:fresh:{run_id}"))


def limit(run: Run, resets_at_ms: int | None, until_ms: int, *, goes_on: bool) -> NewPart:
    """The account's usage limit ended a turn; nothing begins before `until_ms`."""
    ends = "" if resets_at_ms is None else f"; it ends {_moment(resets_at_ms)}"
    if goes_on:
        itself = "The agent goes on by itself then" if ends else f"It is not known until when; the agent tries again {_moment(until_ms)}"
        then = f"{itself}, and what you write waits until then."
    else:
        then = f"The agent has tried several times; nothing begins before {_moment(until_ms)}, and this turn only goes on if you resume it."
    try_now = _button("Try now", "secondary", f"np:try-now:{run.conversation_id}")
    return notice(f"The agent's usage limit is reached{ends}. {then}", *(() if goes_on else (_resume(run.id),)), try_now)


def parked(until_ms: int) -> NewPart:
    """A message came while nothing may begin."""
    return notice(f"The agent is not available before {_moment(until_ms)}, because of its usage limit; your message waits until then.")


def refused() -> NewPart:
    """The model declined."""
    return notice("The model declined to answer this.")


def crashed(run_id: RunId) -> NewPart:
    """A fault of Nightporter itself ended a turn."""
    return notice("Nightporter made a mistake and had to end the agent's turn; the reason is in its log.", _resume(run_id))


def no_answer(next_up: str) -> NewPart:
    """A turn ended well and said nothing."""
    return notice(f"{SMALL}The agent ended its turn without an answer · {next_up}")


def small(text: str) -> NewPart:
    """Small text alone: a footer where there is no message to put it under."""
    return notice(f"{SMALL}{text}")


def _moment(when_ms: int) -> str:
    """In the reader's own time zone: Discord draws it (developer docs, Message Formatting: Timestamps)."""
    return f"<t:{when_ms // 1_000}:f> (<t:{when_ms // 1_000}:R>)"


def not_started(why: str) -> NewPart:
    """A run failed before the agent was called."""
    return notice(f"The agent could not be started: {why.rstrip('.')}. The message was not handed to it; write again once that is mended.")


def stuck(run_id: RunId, why: str) -> NewPart:
    """A run of an earlier process can be neither proven dead nor settled."""
    return notice(
        f"An earlier turn of the agent cannot be ended: {why.rstrip('.')}. Nothing runs here until that is mended, "
        "or an admin who is sure that nothing of it runs any more gives it up.",
        _button("Give it up", "danger", f"np:give-up:{run_id}"),
    )


def session_replaced() -> NewPart:
    """The agent no longer knew the session, and a new one began."""
    return notice("The agent no longer knows the earlier conversation, so it begins a new one here.")


# --- about what waits ------------------------------------------------------------------------------------------------


def keep_going(conversation_id: ConversationId, runs: int) -> NewPart:
    """The unattended bound holds wakes and events."""
    button = _button("Continue", "primary", f"np:continue:{conversation_id}")
    # Many turns, or few over a long time.
    long = f"for {runs} turns" if runs > 1 else "for a long time"
    return notice(f"Nobody has spoken to the agent {long}; it waits until somebody does.", button)


def wait_refused(run_id: RunId, reason: str) -> NewPart:
    """The unattended bound was met by a wait, so nothing will wake the agent."""
    button = _button("Continue", "primary", f"np:resume:{run_id}")
    return notice(f"The agent wanted to wake itself again, but it has worked for long without anybody speaking to it ({reason}).", button)


def wake_expired(continuation: Continuation) -> NewPart:
    """A wake's time passed while nothing could wake the agent."""
    due = continuation.due_at_ms // 1_000
    return notice(f"A wake of the agent was due <t:{due}:f> and came too late to be useful; it was dropped ({continuation.reason}).")


def offered(conversation_id: ConversationId, count: int) -> NewPart:
    """Messages that came while Nightporter was away for long."""
    what = "1 message came" if count == 1 else f"{count} messages came"
    run = _button("Run", "primary", f"np:offer-run:{conversation_id}")
    discard = _button("Discard", "secondary", f"np:offer-discard:{conversation_id}")
    return notice(f"{what} while Nightporter was away for long. Should the agent still take it up?", run, discard)


def queue_full(message_id: int) -> NewPart:
    """One message too many."""
    words = (
        "Too many messages wait for the agent here, so this one is not taken, nor are others before there is room. "
        "`/queue list` shows what waits. Send it again later."
    )
    return replace(notice(words), reply_to_id=message_id)


def too_late(when_ms: int) -> NewPart:
    """The agent's words could not be posted for so long that they were not posted any more."""
    return notice(f"{SMALL}Words of the agent from <t:{when_ms // 1_000}:t> could not be posted in time and were kept back.")


# --- the footer ------------------------------------------------------------------------------------------------------


def next_up(continuation: Continuation | None) -> str:
    """What happens next, for the footer: "wakes 14:32 (in 20m)" in the reader's own time zone, or "nothing scheduled"."""
    if continuation is None:
        return "nothing scheduled"
    due = continuation.due_at_ms // 1_000
    return f"wakes <t:{due}:t> (<t:{due}:R>)"


def with_footer(texts: list[str], footer: str) -> list[str]:
    """The texts with the footer as small text below the last one, or as one more where it has no room."""
    small = f"{SMALL}{footer}"
    if texts and len(texts[-1]) + 1 + len(small) <= LONGEST_MESSAGE:
        return [*texts[:-1], f"{texts[-1]}\n{small}"]
    return [*texts, small]
