"""Which rows an event's rule looks at: the snapshot, loaded inside the transaction that will change it. Never all of history.

On PostgreSQL the conversation rows are locked first, in order of their ids, so that decisions about one conversation stand in a
queue; SQLite's BEGIN IMMEDIATE has done that before (SQLAlchemy leaves FOR UPDATE out there). The unique indexes are the authority.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import assert_never

from sqlalchemy.ext.asyncio import AsyncConnection

from storage import events as e
from storage.events import Event
from storage.models import Rules, Snapshot
from storage.rules.view import full
from storage.schema import continuations, parts, prompts, runs
from storage.snapshots import Candidate, Collector, owner_of


@dataclass(frozen=True, slots=True)
class Loader:
    """Loads for one transaction."""

    conn: AsyncConnection
    rules: Rules

    async def claim(self, candidate: Candidate) -> Snapshot:
        """The conversations of one workspace (or the one of a shared folder) where prompts wait, with the first of each class."""
        rows = Collector(self.conn)
        waiting = await rows.lock_candidates(candidate)
        await rows.heads(waiting, self.rules.batch_prompts + 1)
        await rows.active_runs(waiting, candidate.workspace)
        await rows.open_sessions(waiting)
        return rows.snapshot()

    async def event(self, event: Event) -> Snapshot:  # noqa: C901, PLR0912, PLR0915 - one case for each kind of event, each one line
        """What the rule of this event reads; an empty snapshot where nothing is found."""
        rows = Collector(self.conn)
        match event:
            case e.Claim():
                raise TypeError("a Claim needs its candidate: use Store.claim")
            case e.Arrive():
                await rows.lock(event.conversation_id)
                await rows.waiting(event.conversation_id)
                await rows.prompt_with(prompts.c.source_key == event.source_key)
                if full(rows.snapshot(), event.conversation_id, self.rules):
                    await rows.open_replies(event.conversation_id)
                if event.session_id is not None:
                    await rows.open_sessions([event.conversation_id])
            case e.Seen() | e.Attend() | e.Notify():
                await rows.lock(event.conversation_id)
            case e.Choose() | e.AskToContinue():
                await rows.whole(event.conversation_id)
            case e.Stop() | e.Rebind():
                await rows.whole(event.conversation_id)
                await rows.open_parts(event.conversation_id)
            case e.Edit() | e.Remove():
                await rows.whole(owner_of(prompts, event.prompt_id))
                await rows.prompt_with(prompts.c.id == event.prompt_id)
            case e.Cancel() | e.WakeNow() | e.Due():
                await rows.whole(owner_of(continuations, event.continuation_id))
                await rows.continuation(event.continuation_id)
            case e.Renew():
                await rows.lock(owner_of(runs, event.run_id))
                await rows.run(event.run_id)
            case e.Resume(fresh=fresh):
                await (rows.whole if fresh else rows.lock)(owner_of(runs, event.run_id))
                await rows.run(event.run_id)
                await rows.prompt_with(prompts.c.source_key == f"resume:{event.run_id}")
            case e.Skip():
                await rows.whole(owner_of(runs, event.run_id))
                await rows.run(event.run_id)
                await rows.parts_with(parts.c.run_id == event.run_id)
            case e.Unpark():
                await rows.lock_agent(event.conversation_id)
            case e.Settle(park_until_ms=int()):
                # Every conversation of the agent in order of the ids, as for a claim, and only then the run's own once more.
                await rows.lock_agent(owner_of(runs, event.run_id))
                await rows.whole(owner_of(runs, event.run_id))
                await rows.run(event.run_id)
            case (
                e.Dispatch()
                | e.Release()
                | e.LeaseEnded()
                | e.TakeOver()
                | e.GiveUp()
                | e.NativeIdChanged()
                | e.SessionLost()
                | e.Settle()
                | e.Say()
                | e.Wait()
            ):
                await rows.whole(owner_of(runs, event.run_id))
                await rows.run(event.run_id)
            case e.Send():
                await rows.lock(owner_of(parts, event.part_id))
                await rows.part_and_earlier(event.part_id)
            case e.TakePart() | e.Receipt() | e.Retry() | e.Absent() | e.Undecided() | e.Fail():
                await rows.lock(owner_of(parts, event.part_id))
                await rows.parts_with(parts.c.id == event.part_id)
            case _:
                assert_never(event)
        return rows.snapshot()
