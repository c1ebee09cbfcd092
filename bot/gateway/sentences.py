"""One sentence for every refusal, as people read it."""

from __future__ import annotations

from typing import Final

from storage.events import Code

STRANGER: Final = "You are not on the list of people who may use Nightporter here; ask somebody who runs it."
FOR_ADMINS: Final = "Only an admin can do that; ask one."
NOT_BOUND: Final = "This channel is not connected to a project, so there is nothing here."
NOT_BOUND_YET: Final = "Nobody has spoken to the agent here yet."
GONE: Final = "This button or command is no longer available."
FAULT: Final = "Nightporter made a mistake there; the reason is in its log. Try it once more, and tell whoever runs it if it stays."
NO_DATABASE: Final = "Nightporter cannot use its database at the moment; try again in a minute."
NO_CONTINUATION: Final = "There is no wait with that id here; `/continuations list` shows those that there are."
NO_PROMPT: Final = "There is no message with that id in the queue; `/queue list` shows what waits."


def of_continuation(code: Code) -> str:
    """Why a wait could not be cancelled or woken."""
    match code:
        case Code.NOT_FOUND:
            return NO_CONTINUATION
        case Code.NOT_YOURS:
            return "Somebody else began that; only they, or an admin, can change it."
        case Code.TOO_LATE:
            return "Its wake is already with the agent; `/stop` ends that turn."
        case Code.TOO_EARLY:
            return "The agent's turn that asked for it has not ended; it begins to count when the turn has ended well."
        case Code.ENDED:
            return "That wait has already ended."
        case _:
            return other(code)


def of_stop(code: Code) -> str:
    """Why nothing was stopped."""
    if code is Code.NOT_YOURS:
        return "Some of what would end here was begun by somebody else; only an admin can stop that."
    return other(code)


def of_prompt(code: Code) -> str:
    """Why a prompt stays in the queue, or is not there."""
    match code:
        case Code.NOT_FOUND:
            return NO_PROMPT
        case Code.NOT_YOURS:
            return "Somebody else wrote that; only they, or an admin, can remove it."
        case Code.TOO_LATE:
            return "The agent already works on that; `/stop` ends its turn."
        case Code.ENDED:
            return "That message is no longer in the queue."
        case _:
            return other(code)


def of_button(code: Code) -> str:
    """Why a press changed nothing."""
    match code:
        case Code.DUPLICATE:
            return "It was already resumed."
        case Code.TOO_EARLY:
            return "The agent is at work here; press it again when its turn has ended."
        case Code.TOO_OFTEN:
            return "It was resumed too often already; tell the agent what to do differently."
        case Code.ENDED:
            return "This was already decided."
        case Code.NOT_FOUND:
            return GONE
        case _:
            return other(code)


def other(code: Code) -> str:
    """A refusal that this place does not expect."""
    return f"That is not possible now ({code.value.replace('_', ' ')})."
