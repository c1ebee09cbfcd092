"""What people ask the scripted agent to do: a few statements, each with words that nobody else says."""

from __future__ import annotations

import random

#: Statements that end a turn in another way than by itself.
_ENDS = ("fail api", "fail overloaded", "fail bad_request", "fail session_lost", "limit 600", "limit", "die", "hang")


def token(number: int, part: int) -> str:
    """Words that are said once in a story."""
    return f"«{number}.{part}»"


def script(draw: random.Random, number: int) -> str:
    """A message."""
    lines = [_statement(draw, number, part) for part in range(1, draw.randint(1, 5) + 1)]
    if draw.random() < 0.1:
        lines.append(draw.choice(_ENDS))
    # Every message says something that tells it apart from all others.
    return "\n".join([f"say hello {token(number, 0)}", *lines] if draw.random() < 0.7 else [*lines, f"say bye {token(number, 0)}"])


def _statement(draw: random.Random, number: int, part: int) -> str:
    word = token(number, part)
    drawn = draw.random()
    if drawn < 0.25:
        return f"say words {word}"
    if drawn < 0.30:
        return f"say long {word} " + " ".join(str(n) for n in range(draw.randint(600, 1_500)))
    if drawn < 0.50:
        return f"tool Bash {draw.choice((0.1, 2, 8, 30))}"
    if drawn < 0.65:
        return f"send sent {word}"
    if drawn < 0.87:
        return _wait(draw, number, part)
    if drawn < 0.90:
        return "cancel_wait"
    if drawn < 0.93:
        return f"skip private {word}"
    return f"sleep {draw.choice((0.5, 5, 40))}"


def _wait(draw: random.Random, number: int, part: int) -> str:
    """The reason is what the agent does when it is woken; it may wait again."""
    reason = f"say woke {token(number, part)}"
    for _ in range(draw.choice((0, 0, 0, 1, 3))):
        reason = f"wait {draw.choice(('30s', '45s', '2m'))} {reason}"
    return f"wait {draw.choice(('30s', '30s', '60s', '90s', '5m', '20m', '1h'))} {reason}"
