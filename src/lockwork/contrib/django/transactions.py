"""Finds the open transactions of Django's databases, for tasks with the option `on_commit`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial

from asgiref.sync import sync_to_async
from django.db import DEFAULT_DB_ALIAS, connections, transaction
from django.db.backends.base.base import BaseDatabaseWrapper

from lockwork.errors import ConfigError
from lockwork.suggestions import closest

_OF_TESTCASE = "_from_testcase"
"""Django's own mark of a transaction that a TestCase opened; `durable` reads it, too."""


class DjangoTransactions:
    """The open transactions of the current thread; for `async def` code, of the thread that runs its ORM calls."""

    def check(self, using: bool | str) -> None:
        """Raise ConfigError unless DATABASES has the alias."""
        if isinstance(using, str) and using not in connections:
            close = closest(using, connections)
            hint = f"did you mean {close!r}?" if close else f"there are {', '.join(connections)}"
            raise ConfigError(f"on_commit names no database of DATABASES, {using!r}: {hint}")

    def find(self, using: bool | str) -> Callable[[Callable[[], object]], object] | None:
        """Return a function that calls its argument after the commit, of all databases with an open transaction."""
        aliases = _with_transaction(using)
        return partial(_call_after, aliases) if aliases else None

    async def afind(self, using: bool | str) -> Callable[[Callable[[], object]], Awaitable[object]] | None:
        """Async version of `find`."""
        register = await sync_to_async(self.find)(using)
        return None if register is None else sync_to_async(register)


def _with_transaction(using: bool | str) -> list[str]:
    candidates = [connections[using]] if isinstance(using, str) else connections.all(initialized_only=True)
    matches = [connection for connection in candidates if connection.in_atomic_block or _is_manual(connection)]
    own = [connection.alias for connection in matches if not _only_of_testcase(connection)]
    if own:
        return own
    # a TestCase opens a transaction in each of its databases; what the code itself opened counts
    aliases = [connection.alias for connection in matches]
    return [DEFAULT_DB_ALIAS] if DEFAULT_DB_ALIAS in aliases else aliases[:1]


def _is_manual(connection: BaseDatabaseWrapper) -> bool:
    """Return True after `set_autocommit(False)`, where `transaction.on_commit` raises an error that says so."""
    return connection.connection is not None and not connection.autocommit


def _only_of_testcase(connection: BaseDatabaseWrapper) -> bool:
    blocks = connection.atomic_blocks
    return bool(blocks) and all(getattr(block, _OF_TESTCASE, False) for block in blocks)


def _call_after(aliases: list[str], function: Callable[[], object]) -> None:
    """Call the function after the commit of all these databases; never if one of them rolls back."""
    pending = set(aliases)

    def committed(alias: str) -> None:
        pending.discard(alias)
        if not pending:
            function()

    for alias in aliases:
        transaction.on_commit(partial(committed, alias), using=alias)
