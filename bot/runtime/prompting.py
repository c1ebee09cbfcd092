"""Writes the prompt: receipts and news first, then the messages with their authors, or why the agent is woken. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bot.durations import format_duration
from bot.runtime.ports import Reply
from bot.runtime.waits import clock_time, moment
from storage.models import Continuation, Prompt, PromptKind
from storage.states import ContinuationState

#: How much of a message that is replied to is repeated.
_REPLY_CHARACTERS = 300
#: How much of each thing that was said is repeated to a session that begins afresh.
_SAID_CHARACTERS = 600
#: How much of the original request a resume in a new session repeats.
_ORIGINAL_CHARACTERS = 8_000


@dataclass(frozen=True, slots=True)
class Woken:
    """What a wake prompt tells."""

    continuation: Continuation
    #: Messages of people in the conversation since it was asked for.
    messages_since: int


@dataclass(frozen=True, slots=True)
class Briefing:
    """Everything that a prompt is made of."""

    now_ms: int
    #: Lines of `receipts`, oldest first.
    receipts: tuple[str, ...]
    #: Continuations whose end the agent does not know.
    ended: tuple[Continuation, ...]
    #: The one that is armed, if any.
    pending: Continuation | None
    prompts: tuple[Prompt, ...]
    woken: Woken | None = None
    #: For a resume in a session that does not know what it is about: the request that was cut off.
    original: tuple[Prompt, ...] = ()


def write(briefing: Briefing) -> str:
    """The text that is handed to the agent."""
    head = [*briefing.receipts, *(ended_line(c) for c in briefing.ended)]
    if briefing.pending is not None:
        head.append(pending_line(briefing.pending, briefing.now_ms))
    body = wake_text(briefing.woken, briefing.now_ms) if briefing.woken is not None else _messages(briefing.prompts)
    if briefing.original:
        body += "\n\nThis is a new session. The request was:\n" + _messages(briefing.original)[:_ORIGINAL_CHARACTERS]
    return "\n".join(head) + "\n\n" + body if head else body


def ended_line(continuation: Continuation) -> str:
    """How a wait ended without waking: it is told once."""
    word = "dropped" if continuation.state is ContinuationState.FENCED else continuation.state.value
    by = " by a person" if (continuation.ended_by or "").startswith("user:") else ""
    why = f" ({continuation.ended_why})" if continuation.ended_why else ""
    return f"[{word}] c{continuation.id}{by}{why}: it will not wake you; its reason was «{continuation.reason}»"


def pending_line(continuation: Continuation, now_ms: int) -> str:
    """The armed wait that this turn may keep, replace or cancel."""
    due, left_ms = moment(continuation.due_at_ms, now_ms), continuation.due_at_ms - now_ms
    when = f"in {format_duration(left_ms)}" if left_ms > 0 else "about to wake you"
    keep = "it stays unless you call wait or cancel_wait"
    return f"[pending] c{continuation.id} wakes at {due} ({when}), reason «{continuation.reason}»; {keep}"


def wake_text(woken: Woken, now_ms: int) -> str:
    """When and why it was asked, how late it is, and what came since."""
    c = woken.continuation
    late_ms = now_ms - c.due_at_ms
    late = f"{format_duration(late_ms)} late" if late_ms >= 1_000 else "on time"  # noqa: PLR2004 - a second is the promised bound
    since = "1 message has" if woken.messages_since == 1 else f"{woken.messages_since or 'no'} messages have"
    asked, due = moment(c.asked_ms, now_ms), moment(c.due_at_ms, now_ms)
    head = f"[wake] c{c.id}, asked for at {asked} and due at {due}, wakes you now at {clock_time(now_ms)} ({late}); {since} come since."
    return f"{head}\nYour reason: {c.reason}"


def resume_text(author_name: str, why: str | None, before: int) -> str:
    """What a press of Resume asks of the agent, after it was resumed `before` times already."""
    cut = f" ({why.rstrip('.')})" if why else ""
    again = (
        f" It was resumed {'once' if before == 1 else f'{before} times'} before and cut off each time: do it in another way."
        if before
        else ""
    )
    return (
        f"[resume] {_name(author_name)} asks you to go on: your earlier turn was cut off{cut}.{again} "
        "Look first at what is done already, then finish it without doing anything twice."
    )


def fresh_text(author_name: str, why: str | None, said: Sequence[tuple[str, str]]) -> str:
    """What a press of Start fresh asks of the agent; `said`: who spoke and what, oldest first."""
    cut = f" ({why.rstrip('.')})" if why else ""
    lines = [f"{_name(who)}: {_cut(' '.join(text.split()), _SAID_CHARACTERS)}" for who, text in said]
    summary = ["What was said before in this conversation, cut short, oldest first:", *lines] if lines else []
    head = f"[resume] {_name(author_name)} asks you to go on in a new session, because the earlier one is no use any more{cut}."
    return "\n".join([head, "Look first at what is done already, then finish it without doing anything twice.", *summary])


def again_text() -> str:
    """What lets a session go on after the account's usage limit."""
    return (
        "[resume] Your earlier turn was cut off by the account's usage limit, which should be over now. "
        "Look first at what is done already, then finish it without doing anything twice."
    )


def go_on_text(author_name: str) -> str:
    """What a press of Continue asks of an agent that was refused a wait."""
    return f"[continue] {_name(author_name)} lets you go on: look at what you wanted to wait for; `wait` is taken again."


def message_text(text: str, reply_to: Reply | None) -> str:
    """A message as it is stored, with the beginning of what it replies to."""
    if reply_to is None:
        return text
    quoted = _cut(" ".join(reply_to.text.split()), _REPLY_CHARACTERS)
    return f"[in reply to {_name(reply_to.author_name)}: «{quoted}»]\n{text}"


def edited_text(stored: str, text: str) -> str:
    """The new words of an edited message, below what it replies to if that was stored."""
    head, closed, _ = stored.partition("»]\n")
    return f"{head}{closed}{text}" if closed and head.startswith("[in reply to ") else text


def _cut(text: str, characters: int) -> str:
    return text if len(text) <= characters else f"{text[:characters]}…"


def _messages(prompts: Sequence[Prompt]) -> str:
    return "\n".join(_message(prompt) for prompt in prompts)


def _message(prompt: Prompt) -> str:
    match prompt.kind:
        case PromptKind.USER:
            return f"{_name(prompt.author_name)}: {prompt.text}"
        case PromptKind.RESUME | PromptKind.WAKE | PromptKind.EVENT:
            return prompt.text


def _name(name: str) -> str:
    """A name cannot end its own mark, nor begin a line of ours."""
    plain = " ".join(name.replace(":", " ").replace("[", "(").replace("]", ")").split())
    return plain or "somebody"
