"""One HTTP request as routes and faults see it, and what they answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from .errors import Json, invalid_form
from .messages import Upload


@dataclass(slots=True, frozen=True)
class Call:
    """A parsed request. ``path`` and ``template`` are without the ``/api/v10`` prefix; ``body`` is the JSON sent."""

    method: str
    path: str
    template: str
    params: Mapping[str, str]
    query: Mapping[str, str]
    body: Any = None
    files: tuple[Upload, ...] = ()

    @property
    def json(self) -> Json:
        """The body when it is an object, else an empty one."""
        return self.body if isinstance(self.body, dict) else {}

    @property
    def major(self) -> str:
        """The major parameters, which rate limits are counted by."""
        keys = ("channel_id", "guild_id", "webhook_id", "token")
        return "+".join(self.params[key] for key in keys if key in self.params)

    def id(self, name: str) -> int:
        """A path parameter as an id; raises 50035 when it is none."""
        value = self.params[name]
        if not value.isdigit():
            raise invalid_form(name, "NUMBER_TYPE_COERCE", f'Value "{value}" is not snowflake.')
        return int(value)

    def number(self, name: str, default: int, low: int, high: int) -> int:
        """A number from the query within its bounds; raises 50035."""
        text = self.query.get(name)
        if text is None:
            return default
        if not text.isdigit() or not low <= int(text) <= high:
            raise invalid_form(name, "NUMBER_TYPE_MAX", f"int value should be between {low} and {high}.")
        return int(text)

    def snowflake(self, name: str) -> int | None:
        """An id from the query."""
        text = self.query.get(name)
        return None if text is None else int(text)


@dataclass(slots=True, frozen=True)
class Reply:
    """An answer: JSON, or nothing with 204, or ``raw`` bytes of a file."""

    body: Any = None
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    raw: bytes | None = None
    content_type: str = "application/json"


NOTHING = Reply(status=204)
