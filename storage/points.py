"""The names of the commit points: where tests kill the process, right before and right after a COMMIT."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final, assert_never, get_args

from storage import events as e
from storage.events import Event

#: Called with "<point>.before" inside the transaction and "<point>.after" once it is on disk.
FaultHook = Callable[[str], Awaitable[None]]


async def no_fault(_point: str) -> None:
    """What production uses: nothing happens at a commit point."""


def point_of(event: Event) -> str:
    """The event's name in the table of commit points (C1 to C9), or its own in lower case."""
    match event:
        case e.Arrive() | e.Seen():
            return "C1"
        case e.Claim():
            return "C2"
        case e.Dispatch():
            return "C3"
        case e.Say() | e.Skip():
            return "C4"
        case e.Settle():
            return "C5"
        case e.Send() | e.TakePart() | e.Absent():
            return "C6"
        case e.Receipt():
            return "C7"
        case e.Due():
            return "C8"
        case e.Wait():
            return "C9"
        case (
            e.Edit()
            | e.Remove()
            | e.Choose()
            | e.Attend()
            | e.Unpark()
            | e.AskToContinue()
            | e.Renew()
            | e.Release()
            | e.LeaseEnded()
            | e.TakeOver()
            | e.GiveUp()
            | e.NativeIdChanged()
            | e.SessionLost()
            | e.Resume()
            | e.Cancel()
            | e.WakeNow()
            | e.Stop()
            | e.Rebind()
            | e.Notify()
            | e.Retry()
            | e.Undecided()
            | e.Fail()
        ):
            return type(event).__name__.lower()
        case _:
            assert_never(event)


def _commits() -> frozenset[str]:
    # The event's type alone decides; none of its fields is looked at.
    return frozenset(point_of(kind.__new__(kind)) for kind in get_args(Event))


#: Every commit point, without its side.
COMMITS: Final = _commits()
