"""Turns what both servers' logs and the database show into one list of events, as they happen, and lets a step wait for one."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from typing import Any, TextIO, TypeVar, assert_never

from bot.clock import Clock
from bot.demo.events import Event, Kind
from bot.loopback.discord import LoopbackDiscord, Record
from bot.loopback.model import Entry as ModelEntry
from bot.loopback.model import ModelApi, ModelRequest
from bot.loopback.model.log import texts_of
from storage.events import Entity
from storage.journal import Entry
from storage.models import Snapshot
from storage.outside import Outside

T = TypeVar("T")

#: What the agent's program adds to results by itself.
_REMINDER = re.compile(r"<system-reminder>.*?</system-reminder>", re.DOTALL)

#: How often the database is asked whether somebody has committed. Only how soon it is seen depends on it.
_LOOK_S = 0.02


class DidNotCome(Exception):
    """What a step waited for did not come in time."""

    def __init__(self, expected: str) -> None:
        super().__init__(expected)
        self.expected = expected


class Recorder:
    """Watches until it is closed. `events` grows; `rows` is the database as last seen."""

    def __init__(self, discord: LoopbackDiscord, model: ModelApi, database: Outside, clock: Clock, file: TextIO | None = None) -> None:
        self.events: list[Event] = []
        self.rows = Snapshot()
        self._discord = discord
        self._clock = clock
        self._file = file
        self._outside = database
        self._last_entry = 0
        self._listeners: list[Callable[[Event], None]] = []
        self._waiters: list[asyncio.Future[None]] = []
        self._stale = False
        self._asleep = False
        self._leave = (discord.log.subscribe(self._on_discord), model.log.subscribe(self._on_model))
        self._watching = asyncio.create_task(self._watch(), name="demo-recorder")

    def listen(self, listener: Callable[[Event], None]) -> None:
        """Call `listener` with each new event."""
        self._listeners.append(listener)

    async def aclose(self) -> None:
        """Look once more, then stop watching. Idempotent."""
        if self._watching.done():
            return
        for leave in self._leave:
            leave()
        self._watching.cancel()
        await asyncio.gather(self._watching, return_exceptions=True)
        self.look()
        self._outside.close()

    def sleep(self) -> None:
        """Look at nothing until `wake_up`: a database that has grown for hours is not to be read at every commit."""
        self._asleep = True

    def wake_up(self) -> None:
        """Look again; what was committed meanwhile comes at once."""
        self._asleep, self._stale = False, True

    def note(self, kind: Kind, **fields: Any) -> None:  # noqa: ANN401 - the fields of Event
        """Record something that the demo itself did or found."""
        self._add(Event(t_ms=self._clock.now_ms(), kind=kind, source="demo", **fields))

    async def until(self, check: Callable[[], T | None], expected: str, patience_s: float) -> T:
        """What `check` returns as soon as it is neither None nor False; it is asked again after every event and commit.

        Raises:
            DidNotCome: it was not within `patience_s`.
        """
        self.look()
        end = self._clock.monotonic_s() + patience_s
        while True:
            found = check()
            if found is not None and found is not False:
                return found
            if not await self._changed(end - self._clock.monotonic_s()):
                raise DidNotCome(expected)

    async def _changed(self, patience_s: float) -> bool:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.append(future)
        try:
            await asyncio.wait_for(future, max(0.0, patience_s))
        except TimeoutError:
            return False
        finally:
            self._waiters.remove(future)
        return True

    def _wake(self) -> None:
        for future in self._waiters:
            if not future.done():
                future.set_result(None)

    def _add(self, event: Event) -> None:
        self.events.append(event)
        if self._file is not None:
            self._file.write(event.to_json() + "\n")
            self._file.flush()
        for listener in self._listeners:
            listener(event)
        self._wake()

    # --- the database --------------------------------------------------------------------------------------------------

    async def _watch(self) -> None:
        while True:
            self.look()
            await self._clock.sleep(_LOOK_S)

    def look(self) -> None:
        """Read what the database has now, if anybody has committed; new journal entries become events."""
        if self._asleep:
            return
        self._stale = self._outside.changed() or self._stale
        view = self._outside.view(self._last_entry) if self._stale else None
        if view is None:
            return
        self._stale = False
        self.rows = view.rows
        for entry in view.entries:
            self._last_entry = entry.id
            self._add(self._database_event(entry))
        self._wake()

    def _database_event(self, entry: Entry) -> Event:
        rows = self.rows
        kind: Kind
        run = session = continuation = message_id = text = None
        author = None
        detail: dict[str, Any] = {"id": entry.entity_id, "before": entry.before, "why": entry.why, "by": entry.by}
        match entry.entity:
            case Entity.CONVERSATION:
                kind = "conversation"
            case Entity.SESSION:
                kind, session = "session", entry.entity_id
            case Entity.PROMPT:
                kind = "prompt"
                prompt = _find(rows.prompts, entry.entity_id)
                run, session, continuation = prompt.run_id, prompt.session_id, prompt.continuation_id
                message_id, text, author = prompt.message_id, prompt.text, prompt.author_name or None
                detail |= {"kind": prompt.kind.value, "source_key": prompt.source_key}
            case Entity.RUN:
                kind, run = "run", entry.entity_id
                row = _find(rows.runs, entry.entity_id)
                session, author = row.session_id, self._name(row.began_by)
                detail |= {"kind": row.kind.value, "prompt_uuid": row.prompt_uuid, "skipped_why": row.skipped_why}
            case Entity.CONTINUATION:
                kind, continuation = "continuation", entry.entity_id
                wait = _find(rows.continuations, entry.entity_id)
                run, session, text, author = wait.origin_run_id, wait.session_id, wait.reason, self._name(wait.began_by)
                detail |= {"due_ms": wait.due_at_ms, "expires_ms": wait.expires_at_ms}
            case Entity.PART:
                kind = "part"
                part = _find(rows.parts, entry.entity_id)
                run, message_id, text = part.run_id, part.message_id, part.text
                detail |= {"kind": part.kind.value, "nonce": part.nonce, "seq": part.seq}
            case _:
                assert_never(entry.entity)
        return Event(
            t_ms=entry.at_ms,
            kind=kind,
            source="database",
            conversation=self._channel_of(entry.conversation_id),
            author=author,
            text=text,
            message_id=None if message_id is None else str(message_id),
            run=run,
            session=self._native_id(session),
            continuation=continuation,
            state=entry.after,
            detail=detail,
        )

    def _native_id(self, session_id: int | None) -> str | None:
        return next((row.native_id for row in self.rows.sessions if row.id == session_id), None)

    def _channel_of(self, conversation_id: int) -> str | None:
        channel = next((row.channel_id for row in self.rows.conversations if row.id == conversation_id), None)
        return self._channel(channel)

    def _channel(self, channel_id: int | None) -> str | None:
        channel = self._discord.world.channels.get(channel_id or 0)
        return channel.name if channel is not None else None

    def _name(self, user_id: int) -> str | None:
        user = self._discord.world.users.get(user_id)
        return user.name if user is not None else None

    # --- the two servers -----------------------------------------------------------------------------------------------

    def _on_discord(self, record: Record) -> None:
        if self._asleep:
            return
        event = self._discord_event(record)
        if event is None:
            self._wake()
            return
        # First what was committed before, so that the order of observing is the order of happening.
        self.look()
        self._add(event)

    def _discord_event(self, record: Record) -> Event | None:
        kind: Kind
        detail: dict[str, Any] = {}
        state = None
        match record.kind:
            case "message.create" | "message.edit" | "message.delete" if record.interaction_id is None:
                kind, state = "message", record.kind.removeprefix("message.")
                detail = {key: record.detail[key] for key in ("silent", "reply_to", "pings") if key in record.detail}
            case "message.create" | "message.edit":
                kind, state = "answer", record.kind.removeprefix("message.")
                detail = {"ephemeral_for": record.detail.get("ephemeral_for"), "embeds": record.detail.get("embeds", [])}
            case "interaction.create" if record.detail.get("type") == "command":
                kind = "command"
            case "reaction.add":
                kind = "reaction"
            case "typing":
                kind = "typing"
            case _:
                return None
        if record.interaction_id is not None:
            detail["interaction"] = str(record.interaction_id)
        return Event(
            t_ms=record.t_ms,
            kind=kind,
            source="discord",
            conversation=self._channel(record.channel_id),
            author=record.author,
            text=record.text,
            message_id=None if record.message_id is None else str(record.message_id),
            state=state,
            detail={**detail, "bot": bool(record.bot), "author_id": str(record.author_id)},
        )

    def _on_model(self, entry: ModelEntry) -> None:
        if self._asleep:
            return
        self.look()
        request = entry.request
        # Which run it is for shows in the rows: C3 is committed before the agent is called.
        session = next((row for row in self.rows.sessions if row.native_id == request.session), None)
        conversation = None if session is None else session.conversation_id
        run = next((row.id for row in self.rows.runs if row.conversation_id == conversation and row.state == "dispatched"), None)
        asked = entry.kind == "request"
        self._add(
            Event(
                t_ms=entry.t_ms,
                kind="request" if asked else "reply",
                source="model",
                conversation=None if conversation is None else self._channel_of(conversation),
                text=request.last_prompt if asked else entry.text,
                run=run,
                session=request.session,
                state=None if asked else entry.kind,
                detail=_asked(request) if asked else {"tools": list(entry.tools), "status": entry.status},
            )
        )


def _asked(request: ModelRequest) -> dict[str, Any]:
    """What a request brings beside its last prompt: the prompts before it, and the results of tools called since."""
    results = [_REMINDER.sub("", " ".join(texts_of(result.get("content")))).strip() for result in request.tool_results]
    # The newest one is what the request is about.
    return {"history": list(request.prompts[:-1]), **({"results": results[-1:]} if results else {})}


def _find(rows: tuple[Any, ...], row_id: int) -> Any:  # noqa: ANN401 - one look-up for all kinds of rows
    return next(row for row in rows if row.id == row_id)
