"""Routes under /channels: messages and their history, reactions, typing, threads."""

from __future__ import annotations

from itertools import islice

from . import payloads, places
from .call import NOTHING, Call, Reply
from .config import Intent
from .errors import ApiError, Code, Json, invalid_form
from .messages import Messages
from .model import Channel, Message, User
from .permissions import Permission
from .rest import Route
from .world import World


class ChannelRoutes:
    """The handlers."""

    def __init__(self, world: World, messages: Messages) -> None:
        self._world = world
        self._messages = messages

    def routes(self) -> list[Route]:
        """All of them."""
        channel, message = "/channels/{channel_id}", "/channels/{channel_id}/messages/{message_id}"
        reaction = message + "/reactions/{emoji}"
        return [
            Route("GET", channel, self._get),
            Route("PATCH", channel, self._modify),
            Route("DELETE", channel, self._delete),
            Route("POST", channel + "/typing", self._typing),
            Route("GET", channel + "/messages", self._history),
            Route("POST", channel + "/messages", self._post),
            Route("GET", message, self._message),
            Route("PATCH", message, self._edit),
            Route("DELETE", message, self._delete_message),
            Route("PUT", reaction + "/@me", self._react),
            Route("DELETE", reaction + "/@me", self._unreact),
            Route("DELETE", reaction + "/{user_id}", self._unreact),
            Route("GET", reaction, self._reactors),
            Route("POST", message + "/threads", self._thread_on),
            Route("POST", channel + "/threads", self._thread),
            Route("PUT", channel + "/thread-members/@me", self._join),
            Route("DELETE", channel + "/thread-members/@me", self._leave),
            Route("GET", channel + "/threads/archived/public", self._archived),
        ]

    def _channel(self, call: Call, *needed: Permission) -> Channel:
        channel = self._world.channel(call.id("channel_id"))
        self._world.require(self._world.bot.id, channel, *needed)
        return channel

    def _row(self, call: Call) -> Message:
        return self._world.message(self._channel(call), call.id("message_id"))

    def _shown(self, row: Message) -> Json:
        sees = bool(self._world.config.privileged_intents & Intent.MESSAGE_CONTENT)
        return payloads.message(row, viewer_id=self._world.bot.id, sees_content=sees)

    def _get(self, call: Call) -> Reply:
        return Reply(payloads.channel(self._channel(call)))

    def _modify(self, call: Call) -> Reply:
        return Reply(payloads.channel(places.modify(self._world, self._world.bot, self._channel(call), call.json)))

    def _delete(self, call: Call) -> Reply:
        channel = self._channel(call)
        places.delete(self._world, self._world.bot, channel)
        return Reply(payloads.channel(channel))

    def _typing(self, call: Call) -> Reply:
        self._messages.typing(self._world.bot, self._channel(call))
        return NOTHING

    def _post(self, call: Call) -> Reply:
        row = self._messages.post(self._world.bot, self._channel(call), call.json, files=call.files)
        data = self._shown(row)
        if row.nonce is not None:
            data["nonce"] = row.nonce
        return Reply(data)

    def _history(self, call: Call) -> Reply:
        """Newest first, also with ``after`` and ``around``; the nonce is not part of history."""
        channel = self._channel(call)
        limit = call.number("limit", 50, 1, 100)
        if not self._world.rights(self._world.bot.id, channel) & Permission.READ_MESSAGE_HISTORY:
            return Reply([])
        ids = sorted(channel.messages)
        before, after, around = (call.snowflake(key) for key in ("before", "after", "around"))
        if sum(one is not None for one in (before, after, around)) > 1:
            raise invalid_form("before", "BASE_TYPE_CHOICES", "before, after and around are mutually exclusive.")
        if after is not None:
            chosen = list(islice((one for one in ids if one > after), limit))
        elif around is not None:
            older = [one for one in ids if one < around][-(limit // 2) :] if limit > 1 else []
            chosen = older + [one for one in ids if one >= around][: limit - len(older)]
        else:
            chosen = [one for one in ids if before is None or one < before][-limit:]
        return Reply([self._shown(channel.messages[one]) for one in reversed(chosen)])

    def _message(self, call: Call) -> Reply:
        channel = self._channel(call, Permission.READ_MESSAGE_HISTORY)
        return Reply(self._shown(self._world.message(channel, call.id("message_id"))))

    def _edit(self, call: Call) -> Reply:
        return Reply(self._shown(self._messages.edit(self._world.bot, self._row(call), call.json, files=call.files)))

    def _delete_message(self, call: Call) -> Reply:
        self._messages.delete(self._world.bot, self._row(call))
        return NOTHING

    def _react(self, call: Call) -> Reply:
        self._messages.react(self._world.bot, self._row(call), call.params["emoji"])
        return NOTHING

    def _unreact(self, call: Call) -> Reply:
        of: User | None = None
        if "user_id" in call.params:
            of = self._world.users.get(call.id("user_id"))
            if of is None:
                raise ApiError(Code.UNKNOWN_USER)
        self._messages.unreact(self._world.bot, self._row(call), call.params["emoji"], of=of)
        return NOTHING

    def _reactors(self, call: Call) -> Reply:
        users = self._row(call).reactions.get(call.params["emoji"], [])
        return Reply([payloads.user(self._world.users[one]) for one in users])

    def _thread_on(self, call: Call) -> Reply:
        row = self._row(call)
        return Reply(payloads.channel(places.open_thread(self._world, self._world.bot, row.channel, call.json, start=row)), status=201)

    def _thread(self, call: Call) -> Reply:
        return Reply(payloads.channel(places.open_thread(self._world, self._world.bot, self._channel(call), call.json)), status=201)

    def _join(self, call: Call) -> Reply:
        return self._membership(call, joins=True)

    def _leave(self, call: Call) -> Reply:
        return self._membership(call, joins=False)

    def _membership(self, call: Call, *, joins: bool) -> Reply:
        channel = self._channel(call)
        if channel.thread is None:
            raise ApiError(Code.WRONG_CHANNEL_TYPE)
        places.refuse_archived(channel)
        if joins:
            channel.thread.member_ids.add(self._world.bot.id)
        else:
            channel.thread.member_ids.discard(self._world.bot.id)
        return NOTHING

    def _archived(self, call: Call) -> Reply:
        parent = self._channel(call, Permission.READ_MESSAGE_HISTORY)
        threads = [one for one in self._world.channels.values() if one.parent is parent and one.thread and one.thread.archived]
        threads.sort(key=lambda one: one.thread.changed_ms if one.thread else 0, reverse=True)
        return Reply({"threads": [payloads.channel(one) for one in threads], "members": [], "has_more": False})
