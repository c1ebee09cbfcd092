"""What has to hold in every state of the database (design section 4), written without the rules that are checked by it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from storage.models import PromptKind, Run, RunId, Snapshot
from storage.states import ACTIVE_RUN
from storage.states import ContinuationState as C
from storage.states import PromptState as P
from storage.states import RunState as R
from storage.states import SessionState as S


def broken(snap: Snapshot) -> Iterator[str]:
    """One sentence for each invariant that does not hold."""
    yield from _one_at_a_time(snap)
    yield from _prompts(snap)
    yield from _continuations(snap)
    yield from _sessions(snap)


def _one_at_a_time(snap: Snapshot) -> Iterator[str]:
    active = [r for r in snap.runs if r.state in ACTIVE_RUN]
    if len(active) < 2 and len(snap.continuations) < 2:
        return
    for conversation, number in Counter(r.conversation_id for r in active).items():
        if number > 1:
            yield f"P2: {number} active runs in conversation {conversation}"
    for workspace, number in Counter(r.workspace for r in active if r.workspace is not None).items():
        if number > 1:
            yield f"P2: {number} active runs in {workspace}"
    armed = Counter(c.conversation_id for c in snap.continuations if c.state in {C.PENDING, C.CLAIMED})
    for conversation, number in armed.items():
        if number > 1:
            yield f"{number} armed continuations in conversation {conversation}"


def _prompts(snap: Snapshot) -> Iterator[str]:
    runs = {r.id: r for r in snap.runs}
    working = set()
    for p in snap.prompts:
        if p.state is not P.TAKEN:
            continue
        run = None if p.run_id is None else runs.get(p.run_id)
        if run is None or run.state not in ACTIVE_RUN or run.conversation_id != p.conversation_id:
            yield f"prompt {p.id} is taken, but its run is not active"
        else:
            working.add(run.id)
    for r in snap.runs:
        if r.state in ACTIVE_RUN and r.id not in working:
            yield f"run {r.id} is {r.state}, but has no prompt"
        if r.fence < 1:
            yield f"run {r.id} has fence {r.fence}"
        if r.state is R.DISPATCHED and (r.prompt_uuid is None or r.process is None):
            yield f"run {r.id} was dispatched without its intent"


def _continuations(snap: Snapshot) -> Iterator[str]:
    runs = {r.id: r for r in snap.runs}
    sessions = {s.id: s for s in snap.sessions}
    wakes = {
        p.continuation_id: p
        for p in snap.prompts
        if p.kind is PromptKind.WAKE and (p.state is P.WAITING or (p.state is P.TAKEN and _claimed(runs, p.run_id)))
    }
    for c in snap.continuations:
        origin = runs.get(c.origin_run_id)
        if c.state is C.REQUESTED and (origin is None or origin.state is not R.DISPATCHED):
            yield f"c{c.id} is requested, but its origin run is not dispatched"
        if c.state in {C.PENDING, C.CLAIMED}:
            if origin is None or origin.state is not R.SUCCEEDED:
                yield f"P4: c{c.id} is {c.state}, but its origin run did not succeed ({origin.state if origin else 'gone'})"
            session = sessions.get(c.session_id)
            if session is None or session.state is not S.OPEN:
                yield f"P4: c{c.id} is {c.state}, but its session has ended"
        if (c.state is C.CLAIMED) != (c.id in wakes):
            yield f"c{c.id} is {c.state}, but its prompt {'waits' if c.id in wakes else 'neither waits nor is taken by a claimed run'}"
    known = {c.id for c in snap.continuations}
    for continuation_id in wakes:
        if continuation_id not in known:
            yield f"the wake of c{continuation_id} waits, but there is no such continuation"


def _claimed(runs: Mapping[RunId, Run], run_id: RunId | None) -> bool:
    run = None if run_id is None else runs.get(run_id)
    return run is not None and run.state is R.CLAIMED


def _sessions(snap: Snapshot) -> Iterator[str]:
    sessions = {s.id: s for s in snap.sessions}
    for conversation, number in Counter(s.conversation_id for s in snap.sessions if s.state is S.OPEN).items():
        if number > 1:
            yield f"{number} open sessions in conversation {conversation}"
    for r in snap.runs:
        if r.state not in ACTIVE_RUN:
            continue
        session = sessions.get(r.session_id)
        if session is None or session.conversation_id != r.conversation_id:
            yield f"run {r.id} has no session of its conversation"
        elif r.state is R.CLAIMED and session.state is not S.OPEN:
            yield f"run {r.id} is claimed for a session that has ended"
