"""Who is let in: one function, for messages, commands and buttons alike."""

from __future__ import annotations

import pytest

from bot.gateway.access import Caller, Level, level, person
from bot.settings import AccessSettings

GUILD, OTHER = 1, 2
LISTED, MEMBER_ROLE, ADMIN_ROLE = 10, 20, 30
ACCESS = AccessSettings(users=(LISTED,), roles=(MEMBER_ROLE,), admin_roles=(ADMIN_ROLE,))


def caller(user: int = 99, guild: int | None = GUILD, roles: tuple[int, ...] = (), *, manages: bool = False) -> Caller:
    return Caller(user, "somebody", guild, frozenset(roles), manages)


@pytest.mark.parametrize(
    ("who", "held"),
    [
        (caller(), Level.NONE),
        (caller(LISTED), Level.MEMBER),
        (caller(roles=(MEMBER_ROLE,)), Level.MEMBER),
        (caller(roles=(ADMIN_ROLE,)), Level.ADMIN),
        (caller(manages=True), Level.ADMIN),
        (caller(LISTED, roles=(ADMIN_ROLE, MEMBER_ROLE)), Level.ADMIN),
        (caller(LISTED, guild=OTHER), Level.NONE),
        (caller(guild=OTHER, roles=(ADMIN_ROLE,), manages=True), Level.NONE),
        (caller(LISTED, guild=None), Level.MEMBER),
        (caller(guild=None), Level.NONE),
        (caller(guild=None, manages=True), Level.NONE),
    ],
)
def test_the_level_follows_from_guild_lists_and_rights(who: Caller, held: Level) -> None:
    assert level(ACCESS, (GUILD,), who) is held


@pytest.mark.parametrize("who", [caller(), caller(LISTED), caller(roles=(MEMBER_ROLE, ADMIN_ROLE)), caller(guild=None)])
def test_empty_lists_let_nobody_in(who: Caller) -> None:
    assert level(AccessSettings(), (GUILD,), who) is Level.NONE


def test_without_configured_guilds_nobody_is_anything_in_one() -> None:
    assert level(ACCESS, (), caller(LISTED, roles=(ADMIN_ROLE,), manages=True)) is Level.NONE


def test_only_an_admin_may_end_what_others_began() -> None:
    assert person(caller(7), Level.MEMBER).only_own == 7
    assert person(caller(7), Level.ADMIN).only_own is None
