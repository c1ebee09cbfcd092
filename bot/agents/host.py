"""Where an agent's process was started, as it is stored with the intent: the identity of the state folder.

Not the machine's name, which changes: a container that is made anew on the same volume has another one, and the runs of its
predecessor would wait for ever. Whoever has the state folder may judge the processes that were started from it; two
machines never share one.
"""

from __future__ import annotations

import contextlib
import os
import secrets
from pathlib import Path

_NAME = "host-id"


def host(state_dir: Path) -> str:
    """The folder's identity; made at the first call, complete or not at all. Raises OSError if the folder cannot be used."""
    path = state_dir / _NAME
    if not path.exists():
        draft = state_dir / f"{_NAME}.{secrets.token_hex(4)}"
        try:
            with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="ascii") as file:
                file.write(secrets.token_hex(8))
                file.flush()
                os.fsync(file.fileno())
            # Whoever links first has made it; a rename would let the last one win.
            with contextlib.suppress(FileExistsError):
                path.hardlink_to(draft)
        finally:
            draft.unlink(missing_ok=True)
    return path.read_text(encoding="ascii").strip()


def instance_of(host_id: str) -> str:
    """A name for this process that no other has or had. It begins with the host's."""
    return f"{host_id}-{os.getpid()}-{secrets.token_hex(4)}"


def from_host(instance: str, host_id: str) -> bool:
    """Whether that process ran on this host."""
    return instance.startswith(f"{host_id}-")
