"""What every part of the runtime is given: made once in `Runtime`, handed on as one value."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from bot.agents.base import AgentUnavailable, SessionSpec
from bot.agents.host import from_host
from bot.agents.pool import AgentPool
from bot.agents.tools import TOOLS
from bot.clock import Clock
from bot.runtime.ledger import Ledger
from bot.runtime.ports import Chat, RuntimeConfig
from bot.runtime.supervisor import Supervisor
from storage.models import Conversation, Session
from storage.store import Store


@dataclass(frozen=True, slots=True)
class Services:
    """The parts that others lean on."""

    store: Store
    ledger: Ledger
    pool: AgentPool
    chat: Chat
    clock: Clock
    config: RuntimeConfig
    supervisor: Supervisor
    #: Since when nothing could be posted in a channel; None: nothing is known against it.
    unreachable_since_ms: Callable[[int], int | None]

    @property
    def instance(self) -> str:
        """This process, as rows name it."""
        return self.store.instance

    def gone(self, holder: str | None) -> bool:
        """Whether another process that holds a row is proven gone.

        This one alone has the database (SQLite), or alone has the state folder that makes a host: see `bot.app`.
        """
        if holder is None or holder == self.instance:
            return False
        return self.store.exclusive or from_host(holder, self.config.host)


def spec_of(services: Services, conversation: Conversation, session: Session) -> SessionSpec:
    """How a session row is opened. A row that ever dispatched is resumed, a fresh one begins with its native id.

    Raises:
        AgentUnavailable: the config has no such project any more.
    """
    rules = services.config.projects.get(conversation.project)
    if rules is None:
        raise AgentUnavailable(f"The configuration has no project {conversation.project!r}.")
    return SessionSpec(
        session_id=session.id,
        conversation_id=conversation.id,
        folder=Path(session.folder),
        native_id=session.native_id,
        resume=session.turns > 0,
        turns=session.turns,
        standing_instructions=session.standing,
        permissions=rules.permissions,
        tools=TOOLS,
        model=rules.model,
        env=rules.env,
    )
