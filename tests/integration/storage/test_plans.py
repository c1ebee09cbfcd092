"""However much has been settled, no statement of the store reads through it: each one uses an index."""

from __future__ import annotations

import inspect
import re
from typing import Any

from sqlalchemy import event

from storage import events as e
from storage.models import Rules
from storage.store import Store
from tests.support.storage import Driver, Time

#: `SCAN x USING INDEX y` reads all of an index: fine where the index holds only what is live, or the table is small.
ALLOWED = re.compile(
    r"SCAN (conversations|constant row|\d+ CONSTANT ROW|\(subquery-\d+\)|anon_\d+|meta)|SCAN \w+ USING (COVERING )?INDEX (\w+)"
)
PARTIAL = {
    "ix_prompts_live",
    "uq_runs_active_conversation",
    "uq_runs_active_workspace",
    "ix_continuations_due",
    "ix_continuations_live",
    "uq_continuations_armed",
    "ix_parts_open",
}


def reads_too_much(plan: str) -> bool:
    if not plan.startswith("SCAN"):
        return False
    found = ALLOWED.match(plan)
    return found is None or (found[3] is not None and found[3] not in PARTIAL)


def questions(store: Store) -> set[str]:
    """Every query that a store offers."""
    asked = (
        *(store.conversations, store.sessions, store.prompts, store.runs, store.continuations),
        *(store.outbox, store.journal, store.dispatch),
    )
    return {f.__qualname__ for of in asked for name, f in vars(type(of)).items() if inspect.iscoroutinefunction(f) and name[0] != "_"}


async def live(driver: Driver) -> set[str]:
    """Everything a store is asked, at least once; returns the names of the queries."""
    d, store = driver, driver.store
    a, b = await d.bind(1, "/srv/a"), await d.bind(2, "/srv/b", shared=True)
    woken = await d.woken(a.id)
    run = await d.dispatch(await d.claim())
    await d.done(e.Say(d.by, run.id, 1, (d.part("one"), d.part("two"))))
    await d.done(e.Skip(d.by, run.id, 1, "private"))
    await d.settle(run, words=("answer",))
    await d.done(e.Stop("user:1", a.id, 1, reset=True))
    part = await d.sending(b.id)
    await d.done(e.Receipt(d.by, part.id, 1, attempt=1))
    prompt = await d.prompt(b.id)
    await d.done(e.Edit(d.by, prompt.id, "better"))
    await d.done(e.Remove(d.by, prompt.id, "gone"))
    await d.store.do(e.Cancel("user:1", woken.id, "late"))
    await d.store.do(e.Resume("user:1", run.id, 1, "ann", "go on"))
    await d.running(b.id)
    now = d.time.ms
    names = set()
    asked: Any
    for asked in (
        store.conversations.all_bound(),
        store.conversations.by_id(a.id),
        store.conversations.by_channel(1),
        store.conversations.in_guild(1),
        store.sessions.by_id(run.session_id),
        store.sessions.open_of(a.id),
        store.prompts.by_id(prompt.id),
        store.prompts.by_source_key("message:1"),
        store.prompts.waiting(a.id),
        store.prompts.offered(a.id),
        store.prompts.of_run(run.id),
        store.runs.by_id(run.id),
        store.runs.active(a.id),
        store.runs.active_all(),
        store.runs.recent(a.id, 5),
        store.runs.receipts_due(a.id),
        store.continuations.by_id(woken.id),
        store.continuations.live(a.id),
        store.continuations.live_in_guild(1),
        store.continuations.next_due_ms(),
        store.continuations.due(now, 10),
        store.continuations.untold(a.id),
        store.outbox.by_id(part.id),
        store.outbox.by_nonce("x"),
        store.outbox.of_run(run.id),
        store.outbox.sendable(now, 10),
        store.outbox.held_by_others("x"),
        store.outbox.backlog(a.id),
        store.outbox.posted_before(a.id, part.seq),
        store.outbox.posted_from(a.id, part.seq),
        store.outbox.troubled(a.id, 5),
        store.prompts.people_since(a.id, now),
        store.journal.of(e.Entity.RUN, run.id),
        store.journal.of_conversation(a.id, 10),
        store.journal.after(0, 10),
        store.dispatch.claimable(now),
    ):
        names.add(asked.__qualname__)
        await asked
    return names


async def test_no_statement_of_the_store_reads_through_what_is_settled(sqlite_url: str, time: Time) -> None:
    store = await Store.open(sqlite_url, now=time, rules=Rules(), instance="worker-1")
    engines = store._engines  # noqa: SLF001 - to listen
    issued: dict[str, Any] = {}
    try:
        for engine in (engines.write, engines.read):

            @event.listens_for(engine.sync_engine, "before_cursor_execute")
            def note(_conn: Any, _cursor: Any, statement: str, parameters: Any, _context: Any, many: bool) -> None:
                if not many and statement.startswith(("SELECT", "UPDATE")):
                    issued[statement] = parameters

        assert await live(Driver(store, time)) == questions(store)
        slow = {}
        async with engines.read.connect() as conn:
            for statement, parameters in list(issued.items()):
                plan = [str(row.detail) for row in await conn.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", parameters)]
                if any(reads_too_much(line) for line in plan):
                    slow[statement] = plan
        assert len(issued) > 50
        assert slow == {}
    finally:
        await store.aclose()
