"""Routes outside of /channels: the bot itself, guilds and members, commands, interactions and their webhooks."""

from __future__ import annotations

from collections.abc import Callable

from . import payloads
from .call import NOTHING, Call, Reply
from .commands import Registry
from .config import Intent
from .errors import ApiError, Code, Json, invalid_form
from .gateway import application_flags
from .interactions import Callback, Interaction, Interactions
from .messages import Messages
from .model import Guild, Message
from .permissions import Permission
from .rest import Route
from .world import World


class OtherRoutes:
    """The handlers."""

    def __init__(
        self, world: World, messages: Messages, registry: Registry, interactions: Interactions, gateway_url: Callable[[], str]
    ) -> None:
        self._world = world
        self._messages = messages
        self._registry = registry
        self._interactions = interactions
        self._gateway_url = gateway_url

    def routes(self) -> list[Route]:
        """All of them."""
        everywhere, in_guild = "/applications/{application_id}/commands", "/applications/{application_id}/guilds/{guild_id}/commands"
        hook = "/webhooks/{webhook_id}/{token}"
        return [
            Route("GET", "/users/@me", self._me),
            Route("GET", "/users/{user_id}", self._user),
            Route("POST", "/users/@me/channels", self._direct),
            Route("GET", "/oauth2/applications/@me", self._application),
            Route("GET", "/applications/@me", self._application),
            Route("GET", "/gateway", self._gateway, open=True),
            Route("GET", "/gateway/bot", self._gateway),
            Route("GET", "/guilds/{guild_id}", self._guild_row),
            Route("GET", "/guilds/{guild_id}/channels", self._channels),
            Route("GET", "/guilds/{guild_id}/roles", self._roles),
            Route("GET", "/guilds/{guild_id}/threads/active", self._active),
            Route("GET", "/guilds/{guild_id}/members", self._members),
            Route("GET", "/guilds/{guild_id}/members/{user_id}", self._member),
            Route("GET", everywhere, self._commands),
            Route("PUT", everywhere, self._sync),
            Route("GET", in_guild, self._commands),
            Route("PUT", in_guild, self._sync),
            Route("POST", "/interactions/{interaction_id}/{token}/callback", self._respond, open=True),
            Route("POST", hook, self._follow_up, open=True),
            Route("GET", hook + "/messages/{message_id}", self._hook_message, open=True),
            Route("PATCH", hook + "/messages/{message_id}", self._hook_edit, open=True),
            Route("DELETE", hook + "/messages/{message_id}", self._hook_delete, open=True),
        ]

    def _shown(self, row: Message) -> Json:
        return payloads.message(row, viewer_id=self._world.bot.id, sees_content=True)

    def _me(self, _call: Call) -> Reply:
        return Reply(payloads.user(self._world.bot) | {"verified": True, "mfa_enabled": False, "email": None, "flags": 0, "bio": ""})

    def _user(self, call: Call) -> Reply:
        row = self._world.users.get(call.id("user_id"))
        if row is None:
            raise ApiError(Code.UNKNOWN_USER)
        return Reply(payloads.user(row))

    def _direct(self, call: Call) -> Reply:
        row = self._world.users.get(int(call.json.get("recipient_id") or 0))
        if row is None or row.id == self._world.bot.id:
            raise ApiError(Code.CANNOT_DM) if row else ApiError(Code.UNKNOWN_USER)
        return Reply(payloads.channel(self._world.direct_channel(self._world.bot, row)))

    def _application(self, _call: Call) -> Reply:
        world = self._world
        return Reply(
            {
                "id": str(world.application_id),
                "name": world.bot.name,
                "icon": None,
                "description": "",
                "bot_public": False,
                "bot_require_code_grant": False,
                "verify_key": "0" * 64,
                "flags": application_flags(world.config.privileged_intents),
                "owner": {"id": "1", "username": "owner", "discriminator": "0", "avatar": None, "global_name": None},
                "team": None,
                "bot": payloads.user(world.bot),
            }
        )

    def _gateway(self, _call: Call) -> Reply:
        limit = {"total": 1000, "remaining": 1000, "reset_after": 0, "max_concurrency": 1}
        return Reply({"url": self._gateway_url(), "shards": 1, "session_start_limit": limit})

    def _guild(self, call: Call) -> Guild:
        guild = self._world.guild(call.id("guild_id"))
        if self._world.bot.id not in guild.members:
            raise ApiError(Code.MISSING_ACCESS)
        return guild

    def _guild_row(self, call: Call) -> Reply:
        guild = self._guild(call)
        counts: Json = {}
        if call.query.get("with_counts") in {"1", "true"}:
            counts = {"approximate_member_count": len(guild.members), "approximate_presence_count": 1}
        return Reply(payloads.guild_summary(guild) | counts)

    def _channels(self, call: Call) -> Reply:
        """All channels, also those the bot may not view, as on the real service; no threads."""
        return Reply([payloads.channel(one) for one in self._guild(call).channels.values() if one.thread is None])

    def _roles(self, call: Call) -> Reply:
        return Reply([payloads.role(one) for one in self._guild(call).roles.values()])

    def _active(self, call: Call) -> Reply:
        world = self._world
        active = [one for one in self._guild(call).channels.values() if one.thread is not None and not one.thread.archived]
        seen = [one for one in active if world.rights(world.bot.id, one) & Permission.VIEW_CHANNEL]
        mine = [one for one in seen if one.thread is not None and world.bot.id in one.thread.member_ids]
        members = [payloads.thread_member(one, world.bot.id) for one in mine]
        return Reply({"threads": [payloads.channel(one) for one in reversed(seen)], "members": members})

    def _members(self, call: Call) -> Reply:
        guild = self._guild(call)
        if not self._world.config.privileged_intents & Intent.GUILD_MEMBERS:
            raise ApiError(Code.MISSING_ACCESS)
        after = call.snowflake("after") or 0
        ids = sorted(one for one in guild.members if one > after)[: call.number("limit", 1, 1, 1000)]
        return Reply([payloads.member(guild.members[one]) for one in ids])

    def _member(self, call: Call) -> Reply:
        member = self._guild(call).members.get(call.id("user_id"))
        if member is None:
            raise ApiError(Code.UNKNOWN_MEMBER if call.id("user_id") in self._world.users else Code.UNKNOWN_USER)
        return Reply(payloads.member(member))

    def _scope(self, call: Call) -> int | None:
        if call.id("application_id") != self._world.application_id:
            raise ApiError(Code.MISSING_ACCESS, message="Missing Access")
        return self._guild(call).id if "guild_id" in call.params else None

    def _commands(self, call: Call) -> Reply:
        return Reply(self._registry.of(self._scope(call)))

    def _sync(self, call: Call) -> Reply:
        scope = self._scope(call)
        if not isinstance(call.body, list):
            raise invalid_form("_errors", "LIST_TYPE_CONVERT", "Only iterables may be used in a ListType")
        rows = self._registry.overwrite(self._world.application_id, scope, call.body)
        self._world.log.append("commands.sync", guild_id=scope, detail={"names": [one["name"] for one in rows]})
        return Reply(rows)

    def _respond(self, call: Call) -> Reply:
        row = self._interactions.respond(call.id("interaction_id"), call.params["token"], call.json, call.files)
        if call.query.get("with_response") not in {"1", "true"}:
            return NOTHING
        return Reply(self._responded(row))

    def _responded(self, row: Interaction) -> Json:
        note: Json = {"id": str(row.id), "type": int(row.type)}
        resource: Json = {"type": int(row.acknowledged_as or 0)}
        shown = row.source if row.acknowledged_as is Callback.UPDATE else row.response
        if shown is not None:
            note |= {
                "response_message_id": str(shown.id),
                "response_message_loading": row.acknowledged_as is Callback.DEFERRED_MESSAGE,
                "response_message_ephemeral": shown.ephemeral,
            }
            resource["message"] = self._shown(shown)
        return {"interaction": note, "resource": resource}

    def _hook(self, call: Call) -> Interaction:
        return self._interactions.by_token(call.id("webhook_id"), call.params["token"])

    def _follow_up(self, call: Call) -> Reply:
        row = self._interactions.follow_up(self._hook(call), call.json, call.files)
        return Reply(self._shown(row)) if call.query.get("wait") in {"1", "true"} else NOTHING

    def _hook_message(self, call: Call) -> Reply:
        return Reply(self._shown(self._interactions.message_of(self._hook(call), call.params["message_id"])))

    def _hook_edit(self, call: Call) -> Reply:
        row = self._interactions.message_of(self._hook(call), call.params["message_id"])
        return Reply(self._shown(self._messages.edit(self._world.bot, row, call.json, files=call.files, via_token=True)))

    def _hook_delete(self, call: Call) -> Reply:
        row = self._interactions.message_of(self._hook(call), call.params["message_id"])
        self._messages.delete(self._world.bot, row, via_token=True)
        return NOTHING
