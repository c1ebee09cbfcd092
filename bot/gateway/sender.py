"""Posts to Discord and reads back: the runtime's `Chat`, with every outcome of discord.py named."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from http import HTTPStatus
from typing import Any, Final

import aiohttp
import discord
import structlog
from discord.http import MultipartParameters

from bot.gateway import render
from bot.gateway.attempts import Attempt, current_attempt
from bot.gateway.readable import may_read_back
from bot.masking import Masker
from bot.runtime.ports import OutcomeUnknown, Paused, Posted, Rejected, SendResult, Sent, Wait
from storage.guard import refuse_in_transaction
from storage.models import Part, PartKind

log = structlog.get_logger(__name__)

#: What the eyes, a typing sign and a look into the history may take.
_SMALL_DEADLINE_S: Final = 20.0
_HISTORY_DEADLINE_S: Final = 60.0
#: Pause after a ban of our address by Discord's edge, which names none.
_EDGE_PAUSE_S: Final = 60.0
#: Pause after a deadline that passed while discord.py held the request back for a rate limit.
_HELD_PAUSE_S: Final = 1.0
_EYES: Final = "👀"
#: Message flag that keeps a message from notifying anybody (developer docs, Message Flags).
_SUPPRESS_NOTIFICATIONS: Final = 1 << 12
_BUTTON_STYLES: Final = {"primary": 1, "secondary": 2, "success": 3, "danger": 4}
_LABEL_LIMIT: Final = 80
_ROW_LIMIT: Final = 5

#: JSON error codes (developer docs, Opcodes and Status Codes).
_UNKNOWN_CHANNEL: Final = 10003
_UNKNOWN_MESSAGE: Final = 10008
_MISSING_ACCESS: Final = 50001
_CANNOT_DM: Final = 50007
_MISSING_PERMISSIONS: Final = 50013
_ARCHIVED: Final = 50083
_LOCKED: Final = 160005
#: A reply needs the permission to read the channel's history.
_NO_REPLY: Final = 160002
#: "Your access was blocked": Discord's edge, not the channel (seen as 403 with this code).
_BLOCKED_BY_EDGE: Final = 40333

#: What a request can raise beside discord.py's own errors, see the table of its retries in docs/facts.
NETWORK_ERRORS: Final = (aiohttp.ClientError, OSError, TimeoutError)


class Sender:
    """See `bot.runtime.ports.Chat`. The client may be replaced under it at any time; without one it is paused."""

    def __init__(self, client: Callable[[], discord.Client | None], mask: Masker) -> None:
        self._client = client
        self._mask = mask
        self._small: set[asyncio.Task[None]] = set()

    @property
    def ready(self) -> bool:
        """See `Chat.ready`: logged in. A gateway that is away does not stop REST, and each attempt finds out for itself."""
        client = self._client()
        return client is not None and client.user is not None and not client.is_closed()

    async def send(self, part: Part, deadline_s: float) -> SendResult:
        """See `Chat.send`. A crash meanwhile: the part is in `sending`, and its nonce tells on the next try."""
        refuse_in_transaction("posting to Discord")
        client = self._client()
        if client is None or not self.ready:
            return Paused("not connected to Discord")
        attempt = Attempt()
        token = current_attempt.set(attempt)
        try:
            async with asyncio.timeout(deadline_s):
                data: Any = await self._post(client, part)
        except TimeoutError:
            return OutcomeUnknown("no answer in time") if attempt.maybe_done else Wait(_HELD_PAUSE_S)
        except discord.DiscordException as error:
            return self._refusal(error, attempt, part.channel_id)
        except (aiohttp.ClientError, OSError) as error:
            if attempt.maybe_done:
                return OutcomeUnknown(f"the connection broke ({type(error).__name__})")
            return Paused("Discord cannot be reached")
        except RuntimeError:
            # aiohttp's "Session is closed": the client went away under us. Anything else is a fault of the program.
            if not client.is_closed():
                raise
            return OutcomeUnknown("the connection was closed") if attempt.maybe_done else Paused("not connected to Discord")
        finally:
            current_attempt.reset(token)
        if not isinstance(data, dict) or "id" not in data:
            return OutcomeUnknown("an answer that is not a message")
        return Sent(int(data["id"]))

    async def _post(self, client: discord.Client, part: Part) -> object:
        body = self.payload(part)
        try:
            return await client.http.send_message(part.channel_id, params=MultipartParameters(body, None, None))
        except discord.HTTPException as error:
            if error.code != _NO_REPLY or body.pop("message_reference", None) is None:
                raise
            # Refused as a whole, so it is not there: the words matter more than what they answer.
            return await client.http.send_message(part.channel_id, params=MultipartParameters(body, None, None))

    def payload(self, part: Part) -> dict[str, Any]:
        """The request's body: discord.py's `send` cannot carry stored components without a live view."""
        body: dict[str, Any] = {
            # A mask may be longer than a very short secret.
            "content": self._mask(part.text)[: render.MESSAGE_LIMIT],
            "nonce": part.nonce,
            "enforce_nonce": True,
            "tts": False,
            "allowed_mentions": {"parse": [], "replied_user": False},
        }
        if part.kind is PartKind.NARRATION:
            body["flags"] = _SUPPRESS_NOTIFICATIONS
        if part.reply_to_id is not None:
            body["message_reference"] = {"message_id": str(part.reply_to_id), "fail_if_not_exists": False}
        if part.components is not None:
            body["components"] = components(part.components)
        return body

    def _refusal(self, error: discord.DiscordException, attempt: Attempt, channel_id: int) -> SendResult:
        """What an error of discord.py says about the message."""
        if isinstance(error, discord.RateLimited):
            # Its answer was 429, but an earlier try of the same call may have gone through.
            return OutcomeUnknown("rate limited after a server error") if attempt.maybe_done else Wait(error.retry_after)
        if not isinstance(error, discord.HTTPException):
            return OutcomeUnknown(f"{type(error).__name__}")
        if error.code == _UNKNOWN_MESSAGE:
            # For a nonce that Discord knows: it was delivered, and somebody has deleted it.
            return Sent(0)
        if error.status == HTTPStatus.UNAUTHORIZED:
            return Paused("Discord refuses the bot's token")
        if error.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            return OutcomeUnknown(f"Discord answered {error.status}")
        page_not_json = error.code == 0 and error.status == HTTPStatus.FORBIDDEN
        if error.status == HTTPStatus.TOO_MANY_REQUESTS or error.code == _BLOCKED_BY_EDGE or page_not_json:
            return OutcomeUnknown(f"Discord answered {error.status}") if attempt.maybe_done else Wait(_EDGE_PAUSE_S)
        return Rejected(self._why(error, channel_id))

    def _never(self, error: BaseException, channel_id: int) -> Rejected | None:
        """Whether reading is refused for good: by Discord itself (its errors have a code), not by a page in front of it."""
        if not isinstance(error, discord.Forbidden | discord.NotFound) or error.code in {0, _BLOCKED_BY_EDGE}:
            return None
        return Rejected(self._why(error, channel_id))

    def _why(self, error: discord.HTTPException, channel_id: int) -> str:
        name = self.channel_name(channel_id)
        sentences = {
            _UNKNOWN_CHANNEL: f"{name} does not exist any more",
            _MISSING_ACCESS: f"no access to {name}",
            _MISSING_PERMISSIONS: f"missing permission in {name}",
            _CANNOT_DM: f"{name} does not take direct messages",
            _ARCHIVED: f"{name} is archived",
            _LOCKED: f"{name} is locked",
        }
        return sentences.get(error.code, f"Discord refuses it in {name}: {self._mask(error.text)[:200]} ({error.status}, {error.code})")

    async def history(self, channel_id: int, after_id: int, after_ms: int = 0) -> tuple[Posted, ...] | Rejected | None:
        """See `Chat.history`."""
        refuse_in_transaction("reading a channel")
        client = self._client()
        if client is None or client.user is None or not self.ready:
            return None
        me = client.user.id
        # One less: a message of that very millisecond counts.
        after = discord.Object(after_id or max(0, snowflake_of(after_ms) - 1))
        found: list[Posted] = []
        try:
            async with asyncio.timeout(_HISTORY_DEADLINE_S):
                if not await may_read_back(client, channel_id):
                    log.warning("discord.history_unread", channel=channel_id, error="the bot may not read its history")
                    return None
                async for message in client.get_partial_messageable(channel_id).history(after=after, limit=None, oldest_first=True):
                    if message.author.id == me:
                        replied = message.reference.message_id if message.reference is not None else None
                        found.append(Posted(message.id, message.content, replied, ms_of(message.id)))
        except (discord.DiscordException, *NETWORK_ERRORS) as error:
            log.warning("discord.history_unread", channel=channel_id, error=repr(error))
            return self._never(error, channel_id)
        return tuple(found)

    async def typing(self, channel_id: int) -> None:
        """See `Chat.typing`."""
        client = self._client()
        if client is not None and self.ready:
            self._in_background("typing", lambda: client.http.send_typing(channel_id), channel_id)

    async def seen(self, channel_id: int, message_id: int) -> None:
        """See `Chat.seen`."""
        client = self._client()
        if client is not None and self.ready:
            self._in_background("eyes", lambda: client.http.add_reaction(channel_id, message_id, _EYES), channel_id)

    def _in_background(self, what: str, call: Callable[[], Any], channel_id: int) -> None:
        """What is only a courtesy holds nobody up: reactions are limited to about four a second for each channel."""

        async def act() -> None:
            try:
                async with asyncio.timeout(_SMALL_DEADLINE_S):
                    await call()
            except (discord.DiscordException, *NETWORK_ERRORS, RuntimeError) as error:
                log.debug("discord.courtesy_failed", what=what, channel=channel_id, error=repr(error))

        task = asyncio.create_task(act(), name=f"discord-{what}")
        self._small.add(task)
        task.add_done_callback(self._small.discard)

    def split(self, text: str) -> list[str]:
        """See `Chat.split`. Masked here, so that what is stored is what will stand in the history it is looked for in."""
        return render.split(self._mask(text))

    def channel_name(self, channel_id: int) -> str:
        """See `Chat.channel_name`."""
        client = self._client()
        channel = None if client is None else client.get_channel(channel_id)
        if isinstance(channel, discord.DMChannel):
            return "the direct messages"
        name = getattr(channel, "name", None)
        return f"#{name}" if name else f"channel {channel_id}"

    async def aclose(self) -> None:
        """End what still runs in the background."""
        tasks = tuple(self._small)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def components(stored: str) -> list[dict[str, Any]]:
    """Discord's component rows from the JSON that a notice keeps: `[{"label", "style", "custom_id"}, …]`."""
    buttons = [
        {
            "type": 2,
            "style": _BUTTON_STYLES[button.get("style", "secondary")],
            "label": button["label"][:_LABEL_LIMIT],
            "custom_id": button["custom_id"],
        }
        for button in json.loads(stored)
    ]
    return [{"type": 1, "components": buttons[at : at + _ROW_LIMIT]} for at in range(0, len(buttons), _ROW_LIMIT)]


def ms_of(snowflake: int) -> int:
    """When an id was made: integer milliseconds UTC (developer docs, Snowflakes)."""
    return (snowflake >> 22) + discord.utils.DISCORD_EPOCH


def snowflake_of(ms: int) -> int:
    """The smallest id of that millisecond."""
    return max(0, ms - discord.utils.DISCORD_EPOCH) << 22
