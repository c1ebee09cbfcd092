"""No network or agent call inside a transaction, ever: the mark of a transaction, and the refusal that adapters use."""

from __future__ import annotations

from contextvars import ContextVar

#: True in the task that runs a transaction, and in every task and callback begun from it.
in_transaction: ContextVar[bool] = ContextVar("in_transaction", default=False)


def refuse_in_transaction(what: str) -> None:
    """Raise RuntimeError if called inside a transaction.

    A transaction that waits for a network holds the only writer, and is repeated when it loses a race: the call would be too.
    """
    if in_transaction.get():
        raise RuntimeError(f"{what} was called inside a database transaction")
