"""States of the database as small numbers: rows without what no rule reads, ids in order from 1, equal worlds made equal.

Time stands still at `NOW`; what passes is written into the rows instead (a lease that has ended, a wait that is due), so that the
number of states is finite.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from storage.models import (
    Continuation,
    ContinuationId,
    Conversation,
    Prompt,
    PromptId,
    PromptKind,
    Run,
    RunId,
    SessionId,
    Snapshot,
)
from storage.states import ACTIVE_RUN, LIVE_CONTINUATION, PromptState, RunState, SessionState

NOW = 1_000_000
LIVE_PROMPT = frozenset({PromptState.OFFERED, PromptState.WAITING, PromptState.TAKEN})
SWAP = {1: 2, 2: 1}
_HOLDERS = {"w0": "w1", "w1": "w0"}


def can_go_on(run: Run) -> bool:
    """Whether Resume, or Continue after a refused wait, may still be pressed below it."""
    return run.state in {RunState.INTERRUPTED, RunState.FAILED} or (run.state is RunState.SUCCEEDED and not run.kind.of_people)


@dataclass(frozen=True, slots=True)
class Renumbered:
    """A reduced state, and where the ids went."""

    db: int
    runs: dict[int, int]
    prompts: dict[int, int]
    #: No id changed.
    same: bool
    #: The runs that are left.
    active: dict[int, Run]


class States:
    """Snapshots by number."""

    def __init__(self, unattended_runs: int, *, reduce: bool) -> None:
        self.unattended_runs = unattended_runs
        self.reduce = reduce
        self.snaps: list[Snapshot] = []
        self._numbers: dict[Snapshot, int] = {}
        self._canonical: dict[tuple[int, frozenset[int], bool], Renumbered] = {}
        self._least: dict[int, tuple[int, tuple[int, ...]]] = {}
        self._exchanged_rows: dict[tuple[int, Any], Any] = {}

    def number(self, snap: Snapshot) -> int:
        """The number of a snapshot, the same for equal ones."""
        index = self._numbers.get(snap)
        if index is None:
            index = self._numbers[snap] = len(self.snaps)
            self.snaps.append(snap)
        return index

    def canonical(self, raw: int, wanted: frozenset[int], *, resumable: bool) -> Renumbered:
        """Drop the rows that nothing can refer to any more; `wanted` runs are remembered by a worker."""
        key = (raw, wanted, resumable)
        known = self._canonical.get(key)
        if known is None:
            known = self._canonical[key] = self._reduced(self.snaps[raw], wanted, resumable=resumable)
        return known

    def _reduced(self, snap: Snapshot, wanted: frozenset[int], *, resumable: bool) -> Renumbered:
        everything = not self.reduce
        live = [c for c in snap.continuations if everything or c.state in LIVE_CONTINUATION]
        origins = {c.origin_run_id for c in live}
        runs = [
            r for r in snap.runs if everything or r.state in ACTIVE_RUN or r.id in wanted or r.id in origins or (resumable and can_go_on(r))
        ]
        run_ids = self._ids([r.id for r in runs])
        prompts = [
            p
            for p in snap.prompts
            if everything or p.state in LIVE_PROMPT or (p.kind is PromptKind.RESUME and int(p.source_key[7:]) in run_ids)
        ]
        named = {p.continuation_id for p in prompts}
        continuations = [c for c in snap.continuations if c in live or c.id in named]
        used = {r.session_id for r in runs if r.state in ACTIVE_RUN} | {c.session_id for c in live}
        sessions = [s for s in snap.sessions if everything or s.state is SessionState.OPEN or s.id in used]
        session_ids = self._ids([s.id for s in sessions])
        prompt_ids = self._ids([p.id for p in prompts])
        continuation_ids = self._ids([c.id for c in continuations])
        after = Snapshot(
            conversations=tuple(self._conversation(c) for c in snap.conversations),
            sessions=tuple(replace(s, id=SessionId(session_ids[s.id]), native_id="", turns=0, ended_why=None) for s in sessions),
            prompts=tuple(_prompt(p, prompt_ids, run_ids, session_ids, continuation_ids) for p in prompts),
            runs=tuple(_run(r, run_ids, session_ids) for r in runs),
            continuations=tuple(
                replace(
                    c,
                    id=ContinuationId(continuation_ids[c.id]),
                    session_id=SessionId(session_ids.get(c.session_id, 0)),
                    origin_run_id=RunId(run_ids.get(c.origin_run_id, 0)),
                    ended_by=None,
                    ended_why=None,
                    told=False,
                )
                for c in continuations
            ),
        )
        same = all(old == new for ids in (run_ids, prompt_ids) for old, new in ids.items())
        active: dict[int, Run] = {r.id: r for r in after.runs}
        return Renumbered(self.number(after), run_ids, prompt_ids, same, active)

    def _ids(self, ids: list[int]) -> dict[int, int]:
        return {old: new if self.reduce else old for new, old in enumerate(ids, 1)}

    def _conversation(self, c: Conversation) -> Conversation:
        spent = min(c.unattended_runs, self.unattended_runs)
        return replace(c, next_seq=1, stop_id=0, attended_at_ms=NOW, unattended_runs=spent, not_before_ms=NOW + 1 if c.not_before_ms else 0)

    def least(self, db: int, kinds: tuple[int, ...]) -> tuple[int, tuple[int, ...]]:
        """Of all states that are this one with workers (1), conversations (2) or authors (4) exchanged, the first; and by which exchanges.

        The exchanges commute and each undoes itself, so that what is found for one state is known for all of its equals.
        """
        known = self._least.get(db)
        if known is None:
            equals = [(self.number(self._exchanged(self.snaps[db], kind)) if kind else db, kind) for kind in kinds]
            first = min(equals)[0]
            ways = [kind for number, kind in equals if number == first]
            for number, kind in equals:
                self._least[number] = (first, tuple(sorted(kind ^ way for way in ways)))
            known = self._least[db]
        return known

    def _exchanged(self, snap: Snapshot, kind: int) -> Snapshot:
        known = self._exchanged_rows
        rows: dict[str, tuple[Any, ...]] = {}
        for name in ("sessions", "prompts", "runs", "continuations"):
            changed = []
            for row in getattr(snap, name):
                key = (kind, row)
                other = known.get(key)
                if other is None:
                    other = known[key] = _exchanged_row(row, kind)
                changed.append(other)
            rows[name] = tuple(changed)
        conversations = snap.conversations
        if kind & 2:
            one, two = conversations
            conversations = (replace(two, id=one.id, channel_id=one.channel_id), replace(one, id=two.id, channel_id=two.channel_id))
        return Snapshot(conversations, **rows)


def _exchanged_row(row: Any, kind: int) -> Any:
    sets: dict[str, Any] = {}
    if kind & 1 and isinstance(row, Run):
        sets["holder"] = _HOLDERS.get(row.holder, row.holder)
    if kind & 2:
        sets["conversation_id"] = SWAP[row.conversation_id]
    if kind & 4:
        match row:
            case Prompt():
                sets["author_id"] = SWAP[row.author_id]
            case Run() | Continuation():
                sets["began_by"] = SWAP[row.began_by]
            case _:
                pass
    return replace(row, **sets) if sets else row


def _prompt(p: Prompt, prompts: dict[int, int], runs: dict[int, int], sessions: dict[int, int], continuations: dict[int, int]) -> Prompt:
    new_id = prompts[p.id]
    match p.kind:
        case PromptKind.WAKE:
            key = f"continuation:{continuations[p.continuation_id or 0]}"
        case PromptKind.RESUME:
            key = f"resume:{runs.get(int(p.source_key[7:]), -new_id)}"
        case PromptKind.USER | PromptKind.EVENT:
            key = f"message:{new_id}"
    live = p.state in LIVE_PROMPT
    return replace(
        p,
        id=PromptId(new_id),
        source_key=key,
        ordered_ms=0,
        session_id=None if p.session_id is None else SessionId(sessions.get(p.session_id, 0)),
        continuation_id=None if p.continuation_id is None else ContinuationId(continuations[p.continuation_id]),
        run_id=None if p.run_id is None or not live else RunId(runs[p.run_id]),
        tries=p.tries if live else 0,
    )


def _run(r: Run, runs: dict[int, int], sessions: dict[int, int]) -> Run:
    new_id = RunId(runs[r.id])
    if r.state in ACTIVE_RUN:
        return replace(r, id=new_id, session_id=SessionId(sessions[r.session_id]), receipt_told=False)
    return replace(
        r,
        id=new_id,
        session_id=SessionId(0),
        holder="x",
        lease_until_ms=NOW,
        stop_requested=False,
        session_replaced=False,
        addressed=False,
        prompt_uuid=None,
        process=None,
        dispatched_ms=None,
        ended_ms=None,
        ended_why=None,
    )
