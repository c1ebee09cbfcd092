"""What Discord refuses in the body of a message: lengths, counts and combinations; lengths are in code points."""

from __future__ import annotations

from .components import check_components
from .errors import ApiError, Code, Json, bad_length, invalid_form, required, too_long
from .model import MessageFlag

CONTENT_MAX = 2000
NITRO_CONTENT_MAX = 4000
NONCE_MAX = 25
EMBEDS_MAX = 10
EMBED_TOTAL_MAX = 6000
EMBED_FIELDS_MAX = 25
ATTACHMENTS_MAX = 10
MENTION_IDS_MAX = 100
SETTABLE_FLAGS = MessageFlag.SUPPRESS_EMBEDS | MessageFlag.SUPPRESS_NOTIFICATIONS | MessageFlag.COMPONENTS_V2
EMBED_TEXT_MAX = {"title": 256, "description": 4096}


def check_message(body: Json, *, files: int, before: Json | None = None, content_max: int = CONTENT_MAX) -> None:
    """Refuse what the API refuses in a new message, or in an edit of a message whose fields are ``before``.

    Raises :class:`ApiError` with 50035 and the place of the fault, or 50006 when nothing would be left to show.
    """
    _check_content(body, content_max)
    check_embeds(body.get("embeds") or [])
    _check_nonce(body.get("nonce"))
    check_allowed_mentions(body.get("allowed_mentions"))
    attachments = body.get("attachments")
    count = max(files, len(attachments)) if isinstance(attachments, list) else files
    if count > ATTACHMENTS_MAX:
        raise bad_length("attachments", 0, ATTACHMENTS_MAX)
    merged = {**(before or {}), **body}
    version_2 = bool(int(merged.get("flags") or 0) & MessageFlag.COMPONENTS_V2)
    components = merged.get("components") or []
    check_components(components, version_2=version_2)
    content = (merged.get("content") or "").strip()
    if version_2 and (content or merged.get("embeds")):
        field = "content" if content else "embeds"
        raise invalid_form(
            field,
            "MESSAGE_CANNOT_USE_LEGACY_FIELDS_WITH_COMPONENTS_V2",
            f"The '{field}' field cannot be used when using MessageFlags.IS_COMPONENTS_V2",
        )
    has_files = files > 0 or bool(merged.get("attachments"))
    if not (content or merged.get("embeds") or components or has_files or merged.get("sticker_ids")):
        raise ApiError(Code.EMPTY_MESSAGE)


def _check_content(body: Json, content_max: int) -> None:
    content = body.get("content")
    if content is None:
        return
    if not isinstance(content, str):
        raise invalid_form("content", "STRING_TYPE_CONVERT", "Could not interpret value as string.")
    if len(content) > content_max:
        raise too_long("content", content_max)


def _check_nonce(nonce: object) -> None:
    if nonce is None:
        return
    if isinstance(nonce, bool) or not isinstance(nonce, str | int):
        raise invalid_form("nonce", "NONCE_TYPE_CONVERT", "Could not interpret value as a nonce.")
    if len(str(nonce)) > NONCE_MAX:
        raise too_long("nonce", NONCE_MAX)


def check_embeds(embeds: list[Json]) -> None:
    """Refuse embeds over the limits (developer documentation, "Embed Limits")."""
    if len(embeds) > EMBEDS_MAX:
        raise bad_length("embeds", 0, EMBEDS_MAX)
    total = sum(_check_embed(f"embeds.{index}", embed) for index, embed in enumerate(embeds))
    if total > EMBED_TOTAL_MAX:
        raise invalid_form("embeds", "MAX_EMBED_SIZE_EXCEEDED", "Embed size exceeds maximum size of 6000")


def _check_embed(where: str, embed: Json) -> int:
    total = 0
    for name, limit in EMBED_TEXT_MAX.items():
        total += _text(f"{where}.{name}", embed.get(name), limit)
    total += _text(f"{where}.footer.text", (embed.get("footer") or {}).get("text"), 2048)
    total += _text(f"{where}.author.name", (embed.get("author") or {}).get("name"), 256)
    rows = embed.get("fields") or []
    if len(rows) > EMBED_FIELDS_MAX:
        raise bad_length(f"{where}.fields", 0, EMBED_FIELDS_MAX)
    for index, row in enumerate(rows):
        for name, limit in (("name", 256), ("value", 1024)):
            if not (row.get(name) or "").strip():
                raise required(f"{where}.fields.{index}.{name}")
            total += _text(f"{where}.fields.{index}.{name}", row[name], limit)
    shown = ("title", "description", "footer", "author", "fields", "image", "thumbnail", "url", "timestamp")
    if not any(embed.get(name) for name in shown):
        raise required(f"{where}.description")
    return total


def _text(where: str, value: str | None, limit: int) -> int:
    length = len(value or "")
    if length > limit:
        raise too_long(where, limit)
    return length


def check_allowed_mentions(allowed: Json | None) -> None:
    """Refuse contradictions between ``parse`` and the lists of ids, and lists over 100."""
    if allowed is None:
        return
    parse = allowed.get("parse") or []
    for index, kind in enumerate(parse):
        if kind not in {"users", "roles", "everyone"}:
            raise invalid_form(f"allowed_mentions.parse.{index}", "BASE_TYPE_CHOICES", "Value must be one of users, roles, everyone.")
    for kind in ("users", "roles"):
        ids = allowed.get(kind) or []
        if len(ids) > MENTION_IDS_MAX:
            raise bad_length(f"allowed_mentions.{kind}", 0, MENTION_IDS_MAX)
        if ids and kind in parse:
            text = f"parse:['{kind}'] and {kind}: [ids...] are mutually exclusive."
            raise invalid_form("allowed_mentions", "MESSAGE_ALLOWED_MENTIONS_PARSE_EXCLUSIVE", text)
