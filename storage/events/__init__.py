"""What can happen (events), what follows from it (changes), and what is refused: the vocabulary of `storage.transitions`.

Every event says by whom it comes (`by`: a process's instance id, "user:<id>", "agent", "system"), for the journal. Rows that
are made in a decision have negative ids, unique within it; the store puts real ids in their place, also where other changes
of the same decision refer to them.
"""

from __future__ import annotations

from storage.events.changes import Change, Code, Entity, Insert, Move, NewPart, Refusal, Row, RowId, Touch, Value
from storage.events.delivery import Absent, Fail, Notify, Receipt, Retry, Send, TakePart, Undecided
from storage.events.intake import Arrive, AskToContinue, Attend, Choose, Edit, Remove, Seen
from storage.events.runs import (
    Again,
    Claim,
    Dispatch,
    Evidence,
    GiveUp,
    LeaseEnded,
    NativeIdChanged,
    Proof,
    Release,
    Renew,
    Resume,
    Say,
    SessionLost,
    Settle,
    Skip,
    TakeOver,
    Unpark,
)
from storage.events.waits import Cancel, Due, Rebind, Stop, Wait, WakeNow

Event = (
    Arrive
    | Seen
    | Edit
    | Remove
    | Choose
    | Attend
    | AskToContinue
    | Claim
    | Dispatch
    | Renew
    | Release
    | LeaseEnded
    | TakeOver
    | GiveUp
    | NativeIdChanged
    | SessionLost
    | Settle
    | Unpark
    | Say
    | Skip
    | Resume
    | Wait
    | Cancel
    | WakeNow
    | Due
    | Stop
    | Rebind
    | Notify
    | Send
    | TakePart
    | Receipt
    | Retry
    | Absent
    | Undecided
    | Fail
)

__all__ = [
    "Absent",
    "Again",
    "Arrive",
    "AskToContinue",
    "Attend",
    "Cancel",
    "Change",
    "Choose",
    "Claim",
    "Code",
    "Dispatch",
    "Due",
    "Edit",
    "Entity",
    "Event",
    "Evidence",
    "Fail",
    "GiveUp",
    "Insert",
    "LeaseEnded",
    "Move",
    "NativeIdChanged",
    "NewPart",
    "Notify",
    "Proof",
    "Rebind",
    "Receipt",
    "Refusal",
    "Release",
    "Remove",
    "Renew",
    "Resume",
    "Retry",
    "Row",
    "RowId",
    "Say",
    "Seen",
    "Send",
    "SessionLost",
    "Settle",
    "Skip",
    "Stop",
    "TakeOver",
    "TakePart",
    "Touch",
    "Undecided",
    "Unpark",
    "Value",
    "Wait",
    "WakeNow",
]
