"""The one place where anything durable is decided: what happens (an event) to what there is (a snapshot), at a time.

`decide` is pure. The store calls it inside the transaction that loaded the snapshot and applies what it returns; the model checker
in `tests/model` explores it exhaustively. The rules are in `storage.rules`, by what they are about.
"""

from __future__ import annotations

from typing import assert_never

from storage import events as e
from storage.events import Change, Event, Refusal
from storage.models import Rules, Snapshot
from storage.rules import claims, delivery, intake, parking, stops, turns, waits
from storage.rules.delivery import next_step, window_open

__all__ = ["decide", "next_step", "window_open"]


def decide(snapshot: Snapshot, event: Event, now_ms: int, rules: Rules) -> tuple[Change, ...] | Refusal:
    """What follows from an event, or why nothing does.

    All changes belong to one transaction. An empty tuple means that the event is fine and changes nothing. `now_ms` is
    wall-clock time of the store, integer milliseconds UTC.
    """
    match event:
        case e.Arrive() | e.Seen() | e.Edit() | e.Remove() | e.Choose() | e.Attend():
            return _intake(snapshot, event, now_ms, rules)
        case e.AskToContinue():
            return intake.ask_to_continue(snapshot, event, now_ms, rules)
        case e.Resume():
            return intake.resume(snapshot, event, now_ms)
        case e.Unpark():
            return parking.unpark(snapshot, event)
        case e.Claim() | e.Dispatch() | e.Release() | e.LeaseEnded() | e.SessionLost():
            return _before_the_call(snapshot, event, now_ms, rules)
        case e.Renew() | e.TakeOver() | e.GiveUp() | e.NativeIdChanged() | e.Say() | e.Skip() | e.Settle():
            return _after_the_call(snapshot, event, now_ms)
        case e.Wait() | e.Cancel() | e.WakeNow() | e.Due():
            return _waits(snapshot, event, now_ms, rules)
        case e.Stop():
            return stops.stop(snapshot, event, now_ms)
        case e.Rebind():
            return stops.rebind(snapshot, event, now_ms)
        case e.Notify() | e.Send() | e.TakePart() | e.Receipt() | e.Retry() | e.Absent() | e.Undecided() | e.Fail():
            return _delivery(snapshot, event, now_ms, rules)
        case _:
            assert_never(event)


def _intake(
    snapshot: Snapshot,
    event: e.Arrive | e.Seen | e.Edit | e.Remove | e.Choose | e.Attend,
    now_ms: int,
    rules: Rules,
) -> tuple[Change, ...] | Refusal:
    match event:
        case e.Arrive():
            return intake.arrive(snapshot, event, now_ms, rules)
        case e.Seen():
            return intake.seen(snapshot, event)
        case e.Edit():
            return intake.edit(snapshot, event)
        case e.Remove():
            return intake.remove(snapshot, event, now_ms)
        case e.Choose():
            return intake.choose(snapshot, event, now_ms)
        case e.Attend():
            return intake.attend(snapshot, event, now_ms)
        case _:
            assert_never(event)


def _before_the_call(
    snapshot: Snapshot,
    event: e.Claim | e.Dispatch | e.Release | e.LeaseEnded | e.SessionLost,
    now_ms: int,
    rules: Rules,
) -> tuple[Change, ...] | Refusal:
    match event:
        case e.Claim():
            return claims.claim(snapshot, event, now_ms, rules)
        case e.Dispatch():
            return claims.dispatch(snapshot, event, now_ms)
        case e.Release():
            return claims.release(snapshot, event, now_ms, rules)
        case e.LeaseEnded():
            return claims.lease_ended(snapshot, event, now_ms, rules)
        case e.SessionLost():
            return claims.session_lost(snapshot, event, now_ms)
        case _:
            assert_never(event)


def _after_the_call(
    snapshot: Snapshot,
    event: e.Renew | e.TakeOver | e.GiveUp | e.NativeIdChanged | e.Say | e.Skip | e.Settle,
    now_ms: int,
) -> tuple[Change, ...] | Refusal:
    match event:
        case e.Renew():
            return turns.renew(snapshot, event)
        case e.TakeOver():
            return turns.take_over(snapshot, event, now_ms)
        case e.GiveUp():
            return turns.give_up(snapshot, event, now_ms)
        case e.NativeIdChanged():
            return turns.native_id_changed(snapshot, event)
        case e.Say():
            return turns.say(snapshot, event, now_ms)
        case e.Skip():
            return turns.skip(snapshot, event)
        case e.Settle():
            return turns.settle(snapshot, event, now_ms)
        case _:
            assert_never(event)


def _waits(snapshot: Snapshot, event: e.Wait | e.Cancel | e.WakeNow | e.Due, now_ms: int, rules: Rules) -> tuple[Change, ...] | Refusal:
    match event:
        case e.Wait():
            return waits.wait(snapshot, event, now_ms, rules)
        case e.Cancel():
            return waits.cancel(snapshot, event, now_ms)
        case e.WakeNow():
            return waits.wake_now(snapshot, event, now_ms)
        case e.Due():
            return waits.due(snapshot, event, now_ms)
        case _:
            assert_never(event)


def _delivery(
    snapshot: Snapshot,
    event: (e.Notify | e.Send | e.TakePart | e.Receipt | e.Retry | e.Absent | e.Undecided | e.Fail),
    now_ms: int,
    rules: Rules,
) -> tuple[Change, ...] | Refusal:
    match event:
        case e.Notify():
            return delivery.notify(snapshot, event, now_ms)
        case e.Send():
            return delivery.send(snapshot, event, now_ms, rules)
        case e.TakePart():
            return delivery.take_part(snapshot, event, now_ms, rules)
        case e.Receipt():
            return delivery.receipt(snapshot, event, now_ms)
        case e.Retry():
            return delivery.retry(snapshot, event, now_ms, rules)
        case e.Absent():
            return delivery.absent(snapshot, event, now_ms, rules)
        case e.Undecided():
            return delivery.undecided(snapshot, event)
        case e.Fail():
            return delivery.fail(snapshot, event)
        case _:
            assert_never(event)
