"""Where a transaction's end is heard of: a session or connection of SQLAlchemy, or a function that takes a callback."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import partial
from typing import Any

from lockwork.contrib import sqlalchemy
from lockwork.tasks.pending_jobs import Kept, deliver
from lockwork.errors import ConfigError

_PLACES = (
    ("sqlalchemy.orm", "scoped_session"),
    ("sqlalchemy.ext.asyncio", "async_scoped_session"),
    ("sqlalchemy.orm", "Session"),
    ("sqlalchemy.ext.asyncio", "AsyncSession"),
    ("sqlalchemy.engine", "Connection"),
    ("sqlalchemy.ext.asyncio", "AsyncConnection"),
)


def check(where: object) -> None:
    """Raise ConfigError for what can never say that a transaction has been committed."""
    if not (any(_is(where, module, name) for module, name in _PLACES) or _takes_a_callback(where)):
        raise _refused(where)


def keep(where: Any, kept: Sequence[Kept]) -> None:
    """Keep these jobs until the transaction that `where` is in has been committed; raises ConfigError."""
    if _is(where, "sqlalchemy.orm", "scoped_session") or _is(where, "sqlalchemy.ext.asyncio", "async_scoped_session"):
        where = where.registry()
    if _is(where, "sqlalchemy.ext.asyncio", "AsyncSession"):
        where = where.sync_session
    elif _is(where, "sqlalchemy.ext.asyncio", "AsyncConnection"):
        where = where.sync_connection
    if _is(where, "sqlalchemy.orm", "Session"):
        sqlalchemy.of_session(where).add(where, kept)
    elif _is(where, "sqlalchemy.engine", "Connection"):
        sqlalchemy.of_connection(where).add(where, kept)
    elif _takes_a_callback(where):
        where(partial(deliver, kept))
    else:
        raise _refused(where)


def _takes_a_callback(where: object) -> bool:
    return callable(where) and not isinstance(where, type) and not _is_maker(where)


def _refused(where: object) -> ConfigError:
    return ConfigError(
        "on_commit takes a session or connection of SQLAlchemy, or a function to which a callback is given, such "
        f"as Django's transaction.on_commit, not {where!r:.80}"
    )


def _is_maker(where: object) -> bool:
    # they are callable, and would be taken for a function that takes a callback
    makers = (("sqlalchemy.orm", "sessionmaker"), ("sqlalchemy.ext.asyncio", "async_sessionmaker"))
    return any(_is(where, module, name) for module, name in makers)


def _is(where: object, module: str, name: str) -> bool:
    # nobody has an object of a module that nobody has imported, so this needs no import of its own
    found = sys.modules.get(module)
    return found is not None and isinstance(where, getattr(found, name, ()))
