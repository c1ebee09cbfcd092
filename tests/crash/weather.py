"""What Discord does wrong during a storm: one thing after the other, and all of it lifted when calm is asked for."""

from __future__ import annotations

import random
from typing import Final

from bot.loopback.discord import LoopbackDiscord
from bot.loopback.discord.faults import When

_POST: Final = "/channels/{channel_id}/messages"


class Weather:
    """Faults of the REST side and of the gateway, chosen by a seeded generator."""

    def __init__(self, discord: LoopbackDiscord, chance: random.Random) -> None:
        self._discord = discord
        self._chance = chance

    async def change(self) -> None:
        """One more fault."""
        if self._chance.random() < 0.5:
            self._rest()
        else:
            await self._gateway()

    def _rest(self) -> None:
        chance, faults = self._chance, self._discord.faults
        when: When = "before" if chance.random() < 0.3 else "after"
        match chance.randrange(7):
            case 0:
                faults.status("POST", _POST, 503, when=when, times=chance.randint(1, 3))
            case 1:
                faults.drop("POST", _POST, when=when, times=chance.randint(1, 3))
            case 2:
                faults.rate_limit("POST", _POST, chance.choice((0.2, 1.0)))
            case 3:
                faults.status("GET", _POST, chance.choice((500, 502)), times=chance.randint(1, 2))
            case 4:
                faults.drop("GET", _POST)
            case 5:
                faults.delay("POST", _POST, chance.uniform(0.1, 1.5), when=when)
            case _:
                faults.status("POST", "/interactions/*/*/callback", 503, when=when)

    async def _gateway(self) -> None:
        chance, gateway = self._chance, self._discord.gateway
        match chance.randrange(8):
            case 0:
                gateway.drop_connections()
            case 1:
                gateway.ask_reconnect()
            case 2:
                gateway.invalidate(resumable=chance.random() < 0.5)
            case 3:
                await gateway.close_connections(chance.choice((4000, 4009)))
            case 4:
                gateway.duplicate_next("MESSAGE_CREATE", chance.randint(1, 3))
            case 5:
                gateway.refuse_resumes()
                gateway.drop_connections()
            case 6:
                gateway.overlap_next_resume(chance.randint(1, 5))
                gateway.drop_connections()
            case _:
                for name in ("MESSAGE_CREATE", "MESSAGE_UPDATE", "INTERACTION_CREATE", "MESSAGE_DELETE", "GUILD_CREATE"):
                    gateway.send_event(name, chance.choice(({}, {"id": "no number"}, {"id": "1", "channel_id": "1"})))

    def between(self) -> None:
        """While no process runs: a fault that hangs on from one life to the next, or none."""
        if self._chance.random() < 0.5:
            self._discord.faults.clear()

    def clear(self) -> None:
        """Calm."""
        self._discord.faults.clear()
        self._discord.gateway.flow_again()
        self._discord.gateway.accept_again()
