"""Interactions from birth to the end of their token: the deadline to acknowledge, the one response, the followups."""

from __future__ import annotations

import asyncio
import secrets
from dataclasses import dataclass, field
from enum import IntEnum
from functools import partial

from .commands import check_choices
from .components import check_modal
from .errors import ApiError, Code, Json, invalid_form
from .log import EventLog, Record
from .messages import Messages, Upload, Via
from .model import Channel, Message, MessageFlag, MessageType, Origin, User
from .world import World


class InteractionType(IntEnum):
    """What a person did (developer documentation, "Interaction Type")."""

    COMMAND = 2
    COMPONENT = 3
    AUTOCOMPLETE = 4
    MODAL = 5


class Callback(IntEnum):
    """How the application answers (developer documentation, "Interaction Callback Type")."""

    MESSAGE = 4
    DEFERRED_MESSAGE = 5
    DEFERRED_UPDATE = 6
    UPDATE = 7
    CHOICES = 8
    MODAL = 9


_UPDATES = frozenset({Callback.DEFERRED_UPDATE, Callback.UPDATE})
_MESSAGES = frozenset({Callback.MESSAGE, Callback.DEFERRED_MESSAGE})


class DidNotRespondError(AssertionError):
    """The application did not acknowledge in time: the person sees "The application did not respond"."""


@dataclass(slots=True, eq=False)
class Interaction:
    """One interaction; also the handle by which whoever caused it waits for what he will see."""

    id: int
    type: InteractionType
    user: User
    channel: Channel
    name: str
    born: float
    log: EventLog
    source: Message | None = None
    token: str = field(default_factory=lambda: secrets.token_urlsafe(48))
    acknowledged_as: Callback | None = None
    expired: bool = False
    response: Message | None = None
    followups: list[Message] = field(default_factory=list)
    choices: list[Json] | None = None
    modal: Json | None = None

    def _mine(self, record: Record) -> bool:
        return record.interaction_id == self.id and record.kind in {"interaction.ack", "interaction.expired"}

    async def acknowledged(self, *, timeout_s: float = 10.0) -> Callback:
        """Wait for the acknowledgement. Raises :class:`DidNotRespondError` when its deadline passes."""
        await self.log.wait_for(self._mine, timeout_s=timeout_s)
        if self.acknowledged_as is None:
            message = f"the application did not respond to {self.type.name.lower()} {self.name!r}"
            raise DidNotRespondError(message)
        return self.acknowledged_as

    async def answer(self, *, timeout_s: float = 10.0) -> Message:
        """Wait for the message that the person sees as the answer, past "is thinking".

        For an update of the message whose component was used, this is that message.
        """
        await self.acknowledged(timeout_s=timeout_s)
        shown = self.response if self.response is not None else self.source
        if shown is None:
            message = f"{self.name!r} was answered without a message"
            raise DidNotRespondError(message)
        await self.log.wait_for(lambda _: not shown.flags & MessageFlag.LOADING, timeout_s=timeout_s)
        return shown

    async def followup(self, index: int = 0, *, timeout_s: float = 10.0) -> Message:
        """Wait for a followup, by its position."""
        await self.log.wait_for(lambda _: len(self.followups) > index, timeout_s=timeout_s)
        return self.followups[index]

    async def opened_modal(self, *, timeout_s: float = 10.0) -> Json:
        """Wait for the modal that the application opens."""
        await self.acknowledged(timeout_s=timeout_s)
        if self.modal is None:
            message = f"{self.name!r} opened no modal"
            raise DidNotRespondError(message)
        return self.modal

    def allowed(self) -> frozenset[Callback]:
        """The callback types that fit."""
        if self.type is InteractionType.AUTOCOMPLETE:
            return frozenset({Callback.CHOICES})
        if self.type is InteractionType.COMMAND:
            return _MESSAGES | {Callback.MODAL}
        if self.type is InteractionType.COMPONENT:
            return _MESSAGES | _UPDATES | {Callback.MODAL}
        return _MESSAGES | _UPDATES if self.source is not None else _MESSAGES


class Interactions:
    """All interactions of the application, by id and by token."""

    def __init__(self, world: World, messages: Messages) -> None:
        self._world = world
        self._messages = messages
        self._by_id: dict[int, Interaction] = {}
        self._by_token: dict[str, Interaction] = {}
        self._timers: dict[int, asyncio.TimerHandle] = {}
        world.clock.on_advance(self.check_deadlines)

    def begin(self, kind: InteractionType, user: User, channel: Channel, name: str, *, source: Message | None = None) -> Interaction:
        """Start the clock of a new interaction; the caller emits INTERACTION_CREATE."""
        world = self._world
        row = Interaction(world.ids.next(), kind, user, channel, name, world.clock.monotonic_s(), world.log, source)
        self._by_id[row.id] = self._by_token[row.token] = row
        # A hair later than the deadline, so that the timer finds it passed.
        delay = world.config.ack_s + 0.001
        self._timers[row.id] = asyncio.get_running_loop().call_later(delay, partial(self._expire, row))
        world.log.append(
            "interaction.create",
            guild_id=channel.guild.id if channel.guild else None,
            channel_id=channel.id,
            message_id=source.id if source else None,
            interaction_id=row.id,
            author_id=user.id,
            author=user.name,
            bot=user.bot,
            text=name,
            detail={"type": kind.name.lower()},
        )
        return row

    def check_deadlines(self) -> None:
        """Expire what the clock has passed."""
        for row in tuple(self._by_id.values()):
            self._expire(row)

    def _expire(self, row: Interaction) -> None:
        if row.acknowledged_as is None and not row.expired and self._world.clock.monotonic_s() - row.born > self._world.config.ack_s:
            row.expired = True
            self._world.log.append("interaction.expired", interaction_id=row.id, channel_id=row.channel.id, text=row.name)
        if row.acknowledged_as is not None or row.expired:
            timer = self._timers.pop(row.id, None)
            if timer is not None:
                timer.cancel()

    def respond(self, interaction_id: int, token: str, body: Json, files: tuple[Upload, ...]) -> Interaction:
        """POST …/callback: the one response. Raises 10062 when unknown or late, 40060 for a second one."""
        row = self._by_id.get(interaction_id)
        if row is None or row.token != token:
            raise ApiError(Code.UNKNOWN_INTERACTION)
        if row.acknowledged_as is not None:
            raise ApiError(Code.ALREADY_ACKNOWLEDGED)
        self._expire(row)
        if row.expired:
            raise ApiError(Code.UNKNOWN_INTERACTION)
        kind = body.get("type")
        if kind not in row.allowed():
            names = ", ".join(str(int(one)) for one in sorted(row.allowed()))
            raise invalid_form("type", "BASE_TYPE_CHOICES", f"Value must be one of {{{names}}}.")
        callback = Callback(kind)
        self._apply(row, callback, body.get("data") or {}, files)
        row.acknowledged_as = callback
        self._expire(row)
        self._world.log.append(
            "interaction.ack",
            interaction_id=row.id,
            channel_id=row.channel.id,
            message_id=row.response.id if row.response else None,
            text=row.name,
            detail={
                "callback": callback.name.lower(),
                "after_ms": round((self._world.clock.monotonic_s() - row.born) * 1000),
                "ephemeral": bool(row.response and row.response.ephemeral),
            },
        )
        return row

    def _apply(self, row: Interaction, callback: Callback, data: Json, files: tuple[Upload, ...]) -> None:
        if callback is Callback.CHOICES:
            choices = data.get("choices") or []
            check_choices(choices, "data.choices")
            row.choices = choices
        elif callback is Callback.MODAL:
            check_modal(data)
            row.modal = data
        elif callback is Callback.UPDATE and row.source is not None:
            self._messages.edit(self._world.bot, row.source, data, files=files, via_token=True)
        elif callback is Callback.MESSAGE:
            row.response = self._post(row, data, files, MessageFlag.NONE)
        elif callback is Callback.DEFERRED_MESSAGE:
            row.response = self._post(row, data, files, MessageFlag.LOADING)

    def _post(self, row: Interaction, data: Json, files: tuple[Upload, ...], flags: MessageFlag) -> Message:
        ephemeral = bool(int(data.get("flags") or 0) & MessageFlag.EPHEMERAL)
        kind = MessageType.CHAT_INPUT_COMMAND if row.type is InteractionType.COMMAND else None
        if row.source is not None:
            data = data | {"message_reference": {"message_id": str(row.source.id), "fail_if_not_exists": False}}
        via = Via(
            origin=Origin(row.id, int(row.type), row.user, row.name),
            ephemeral_for=row.user.id if ephemeral else None,
            type=kind,
            flags=flags | (MessageFlag.EPHEMERAL if ephemeral else MessageFlag.NONE),
        )
        return self._messages.post(self._world.bot, row.channel, data, files=files, via=via)

    # --- the token, as a webhook -----------------------------------------------------------------------------------

    def by_token(self, application_id: int, token: str) -> Interaction:
        """The acknowledged interaction of a token; 10015 when unknown, 50027 once its 15 minutes are over."""
        row = self._by_token.get(token)
        if row is None or application_id != self._world.application_id or row.acknowledged_as is None:
            raise ApiError(Code.UNKNOWN_WEBHOOK)
        if self._world.clock.monotonic_s() - row.born > self._world.config.token_s:
            raise ApiError(Code.INVALID_WEBHOOK_TOKEN)
        return row

    def follow_up(self, row: Interaction, body: Json, files: tuple[Upload, ...]) -> Message:
        """POST a followup; while the answer is still "thinking" this fills it in instead, as on the real service."""
        if row.response is not None and row.response.flags & MessageFlag.LOADING:
            return self._messages.edit(self._world.bot, row.response, body, files=files, via_token=True)
        message = self._post(row, body, files, MessageFlag.NONE)
        row.followups.append(message)
        self._world.log.append("interaction.followup", interaction_id=row.id, message_id=message.id, text=message.content)
        return message

    def message_of(self, row: Interaction, which: str) -> Message:
        """The message that ``@original`` or an id names under this token; raises 10008."""
        if which == "@original":
            found = row.response if row.response is not None else row.source
        else:
            mine = [one for one in (row.response, *row.followups) if one is not None]
            found = next((one for one in mine if str(one.id) == which), None)
        if found is None or found.deleted:
            raise ApiError(Code.UNKNOWN_MESSAGE)
        return found

    def aclose(self) -> None:
        """Cancel the deadlines."""
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
