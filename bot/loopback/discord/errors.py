"""The refusals of Discord's HTTP API: status, JSON error code and message, as the real one words them."""

from __future__ import annotations

from enum import IntEnum
from typing import Any

Json = dict[str, Any]
"""One JSON object."""


class Code(IntEnum):
    """JSON error codes of the API (developer documentation, "Opcodes and Status Codes")."""

    GENERAL = 0
    UNKNOWN_CHANNEL = 10003
    UNKNOWN_GUILD = 10004
    UNKNOWN_MEMBER = 10007
    UNKNOWN_MESSAGE = 10008
    UNKNOWN_USER = 10013
    UNKNOWN_EMOJI = 10014
    UNKNOWN_WEBHOOK = 10015
    UNKNOWN_INTERACTION = 10062
    MAX_REACTIONS = 30010
    TOO_LARGE = 40005
    ALREADY_ACKNOWLEDGED = 40060
    MISSING_ACCESS = 50001
    OTHER_AUTHOR = 50005
    EMPTY_MESSAGE = 50006
    CANNOT_DM = 50007
    MISSING_PERMISSIONS = 50013
    WRONG_CHANNEL_TYPE = 50024
    INVALID_WEBHOOK_TOKEN = 50027
    INVALID_FORM = 50035
    THREAD_ARCHIVED = 50083
    INVALID_JSON = 50109
    NO_REPLY_WITHOUT_HISTORY = 160002
    THREAD_EXISTS = 160004
    THREAD_LOCKED = 160005


_WORDING: dict[Code, tuple[int, str]] = {
    Code.GENERAL: (404, "404: Not Found"),
    Code.UNKNOWN_CHANNEL: (404, "Unknown Channel"),
    Code.UNKNOWN_GUILD: (404, "Unknown Guild"),
    Code.UNKNOWN_MEMBER: (404, "Unknown Member"),
    Code.UNKNOWN_MESSAGE: (404, "Unknown Message"),
    Code.UNKNOWN_USER: (404, "Unknown User"),
    Code.UNKNOWN_EMOJI: (400, "Unknown Emoji"),
    Code.UNKNOWN_WEBHOOK: (404, "Unknown Webhook"),
    Code.UNKNOWN_INTERACTION: (404, "Unknown interaction"),
    Code.MAX_REACTIONS: (400, "Maximum number of reactions reached (20)"),
    Code.TOO_LARGE: (413, "Request entity too large"),
    Code.ALREADY_ACKNOWLEDGED: (400, "Interaction has already been acknowledged."),
    Code.MISSING_ACCESS: (403, "Missing Access"),
    Code.OTHER_AUTHOR: (403, "Cannot edit a message authored by another user"),
    Code.EMPTY_MESSAGE: (400, "Cannot send an empty message"),
    Code.CANNOT_DM: (403, "Cannot send messages to this user"),
    Code.MISSING_PERMISSIONS: (403, "Missing Permissions"),
    Code.WRONG_CHANNEL_TYPE: (400, "Cannot execute action on this channel type"),
    Code.INVALID_WEBHOOK_TOKEN: (401, "Invalid Webhook Token"),
    Code.INVALID_FORM: (400, "Invalid Form Body"),
    Code.THREAD_ARCHIVED: (400, "Thread is archived"),
    Code.INVALID_JSON: (400, "The request body contains invalid JSON."),
    Code.NO_REPLY_WITHOUT_HISTORY: (400, "Cannot reply without permission to read message history"),
    Code.THREAD_EXISTS: (400, "A thread has already been created for this message"),
    Code.THREAD_LOCKED: (400, "Thread is locked"),
}


class ApiError(Exception):
    """The API refused a request; people who act through :mod:`people` meet the same refusals."""

    def __init__(self, code: Code, *, status: int | None = None, message: str | None = None, errors: Json | None = None) -> None:
        default_status, wording = _WORDING[code]
        self.code = code
        self.status = status if status is not None else default_status
        self.message = message if message is not None else wording
        self.errors = errors
        super().__init__(f"{self.status} {int(code)}: {self.message} {errors or ''}".rstrip())

    def body(self) -> Json:
        """The JSON body Discord would send."""
        body: Json = {"message": self.message, "code": int(self.code)}
        if self.errors is not None:
            body["errors"] = self.errors
        return body


def unauthorized() -> ApiError:
    """A missing or wrong bot token."""
    return ApiError(Code.GENERAL, status=401, message="401: Unauthorized")


def not_found() -> ApiError:
    """A route that this server does not have."""
    return ApiError(Code.GENERAL)


def invalid_form(path: str, code: str, message: str) -> ApiError:
    """A 50035 whose error tree names ``path`` (dotted keys and indexes)."""
    tree: Json = {"_errors": [{"code": code, "message": message}]}
    for key in reversed(path.split(".")):
        tree = {key: tree}
    return ApiError(Code.INVALID_FORM, errors=tree)


def too_long(path: str, limit: int) -> ApiError:
    """A text over its maximum number of code points."""
    return invalid_form(path, "BASE_TYPE_MAX_LENGTH", f"Must be {limit} or fewer in length.")


def bad_length(path: str, low: int, high: int) -> ApiError:
    """A text or list outside of its bounds."""
    return invalid_form(path, "BASE_TYPE_BAD_LENGTH", f"Must be between {low} and {high} in length.")


def required(path: str) -> ApiError:
    """A missing field."""
    return invalid_form(path, "BASE_TYPE_REQUIRED", "This field is required")
