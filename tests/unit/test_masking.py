from __future__ import annotations

import json
from urllib.parse import quote

from hypothesis import given
from hypothesis import strategies as st

from bot.masking import MASK, Masker

SECRET = "MTk4/NjIy+NDgz.Cl2FMQ=="


def test_a_secret_is_masked_wherever_it_stands() -> None:
    assert Masker([SECRET])(f"a{SECRET}b{SECRET}") == f"a{MASK}b{MASK}"


def test_a_secret_is_masked_as_urls_and_json_spell_it() -> None:
    secret = 'pass"word/with\\odd letters'
    mask = Masker([secret])
    assert mask(f"https://host/?key={quote(secret, safe='')}") == f"https://host/?key={MASK}"
    assert mask(json.dumps({"key": secret})) == f'{{"key": "{MASK}"}}'


def test_a_secret_that_begins_with_another_one_is_masked_whole() -> None:
    assert Masker(["abcdef", "abcdefghij"])("abcdefghij abcdef") == f"{MASK} {MASK}"


def test_without_secrets_nothing_changes() -> None:
    assert Masker()("token") == "token"
    assert Masker(["", "abc"])("abc and so on") == "abc and so on", "a value this short would mask ordinary words"


def test_a_masker_does_not_show_what_it_masks() -> None:
    assert SECRET not in repr(Masker([SECRET]))


@given(st.text(), st.text(), st.text(alphabet=st.characters(codec="utf-8"), min_size=6))
def test_no_text_leaves_with_a_secret_in_it(before: str, after: str, secret: str) -> None:
    masked = Masker([secret])(before + secret + after)
    assert secret not in masked or secret in MASK or secret in before + MASK + after
