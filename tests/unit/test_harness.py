"""What every test may rely on, and none may get around."""

from __future__ import annotations

import asyncio
import os
import pwd
import socket
import warnings
from pathlib import Path

import pytest
from pytest_socket import SocketConnectBlockedError

#: RFC 5737: an address that belongs to nobody.
NOBODY = "192.0.2.1"


async def test_no_test_reaches_another_machine() -> None:
    with socket.socket() as plain, pytest.raises(SocketConnectBlockedError):
        plain.connect((NOBODY, 443))
    with pytest.raises(SocketConnectBlockedError):
        await asyncio.open_connection(NOBODY, 443)


async def test_loopback_and_unix_sockets_are_open(tmp_path: Path) -> None:
    async def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"here")
        writer.close()
        await writer.wait_closed()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        assert await reader.read() == b"here"
        writer.close()
        await writer.wait_closed()
    async with await asyncio.start_unix_server(answer, tmp_path / "socket"):
        reader, writer = await asyncio.open_unix_connection(tmp_path / "socket")
        assert await reader.read() == b"here"
        writer.close()
        await writer.wait_closed()


def test_nothing_of_the_developers_own_login_or_configuration_is_seen() -> None:
    assert not [name for name in os.environ if name.startswith(("NIGHTPORTER_", "ANTHROPIC_", "CLAUDE", "DISCORD_"))]
    assert Path.home() != Path(pwd.getpwuid(os.getuid()).pw_dir)


def test_a_forgotten_warning_is_an_error() -> None:
    with pytest.raises(UserWarning, match="noticed"):
        warnings.warn("noticed", UserWarning, stacklevel=1)
