"""The limits of a message's body: just inside is accepted, just outside is refused and nothing is posted."""

from __future__ import annotations

from typing import Any

import pytest

from bot.loopback.discord import MessageFlag

from .conftest import Client, Hotel, Refused

V2 = int(MessageFlag.COMPONENTS_V2)


def button(custom_id: str = "b", **more: Any) -> dict[str, Any]:
    return {"type": 2, "style": 1, "label": "ok", "custom_id": custom_id, **more}


def row(*children: dict[str, Any]) -> dict[str, Any]:
    return {"type": 1, "components": list(children)}


def menu(options: int) -> dict[str, Any]:
    return {"type": 3, "custom_id": "s", "options": [{"label": str(one), "value": str(one)} for one in range(options)]}


def text(content: str) -> dict[str, Any]:
    return {"type": 10, "content": content}


FIELD = {"name": "n", "value": "v"}

ACCEPTED: dict[str, dict[str, Any]] = {
    "2000 code points that are 4000 UTF-16 units": {"content": "\U0001d4b3" * 2000},
    "a nonce of 25": {"content": "x", "nonce": "n" * 25},
    "an embed of 6000": {"embeds": [{"description": "d" * 4096}, {"description": "d" * 1904}]},
    "25 buttons": {"components": [row(*(button(f"{line}-{one}") for one in range(5))) for line in range(5)]},
    "a custom id of 100": {"components": [row(button("c" * 100))]},
    "25 options": {"components": [row(menu(25))]},
    "a V2 text of 4000": {"flags": V2, "components": [text("t" * 4000)]},
    "40 V2 components": {"flags": V2, "components": [text("t")] * 40},
}

REFUSED: dict[str, tuple[dict[str, Any], int]] = {
    "content of 2001": ({"content": "x" * 2001}, 50035),
    "nothing": ({}, 50006),
    "only spaces": ({"content": " \n\u2003"}, 50006),
    "a nonce of 26": ({"content": "x", "nonce": "n" * 26}, 50035),
    "an embed over 6000": ({"embeds": [{"description": "d" * 4096}, {"description": "d" * 1905}]}, 50035),
    "an embed title of 257": ({"embeds": [{"title": "t" * 257}]}, 50035),
    "an embed description of 4097": ({"embeds": [{"description": "t" * 4097}]}, 50035),
    "26 fields": ({"embeds": [{"fields": [FIELD] * 26}]}, 50035),
    "a field value of 1025": ({"embeds": [{"fields": [{"name": "n", "value": "v" * 1025}]}]}, 50035),
    "a field without a value": ({"embeds": [{"fields": [{"name": "n", "value": ""}]}]}, 50035),
    "11 embeds": ({"embeds": [{"title": "t"}] * 11}, 50035),
    "six rows": ({"components": [row(button(str(one))) for one in range(6)]}, 50035),
    "six buttons in a row": ({"components": [row(*(button(str(one)) for one in range(6)))]}, 50035),
    "an empty row": ({"components": [row()]}, 50035),
    "a button outside of a row": ({"components": [button()]}, 50035),
    "a custom id of 101": ({"components": [row(button("c" * 101))]}, 50035),
    "a custom id twice": ({"components": [row(button("c"), button("c"))]}, 50035),
    "a label of 81": ({"components": [row(button(label="l" * 81))]}, 50035),
    "a button without a label": ({"components": [row(button(label=None))]}, 50035),
    "a link with a custom id": ({"components": [row(button(style=5, url="https://example.com"))]}, 50035),
    "26 options": ({"components": [row(menu(26))]}, 50035),
    "a select beside a button": ({"components": [row(button(), menu(2))]}, 50035),
    "V2 components without the flag": ({"components": [text("t")]}, 50035),
    "content with V2": ({"flags": V2, "content": "x", "components": [text("t")]}, 50035),
    "embeds with V2": ({"flags": V2, "embeds": [{"title": "x"}], "components": [text("t")]}, 50035),
    "a V2 text of 4001": ({"flags": V2, "components": [text("t" * 4001)]}, 50035),
    "41 V2 components": ({"flags": V2, "components": [text("t")] * 41}, 50035),
    "mentions both parsed and listed": ({"content": "x", "allowed_mentions": {"parse": ["users"], "users": ["1"]}}, 50035),
    "a reply to nothing": ({"content": "x", "message_reference": {"message_id": "1"}}, 50035),
}


@pytest.mark.parametrize("body", ACCEPTED.values(), ids=ACCEPTED)
async def test_what_is_just_allowed_is_accepted(hotel: Hotel, requester: Client, body: dict[str, Any]) -> None:
    await requester.post(hotel.channel, body)
    assert len(hotel.people.messages(hotel.channel)) == 1


@pytest.mark.parametrize(("body", "code"), REFUSED.values(), ids=REFUSED)
async def test_what_discord_refuses_is_refused_and_posts_nothing(
    hotel: Hotel, requester: Client, refused: Refused, body: dict[str, Any], code: int
) -> None:
    async with refused(code, 400):
        await requester.post(hotel.channel, body)
    assert hotel.people.messages(hotel.channel) == []


async def test_an_error_names_the_field(hotel: Hotel, requester: Client, refused: Refused) -> None:
    async with refused(50035) as caught:
        await requester.post(hotel.channel, {"content": "x" * 2001})
    assert "In content: Must be 2000 or fewer in length." in caught[0].text
