"""The outbox: two processes that post in one channel, a chat server that forgets nonces, and outcomes that get lost on the way.

Times are those of the first open part: `first_attempt_ms` and `deadline_ms` are rewritten when time passes (the window closes; then
no request can be in flight any more, and the server may have forgotten the nonce).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from storage import events as e
from storage.events import Event, Refusal
from storage.models import ConversationId, Part, PartId, Snapshot
from storage.states import OPEN_PART, terminal
from storage.states import PartState as O
from storage.transitions import decide as product_decide
from storage.transitions import next_step as product_next_step
from tests.model.outbox_state import (
    DEADLINE,
    NOW,
    OUTSIDE,
    RULES,
    WINDOW,
    NextStep,
    Outside,
    Sender,
    World,
    broken_promise,
    plain,
    put,
    queued,
)
from tests.model.search import Step
from tests.model.world import Decide, Fired, NotInTable, Void, apply


@dataclass(slots=True)
class OutboxModel:
    """`parts`: what the agent said (and `n` for a notice of Nightporter)."""

    outside: Outside
    parts: str = "aa"
    decide: Decide = product_decide
    next_step: NextStep = product_next_step
    #: A sender posts only before its own deadline.
    mind_deadline: bool = True
    fired: set[Fired] = field(default_factory=set)
    snaps: list[Snapshot] = field(default_factory=list)
    _numbers: dict[Snapshot, int] = field(default_factory=dict)

    def number(self, snap: Snapshot) -> int:
        index = self._numbers.setdefault(snap, len(self.snaps))
        if index == len(self.snaps):
            self.snaps.append(snap)
        return index

    def initial(self) -> World:
        """The parts are queued by the product's own rule."""
        applied = queued(self.parts)
        self.fired.update(applied.moves)
        outside = tuple(getattr(self.outside, name) for name in OUTSIDE)
        return World(self.number(applied.snapshot), (None, None), (), (), (), (), outside)

    def show(self, state: World) -> str:
        """Parts, requests, channel."""
        parts = "; ".join(
            f"part {p.id} {p.state} {p.nonce} attempt {p.attempt}{' withdraw' if p.withdraw else ''}" for p in self.snaps[state.db].parts
        )
        return f"{parts} | in flight {[f[0] for f in state.flying]} | channel {[c[0] for c in state.channel]}"

    def at_rest(self, state: World) -> str | None:
        """Every part has a terminal state."""
        for p in self.snaps[state.db].parts:
            if p.state in OPEN_PART:
                return f"part {p.id} is {p.state}"
        return None if not any(state.senders) else "a process still holds a part"

    # --- steps ---

    def steps(self, state: World) -> Iterator[Step]:
        """Everything that can happen next."""
        snap = self.snaps[state.db]
        for index in (0, 1):
            sender = state.senders[index]
            if sender is None:
                yield from self._begin(state, snap, index)
            else:
                yield from self._go_on(state, snap, index, sender)
            if (sender is not None or any(p.holder == f"w{index}" for p in snap.parts)) and self._left(state, "crashes"):
                yield self._crash(state, snap, index)
        yield from self._server(state)
        yield from self._time(state, snap)
        yield from self._echo(state, snap)
        if self._left(state, "stops"):
            stop = e.Stop("user:1", ConversationId(1), NOW)
            yield from self._commit("/stop", state, stop, own=False, outside=self._spend(state, "stops"))

    def _left(self, state: World, what: str) -> int:
        return state.outside[OUTSIDE[what]]

    def _spend(self, state: World, what: str) -> tuple[int, ...]:
        at = OUTSIDE[what]
        return (*state.outside[:at], state.outside[at] - 1, *state.outside[at + 1 :])

    def _commit(self, label: str, state: World, event: Event, *, own: bool = True, **after: Any) -> Iterator[Step]:
        snap = self.snaps[state.db]
        changes = self.decide(snap, event, NOW, RULES)
        if isinstance(changes, Refusal):
            if "refused" in after:
                yield self._step(f"{label}: refused, {changes.code}", state, own, state.db, senders=after["refused"])
            return
        try:
            applied = apply(snap, changes)
        except (Void, NotInTable) as error:
            yield Step(label, None, own, f"{type(event).__name__} cannot be committed: {error}")
            return
        self.fired.update(applied.moves)
        after.pop("refused", None)
        yield self._step(label, state, own, self.number(plain(applied.snapshot)), **after)

    def _step(self, label: str, state: World, own: bool, db: int, **after: Any) -> Step:
        new = state._replace(db=db, **after)
        broken = broken_promise(new, self.snaps[new.db])
        if broken is not None:
            return Step(label, None, own, broken)
        return Step(label, self._least(new), own)

    def _least(self, world: World) -> World:
        """The two processes are alike."""
        held = {p.holder for p in self.snaps[world.db].parts}
        swap = (world.senders[1] is not None, world.senders[1] or ()) > (world.senders[0] is not None, world.senders[0] or ())
        if world.senders == (None, None):
            swap = "w1" in held and "w0" not in held
        if not swap:
            return world
        names = {"w0": "w1", "w1": "w0"}
        snap = self.snaps[world.db]
        parts = tuple(replace(p, holder=names.get(p.holder or "", p.holder)) for p in snap.parts)
        flying = tuple(sorted((n, p, 1 - by if by >= 0 else by) for n, p, by in world.flying))
        return world._replace(db=self.number(replace(snap, parts=parts)), senders=(world.senders[1], world.senders[0]), flying=flying)

    def _begin(self, state: World, snap: Snapshot, index: int) -> Iterator[Step]:
        """Take the right to send: C6, or the part of a holder that is gone."""
        me = f"w{index}"
        for p in snap.parts:
            if p.state is O.READY:
                label, event = f"{me}: Send part {p.id}", e.Send(me, p.id, NOW + DEADLINE)
                yield from self._taken(label, state, snap, index, p.id, event)
            elif p.state is O.SENDING and p.holder == me:
                again = Sender(p.id, p.attempt, "closed", p.nonce, False, -1)
                yield self._step(f"{me}: goes on with part {p.id}", state, True, state.db, senders=put(state.senders, index, again))
            elif p.state is O.SENDING and (p.holder == "x" or self._left(state, "hangs")):
                # A live holder is robbed only when it hangs; the rule asks for its deadline.
                event2 = e.TakePart(me, p.id, NOW + DEADLINE, holder_gone=p.holder == "x")
                left = state.outside if p.holder == "x" else self._spend(state, "hangs")
                yield from self._taken(f"{me}: TakePart {p.id}", state, snap, index, p.id, event2, left)

    def _taken(
        self, label: str, state: World, snap: Snapshot, index: int, part_id: PartId, event: Event, outside: tuple[int, ...] | None = None
    ) -> Iterator[Step]:
        left = state.outside if outside is None else outside
        own = left == state.outside
        for step in self._commit(label, state, event, own=own):
            if step.after is None:
                yield step
                continue
            # Not canonical yet: take the plain successor and add what this process now believes.
            changes = self.decide(snap, event, NOW, RULES)
            assert not isinstance(changes, Refusal)
            after = plain(apply(snap, changes).snapshot)
            part = next(p for p in after.parts if p.id == part_id)
            sender = None
            if part.state is O.SENDING:
                posts = self.next_step(part, NOW, RULES) == "post"
                sender = Sender(part.id, part.attempt, "holds", part.nonce, posts, -1)
            senders = put(state.senders, index, sender)
            yield self._step(label, state, own, self.number(after), senders=senders, outside=left)

    def _go_on(self, state: World, snap: Snapshot, index: int, sender: Sender) -> Iterator[Step]:
        me, free = f"w{index}", put(state.senders, index, None)
        part = next(p for p in snap.parts if p.id == sender.part)
        mine = part.state is O.SENDING and part.attempt == sender.attempt and part.holder == me
        match sender.phase:
            case "holds":
                yield from self._hold(state, index, sender, part, mine=mine)
            case "read":
                if sender.found >= 0:
                    found: Event = e.Receipt(me, part.id, 1 + sender.found)
                    yield from self._commit(f"{me}: Receipt (history) part {part.id}", state, found, senders=free, refused=free)
                else:
                    nonce = f"n{part.id}g{part.generation + 1}"
                    absent = e.Absent(me, part.id, sender.attempt, nonce, NOW + DEADLINE)
                    again = Sender(part.id, sender.attempt + 1, "holds", nonce, True, -1)
                    kept = free if part.withdraw else put(state.senders, index, again)
                    yield from self._commit(f"{me}: Absent part {part.id}", state, absent, senders=kept, refused=free)
            case "answered":
                receipt = e.Receipt(me, part.id, 1, sender.attempt)
                yield from self._commit(f"{me}: Receipt part {part.id}", state, receipt, senders=free, refused=free)
            case "refused":
                fail = e.Fail(me, part.id, sender.attempt, "forbidden")
                yield from self._commit(f"{me}: Fail part {part.id}", state, fail, senders=free, refused=free)
            case "unanswered":
                retry = e.Retry(me, part.id, sender.attempt)
                held = put(state.senders, index, sender._replace(phase="closed")) if mine else free
                yield from self._commit(f"{me}: Retry part {part.id}", state, retry, senders=free, refused=held)
            case "closed":
                # The window is closed and it still holds the part: the history decides.
                yield from self._hold(state, index, sender, part, mine=mine)
            case "posted":
                return
            case _:
                raise AssertionError(sender.phase)

    def _hold(self, state: World, index: int, sender: Sender, part: Part, *, mine: bool) -> Iterator[Step]:
        """What `next_step` says; a process that hung still believes what it read before."""
        me = f"w{index}"
        if not mine and not sender.fresh:
            yield self._step(f"{me}: forgets part {part.id}", state, True, state.db, senders=put(state.senders, index, None))
            return
        step = self.next_step(part, NOW, RULES) if mine else "post"
        if step == "post" and sender.phase == "holds":
            if not sender.fresh and self.mind_deadline:
                late = put(state.senders, index, sender._replace(phase="unanswered"))
                yield self._step(f"{me}: its deadline has passed", state, True, state.db, senders=late)
                return
            flying = tuple(sorted((*state.flying, (sender.nonce, part.id, index))))
            posted = put(state.senders, index, sender._replace(phase="posted"))
            yield self._step(f"{me}: posts part {part.id} with {sender.nonce}", state, True, state.db, senders=posted, flying=flying)
        elif step == "history":
            where = [at for at, (_, shown) in enumerate(state.channel) if shown == part.id]
            seen = sender._replace(phase="read", found=where[0] if where else -1)
            label = f"{me}: reads the history for part {part.id}: {'found' if where else 'absent'}"
            yield self._step(label, state, True, state.db, senders=put(state.senders, index, seen))
            if self._left(state, "unclear"):
                event = e.Undecided(me, part.id, sender.attempt, "unclear")
                free = put(state.senders, index, None)
                left = self._spend(state, "unclear")
                yield from self._commit(
                    f"{me}: Undecided part {part.id}", state, event, own=False, senders=free, refused=free, outside=left
                )
        elif sender.phase == "closed" and step == "post":
            again = put(state.senders, index, sender._replace(phase="unanswered"))
            yield self._step(f"{me}: may post again", state, True, state.db, senders=again)

    def _crash(self, state: World, snap: Snapshot, index: int) -> Step:
        me = f"w{index}"
        parts = tuple(replace(p, holder="x") if p.holder == me else p for p in snap.parts)
        flying = tuple(sorted((n, p, -1 if by == index else by) for n, p, by in state.flying))
        return self._step(
            f"{me}: dies and starts again",
            state,
            False,
            self.number(replace(snap, parts=parts)),
            senders=put(state.senders, index, None),
            flying=flying,
            outside=self._spend(state, "crashes"),
        )

    def _server(self, state: World) -> Iterator[Step]:
        """A request arrives (and its answer comes back, or not), is lost, or is refused."""
        for at, (nonce, part, by) in enumerate(state.flying):
            flying = state.flying[:at] + state.flying[at + 1 :]
            known = nonce not in state.forgotten and any(n == nonce for n, _ in state.channel)
            channel = state.channel if known else (*state.channel, (nonce, part))
            echoes = state.echoes if known or not self._left(state, "echoes") else tuple(sorted({*state.echoes, nonce}))
            arrived = {"flying": flying, "channel": channel, "echoes": echoes}
            label = f"server: {nonce} {'is known' if known else 'is posted'}"
            if by < 0:
                yield self._step(label, state, True, state.db, **arrived)
                yield self._step(f"network: {nonce} never arrives", state, True, state.db, flying=flying)
                continue
            sender = state.senders[by]
            waits = sender is not None and sender.phase == "posted" and sender.nonce == nonce
            answered = put(state.senders, by, sender._replace(phase="answered")) if waits and sender else state.senders
            yield self._step(f"{label}, answered", state, True, state.db, senders=answered, **arrived)
            if self._left(state, "lost") and waits and sender:
                left = self._spend(state, "lost")
                lost = put(state.senders, by, sender._replace(phase="unanswered"))
                yield self._step(f"{label}, the answer is lost", state, False, state.db, senders=lost, outside=left, **arrived)
                yield self._step(f"network: {nonce} never arrives", state, False, state.db, senders=lost, outside=left, flying=flying)
                slow = tuple(sorted((*flying, (nonce, part, -1))))
                label2 = f"network: no answer to {nonce} yet, it may arrive"
                yield self._step(label2, state, False, state.db, senders=lost, outside=left, flying=slow)
            if self._left(state, "refusals") and waits and sender:
                left = self._spend(state, "refusals")
                refused = put(state.senders, by, sender._replace(phase="refused"))
                # It lost the permission, the channel or the patience for this text: also for what is still on its way.
                rest = tuple(f for f in flying if f[0] != nonce)
                yield self._step(f"server: refuses {nonce}", state, False, state.db, senders=refused, outside=left, flying=rest)

    def _time(self, state: World, snap: Snapshot) -> Iterator[Step]:
        head = next((p for p in snap.parts if p.state in OPEN_PART), None)
        if head is not None and head.state is O.READY and head.attempt == 0 and self._left(state, "late"):
            yield self._aged(state, snap, head, "the words are too old", self._spend(state, "late"), queued_ms=NOW - 10_001)
        if head is None or head.first_attempt_ms is None:
            return
        busy = any(s is not None and self._can_act(s, snap) for s in state.senders)
        hangs = self._left(state, "hangs")
        if busy and not hangs:
            return
        left = self._spend(state, "hangs") if busy else state.outside
        own = not busy
        if head.first_attempt_ms > NOW:
            yield self._aged(state, snap, head, "the clock catches up", left, own=own, first_attempt_ms=NOW - 200, deadline_ms=NOW - 1)
        elif NOW - head.first_attempt_ms <= WINDOW:
            closed = {"first_attempt_ms": NOW - WINDOW - 1, "deadline_ms": NOW}
            yield self._aged(state, snap, head, "the window closes", left, own=own, **closed)
        elif head.deadline_ms is not None and head.deadline_ms >= NOW and not state.flying:
            yield self._aged(state, snap, head, "every deadline has passed", left, own=own, deadline_ms=NOW - 1)
        if head.first_attempt_ms <= NOW and self._left(state, "clock"):
            left = self._spend(state, "clock")
            back = {"first_attempt_ms": NOW + 1_000, "deadline_ms": NOW + 1_000 + DEADLINE}
            yield self._aged(state, snap, head, "the clock goes backwards", left, own=False, **back)

    def _can_act(self, sender: Sender, snap: Snapshot) -> bool:
        part = next(p for p in snap.parts if p.id == sender.part)
        mine = part.state is O.SENDING and part.attempt == sender.attempt
        if sender.phase in {"holds", "closed"} and mine:
            return self.next_step(part, NOW, RULES) != "wait"
        return sender.phase != "posted"

    def _aged(self, state: World, snap: Snapshot, head: Part, what: str, left: tuple[int, ...], *, own: bool = False, **sets: Any) -> Step:
        parts = tuple(replace(p, **sets) if p.id == head.id else p for p in snap.parts)
        after: dict[str, Any] = {"outside": left}
        if sets.get("deadline_ms", NOW) < NOW:
            if state.flying and "clock" in what:
                return Step(f"time: {what}", state, own)
            after["forgotten"] = tuple(sorted({*state.forgotten, *(n for n, _ in state.channel)}))
            after["senders"] = tuple(None if s is None else s._replace(fresh=False) for s in state.senders)
        return self._step(f"time: {what}", state, own, self.number(replace(snap, parts=parts)), **after)

    def _echo(self, state: World, snap: Snapshot) -> Iterator[Step]:
        for nonce in state.echoes:
            part = next((p for p in snap.parts if p.nonce == nonce), None)
            left = self._spend(state, "echoes")
            gone = tuple(n for n in state.echoes if n != nonce) if left[OUTSIDE["echoes"]] else ()
            if (part is not None and not terminal(part.state)) or (part is not None and part.state is O.UNKNOWN):
                event = e.Receipt("gateway", part.id, 1)
                yield from self._commit(f"gateway: echo of {nonce}", state, event, own=False, echoes=gone, outside=left)
