"""Known secret values out of any text that leaves the process: logs, errors, what is posted to a channel."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from urllib.parse import quote

#: What stands where a secret stood.
MASK = "[secret]"
#: A shorter value would also mask ordinary words; no provider gives out keys this short.
_SHORTEST = 6


class Masker:
    """Replaces the given secrets, as they are and as URLs and JSON spell them; without secrets it changes nothing."""

    __slots__ = ("_pattern",)

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        spellings = {
            spelling
            for secret in secrets
            if len(secret) >= _SHORTEST
            for spelling in (secret, quote(secret, safe=""), json.dumps(secret)[1:-1])
        }
        # The longest first: a secret that begins like another one is masked whole.
        alternatives = "|".join(re.escape(spelling) for spelling in sorted(spellings, key=len, reverse=True))
        self._pattern = re.compile(alternatives) if alternatives else None

    def __call__(self, text: str) -> str:
        """The text without any known secret."""
        return self._pattern.sub(MASK, text) if self._pattern else text

    def __repr__(self) -> str:
        return "Masker()"
