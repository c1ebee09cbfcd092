"""What a person's client sends: INTERACTION_CREATE for commands, completion, components and modals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from . import commands, payloads
from .commands import CannotInvokeError, Registry
from .components import BUTTON, LABEL, LINK_STYLE, ROW, SELECT, SELECTS, TEXT_INPUT, find, walk
from .errors import Json
from .interactions import Interaction, Interactions, InteractionType
from .model import Channel, Member, Message, Role, User
from .permissions import Permission
from .world import World

OptionValue = str | int | float | bool | User | Member | Channel | Role


class Invoker:
    """Builds interactions the way Discord does, and refuses what a client would not let a person do."""

    def __init__(self, world: World, registry: Registry, interactions: Interactions) -> None:
        self._world = world
        self._registry = registry
        self._interactions = interactions

    def command(self, user: User, channel: Channel, path: str, options: Mapping[str, OptionValue]) -> Interaction:
        """Run a synced slash command, for example ``continuations list``."""
        return self._run(InteractionType.COMMAND, user, channel, path, options, focused=None)

    def complete(self, user: User, channel: Channel, path: str, options: Mapping[str, OptionValue], focused: str) -> Interaction:
        """Ask for completions of the option ``focused``; the other options are what was typed so far."""
        return self._run(InteractionType.AUTOCOMPLETE, user, channel, path, options, focused=focused)

    def _run(
        self,
        kind: InteractionType,
        user: User,
        channel: Channel,
        path: str,
        options: Mapping[str, OptionValue],
        *,
        focused: str | None,
    ) -> Interaction:
        words = path.removeprefix("/").split()
        self._check_reach(user, channel, Permission.USE_APPLICATION_COMMANDS)
        command, chain = self._registry.find(channel.guild.id if channel.guild else None, words)
        specs = {one["name"]: one for one in (chain[-1] if chain else command).get("options") or []}
        resolved: Json = {}
        values = [self._option(specs, name, value, resolved, channel, focused) for name, value in options.items()]
        if focused is None:
            missing = [name for name, spec in specs.items() if spec.get("required") and name not in options]
            if missing:
                message = f"/{path} needs {', '.join(missing)}"
                raise CannotInvokeError(message)
        elif not specs.get(focused, {}).get("autocomplete"):
            message = f"/{path}: {focused!r} does not complete"
            raise CannotInvokeError(message)
        for step in reversed(chain):
            values = [{"name": step["name"], "type": step["type"], "options": values}]
        data: Json = {"id": command["id"], "name": command["name"], "type": command["type"], "options": values}
        if resolved:
            data["resolved"] = resolved
        if command.get("guild_id"):
            data["guild_id"] = command["guild_id"]
        return self._send(kind, user, channel, " ".join(words), data)

    def _option(
        self, specs: Mapping[str, Json], name: str, value: OptionValue, resolved: Json, channel: Channel, focused: str | None
    ) -> Json:
        spec = specs.get(name)
        if spec is None:
            message = f"there is no option {name!r}; there are {', '.join(specs) or 'none'}"
            raise CannotInvokeError(message)
        option: Json = {"name": name, "type": spec["type"]}
        if name == focused:
            return option | {"value": str(value), "focused": True}
        if isinstance(value, User | Member | Channel | Role):
            self._resolve(value, resolved, channel)
            return option | {"value": str(value.id)}
        _check_value(spec, name, value, complete=focused is None)
        return option | {"value": value}

    def _resolve(self, value: User | Member | Channel | Role, resolved: Json, channel: Channel) -> None:
        key = str(value.id)
        if isinstance(value, Role):
            resolved.setdefault("roles", {})[key] = payloads.role(value)
        elif isinstance(value, Channel):
            rights = self._world.rights(self._world.bot.id, value)
            resolved.setdefault("channels", {})[key] = payloads.channel(value) | {"permissions": str(int(rights))}
        else:
            user = value.user if isinstance(value, Member) else value
            resolved.setdefault("users", {})[key] = payloads.user(user)
            member = channel.guild.members.get(user.id) if channel.guild else None
            if member is not None:
                rights = self._world.rights(user.id, channel)
                resolved.setdefault("members", {})[key] = payloads.member(member, with_user=False, permissions=rights)

    def click(self, user: User, message: Message, custom_id_or_label: str) -> Interaction:
        """Press a button."""
        component = self._component(user, message, custom_id_or_label)
        if component["type"] != BUTTON or component.get("style") == LINK_STYLE:
            error = f"{custom_id_or_label!r} is no button that can be pressed"
            raise CannotInvokeError(error)
        data = {"custom_id": component["custom_id"], "component_type": BUTTON, "id": component["id"]}
        return self._send(InteractionType.COMPONENT, user, message.channel, component["custom_id"], data, source=message)

    def select(self, user: User, message: Message, custom_id: str, values: Sequence[str]) -> Interaction:
        """Choose values in a select menu."""
        component = self._component(user, message, custom_id)
        if component["type"] not in SELECTS:
            error = f"{custom_id!r} is no select menu"
            raise CannotInvokeError(error)
        offered = {one["value"] for one in component.get("options") or []}
        low, high = component.get("min_values", 1), component.get("max_values", 1)
        if not low <= len(values) <= high or (component["type"] == SELECT and not set(values) <= offered):
            error = f"{custom_id!r} takes {low} to {high} of {sorted(offered)}"
            raise CannotInvokeError(error)
        data: Json = {"custom_id": custom_id, "component_type": component["type"], "id": component["id"], "values": list(values)}
        if component["type"] != SELECT:
            data["resolved"] = self._resolved_ids(values, message.channel)
        return self._send(InteractionType.COMPONENT, user, message.channel, custom_id, data, source=message)

    def _resolved_ids(self, values: Sequence[str], channel: Channel) -> Json:
        resolved: Json = {}
        for value in values:
            key = int(value)
            roles = channel.guild.roles if channel.guild else {}
            row = self._world.channels.get(key) or roles.get(key) or self._world.users.get(key)
            if row is not None:
                self._resolve(row, resolved, channel)
        return resolved

    def submit(self, user: User, opener: Interaction, values: Mapping[str, str | Sequence[str]]) -> Interaction:
        """Fill in the modal that ``opener`` got; fields are named by custom id."""
        modal = opener.modal
        if modal is None:
            error = f"{opener.name!r} opened no modal"
            raise CannotInvokeError(error)
        fields = {one["custom_id"] for one in walk(modal["components"]) if one.get("custom_id")}
        unknown = set(values) - fields
        if unknown:
            error = f"the modal has no field {sorted(unknown)}; it has {sorted(fields)}"
            raise CannotInvokeError(error)
        filled = [_filled(one, values) for one in modal["components"]]
        data = {"custom_id": modal["custom_id"], "components": filled}
        return self._send(InteractionType.MODAL, user, opener.channel, modal["custom_id"], data, source=opener.source)

    def _component(self, user: User, message: Message, custom_id_or_label: str) -> Json:
        self._check_reach(user, message.channel)
        if message.deleted or (message.ephemeral_for is not None and message.ephemeral_for != user.id):
            error = f"{user.name} cannot see message {message.id}"
            raise CannotInvokeError(error)
        component = find(message.components, custom_id_or_label)
        if component is None:
            there = [one.get("custom_id") or one.get("label") for one in walk(message.components) if one["type"] != ROW]
            error = f"message {message.id} has no {custom_id_or_label!r}; it has {there}"
            raise CannotInvokeError(error)
        if component.get("disabled"):
            error = f"{custom_id_or_label!r} is disabled"
            raise CannotInvokeError(error)
        return component

    def _check_reach(self, user: User, channel: Channel, *needed: Permission) -> None:
        rights = self._world.rights(user.id, channel)
        for one in (Permission.VIEW_CHANNEL, *needed):
            if not rights & one:
                error = f"{user.name} lacks {one.name} in {channel.name or 'this DM'}"
                raise CannotInvokeError(error)

    def _send(
        self, kind: InteractionType, user: User, channel: Channel, name: str, data: Json, *, source: Message | None = None
    ) -> Interaction:
        world = self._world
        row = self._interactions.begin(kind, user, channel, name, source=source)
        rights = world.rights(user.id, channel)
        bot_rights = world.rights(world.bot.id, channel)
        event: Json = {
            "id": str(row.id),
            "application_id": str(world.application_id),
            "type": int(kind),
            "token": row.token,
            "version": 1,
            "data": data,
            "channel_id": str(channel.id),
            "channel": payloads.channel(channel) | {"permissions": str(int(rights))},
            "app_permissions": str(int(bot_rights)),
            "locale": "en-US",
            "entitlements": [],
            "attachment_size_limit": world.config.max_attachment_bytes,
        }
        if channel.guild is not None:
            guild = channel.guild
            event |= {
                "guild_id": str(guild.id),
                "guild": {"id": str(guild.id), "locale": "en-US", "features": []},
                "guild_locale": "en-US",
                "member": payloads.member(guild.members[user.id], permissions=rights),
                "authorizing_integration_owners": {"0": str(guild.id)},
                "context": 0,
            }
        else:
            event |= {"user": payloads.user(user), "authorizing_integration_owners": {"0": "0"}, "context": 1}
        if source is not None:
            event["message"] = payloads.message(source, viewer_id=world.bot.id, sees_content=True)
        # Interactions need no intent and reach the application even where its bot cannot look.
        world.emit("INTERACTION_CREATE", event)
        return row


def _check_value(spec: Json, name: str, value: OptionValue, *, complete: bool) -> None:
    kind = spec["type"]
    if kind == commands.STRING:
        good = isinstance(value, str) and spec.get("min_length", 0) <= len(value) <= spec.get("max_length", 6000)
    elif kind == commands.BOOLEAN:
        good = isinstance(value, bool)
    elif kind in {commands.INTEGER, commands.NUMBER}:
        numeric = int if kind == commands.INTEGER else (int, float)
        good = isinstance(value, numeric) and not isinstance(value, bool)
        low, high = spec.get("min_value"), spec.get("max_value")
        if good and isinstance(value, int | float):
            good = (low is None or value >= low) and (high is None or value <= high)
    else:
        good = False
    choices = [one["value"] for one in spec.get("choices") or []]
    if choices and value not in choices:
        good = False
    if complete and not good:
        message = f"option {name!r} does not take {value!r}"
        raise CannotInvokeError(message)


def _filled(component: Json, values: Mapping[str, str | Sequence[str]]) -> Json:
    kind = component["type"]
    if kind == ROW:
        return {"type": ROW, "id": 0, "components": [_filled(one, values) for one in component["components"]]}
    if kind == LABEL:
        return {"type": LABEL, "id": 0, "component": _filled(component["component"], values)}
    row: Json = {"type": kind, "id": component.get("id", 0)}
    if "custom_id" not in component:
        return row
    row["custom_id"] = component["custom_id"]
    value = values.get(component["custom_id"])
    if kind == TEXT_INPUT:
        text = value if isinstance(value, str) else component.get("value") or ""
        low, high = component.get("min_length") or 0, component.get("max_length") or 4000
        needed = component.get("required", True)
        if (needed and not text) or (text and not low <= len(text) <= high):
            message = f"field {component['custom_id']!r} takes {low} to {high} characters"
            raise CannotInvokeError(message)
        return row | {"value": text}
    return row | {"values": list(value or [])}
