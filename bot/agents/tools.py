"""The tools that the agent sees, and what it is always told: written to be read by a model, a few lines each.

Both are part of a session's snapshot: a changed text here holds for sessions that begin after it.
"""

from __future__ import annotations

from bot.agents.base import ToolSpec

WAIT = "wait"
CANCEL_WAIT = "cancel_wait"
SEND_MESSAGE = "send_message"
SKIP_REPLY = "skip_reply"

_REASON = {"type": "string", "minLength": 1}

#: In the order in which they are shown.
TOOLS: tuple[ToolSpec, ...] = (
    ToolSpec(
        WAIT,
        (
            "Ask to be woken later in this same conversation, and then end your turn. Use it whenever something outside takes time "
            "(CI, a deploy, a review, a long job). You are prompted once, with your reason; until then people can still write to you. "
            "There is one wait at a time: a later one takes the place of an earlier one. It counts only if this turn ends well."
        ),
        {
            "type": "object",
            "properties": {
                "delay": {
                    "type": ["string", "number"],
                    "description": "Seconds as a number, or text such as '90s', '20m', '2h', counted from now.",
                },
                "reason": {**_REASON, "description": "What you will look at or do when you are woken; a note to yourself."},
            },
            "required": ["delay", "reason"],
        },
    ),
    ToolSpec(
        CANCEL_WAIT,
        "Cancel the wait that is pending or was asked for in this turn, when it is no longer needed.",
        {"type": "object", "properties": {}},
    ),
    ToolSpec(
        SEND_MESSAGE,
        (
            "Post a message in the channel now, in the middle of your turn, and get its receipt. Only for what people should know before "
            "you are done: your answer is posted by itself when the turn ends, so never send it with this tool."
        ),
        {
            "type": "object",
            "properties": {"text": {"type": "string", "minLength": 1, "description": "The message, in Discord's markdown."}},
            "required": ["text"],
        },
    ),
    ToolSpec(
        SKIP_REPLY,
        (
            "Keep your words of this turn out of the channel, when nothing needs to be said: the message was not meant for you, or a check "
            "found nothing new. What was posted before stays."
        ),
        {
            "type": "object",
            "properties": {"reason": {**_REASON, "description": "Why, in a few words; not shown in the channel."}},
            "required": ["reason"],
        },
    ),
)

#: At most 120 words; held by a test.
STANDING_INSTRUCTIONS = """\
You work in a Discord channel through Nightporter. People write to you there, each line marked with its author; what you write is \
posted there by itself when your turn ends, so answer plainly and briefly.

A turn never waits, sleeps or polls, and nothing keeps running after it. When something takes time, call `wait` with a delay and a \
reason, then end your turn: you are woken in this same conversation. Do not promise to come back without it.

Lines in square brackets at the head of a prompt are Nightporter's: what became of your last words and waits. Trust them, and do not \
repeat what was delivered."""
