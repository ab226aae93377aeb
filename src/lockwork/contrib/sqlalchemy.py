"""Jobs that wait for the commit of a SQLAlchemy session or connection.

SQLAlchemy is not imported before a caller passes one of its objects.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any
from weakref import WeakKeyDictionary

from msgspec import Struct

from lockwork.errors import ConfigError
from lockwork.tasks import on_commit
from lockwork.tasks.on_commit import PendingJob, asend, deliver, send


class JoinedJobs(Struct):
    """Jobs that wait for the commits of connections; a rollback of one drops them, because its commit never comes."""

    jobs: Sequence[PendingJob]
    commits: int = 1
    """Number of connections that must still commit."""


class SessionJobs:
    """The jobs of one session by transaction; a released savepoint's jobs move to the enclosing transaction.

    A session may join a transaction of its connection. Its own commit then ends only a savepoint, or has no effect, and
    its jobs move to the connection.
    """

    def __init__(self, session: Any) -> None:
        self._of: dict[Any, list[PendingJob]] = {}
        self._committed: Any = None
        self._joined: list[Any] = []
        listen = import_module("sqlalchemy.event").listen
        listen(session, "after_commit", self._after_commit)
        # not at `after_commit`: if enqueuing fails, the session must be in its state after a commit
        listen(session, "after_transaction_end", self._ended)

    def add(self, session: Any, pending: Sequence[PendingJob]) -> None:
        """Add jobs to the innermost transaction; begin one if there is none, so that a rollback can drop them.

        Raises ConfigError if the session joins a transaction of its connection whose commit cannot be observed.
        """
        transaction = _innermost(session) or session.begin()
        if _is(session.bind, *_CONNECTIONS) and session.bind.in_transaction():
            _of_connection(session.bind)  # raises now, not only after the commit
        self._of.setdefault(transaction, []).extend(pending)

    def _after_commit(self, session: Any) -> None:
        self._committed = _innermost(session)
        # not later: at the end of the transaction the session has closed its own connections
        self._joined = _joined(session, self._committed)

    def _ended(self, _: Any, transaction: Any) -> None:
        committed, joined = self._committed is transaction, self._joined
        if committed:
            self._committed, self._joined = None, []
        pending = self._of.pop(transaction, None)
        if not pending or not committed:
            return
        around = transaction.parent
        while around is not None and around.parent is not None and not around.nested:
            around = around.parent
        if around is not None:
            self._of.setdefault(around, []).extend(pending)
        elif joined:
            waiting = JoinedJobs(pending, len(joined))
            for connection in joined:
                _of_connection(connection).keep(waiting)
        else:
            _deliver(pending)


class ConnectionJobs:
    """The jobs of one connection's transaction, in order, with the positions of savepoints between them."""

    def __init__(self, connection: Any) -> None:
        self._jobs: list[JoinedJobs] = []
        self._marks: list[tuple[str, int]] = []
        """Savepoints by name. All jobs are newer than a savepoint that began before this object existed."""
        listen = import_module("sqlalchemy.event").listen
        # after a failed commit, the next transaction begins without a rollback
        for name in ("begin", "begin_twophase", "rollback", "rollback_twophase"):
            listen(connection, name, self._over)
        listen(connection, "release_savepoint", self._released)
        listen(connection, "rollback_savepoint", self._rolled_back_to)
        # the event "commit" precedes the commit, which may still fail, and no public event follows it; the event
        # "savepoint" comes before the savepoint has its name
        for name, then in (
            ("_commit_impl", self._committed),
            ("_commit_twophase_impl", self._committed),
            ("_savepoint_impl", self._savepoint),
        ):
            method = getattr(connection, name, None)
            if method is None:
                raise ConfigError("this version of SQLAlchemy does not report commits of a connection: use a session")
            setattr(connection, name, _followed(method, then))

    def add(self, connection: Any, pending: Sequence[PendingJob]) -> None:
        """Add jobs to the transaction; raises ConfigError without one, because no rollback could drop them."""
        if not connection.in_transaction():
            raise ConfigError("this connection has no transaction: begin one before you call on_commit")
        self.keep(JoinedJobs(pending))

    def keep(self, waiting: JoinedJobs) -> None:
        """Add jobs to the current transaction."""
        self._jobs.append(waiting)

    def _committed(self, _: object) -> None:
        entries, self._jobs = self._jobs, []
        pending: list[PendingJob] = []
        for waiting in entries:
            waiting.commits -= 1
            if not waiting.commits:
                pending.extend(waiting.jobs)
        if pending:
            _deliver(pending)

    def _over(self, *_: object) -> None:
        self._jobs, self._marks = [], []

    def _savepoint(self, name: str) -> None:
        self._marks.append((name, len(self._jobs)))

    def _released(self, _: object, name: str, *__: object) -> None:
        self._end(name)

    def _rolled_back_to(self, _: object, name: str, *__: object) -> None:
        del self._jobs[self._end(name) :]

    def _end(self, name: str) -> int:
        """Remove a savepoint and its nested ones; return the number of jobs before it."""
        while self._marks:
            last, before = self._marks.pop()
            if last == name:
                return before
        return 0


def _followed(method: Callable[..., Any], then: Callable[[Any], None]) -> Callable[..., Any]:
    def both(*args: Any) -> Any:
        done = method(*args)
        then(done)
        return done

    return both


_PLACE = "lockwork.on_commit"
_connections: WeakKeyDictionary[Any, ConnectionJobs] = WeakKeyDictionary()


def _of_session(session: Any) -> SessionJobs:
    """Return the jobs that wait for this session."""
    session_jobs: SessionJobs | None = session.info.get(_PLACE)
    if session_jobs is None:
        session_jobs = session.info[_PLACE] = SessionJobs(session)
    return session_jobs


def _of_connection(connection: Any) -> ConnectionJobs:
    """Return the jobs that wait for this connection; raises ConfigError."""
    connection_jobs = _connections.get(connection)
    if connection_jobs is None:
        connection_jobs = _connections[connection] = ConnectionJobs(connection)
    return connection_jobs


def _innermost(session: Any) -> Any:
    return session.get_nested_transaction() or session.get_transaction()


def _joined(session: Any, transaction: Any) -> list[Any]:
    """Return the connections that are still in a transaction after a commit of the session's outermost transaction."""
    # `_connections` is not public. The event "after_begin" comes too early: a session's first job follows a statement.
    connections = {each[0] for each in getattr(transaction, "_connections", {}).values()}
    if _is(session.bind, *_CONNECTIONS):
        connections.add(session.bind)  # it is missing there before the first statement
    # `in_transaction()` is false after a failure, before the rollback of the transaction
    return [connection for connection in connections if connection.get_transaction() is not None]


def _deliver(pending: Sequence[PendingJob]) -> None:
    if asyncio._get_running_loop() is None:  # noqa: SLF001 - documented, and much cheaper than an exception
        send(pending)
        return
    if "greenlet" not in sys.modules:
        deliver(pending)
        return
    try:
        # AsyncSession and AsyncConnection commit in a greenlet, where `await_only` lets the asyncio task await
        import_module("sqlalchemy.util").await_only(asend(pending))
    except import_module("sqlalchemy.exc").MissingGreenlet:
        deliver(pending)  # a blocking session on the thread of an event loop


_SCOPED = (("sqlalchemy.orm", "scoped_session"), ("sqlalchemy.ext.asyncio", "async_scoped_session"))
_SESSIONS = (("sqlalchemy.orm", "Session"), ("sqlalchemy.ext.asyncio", "AsyncSession"))
_CONNECTIONS = (("sqlalchemy.engine", "Connection"), ("sqlalchemy.ext.asyncio", "AsyncConnection"))
_MAKERS = (("sqlalchemy.orm", "sessionmaker"), ("sqlalchemy.ext.asyncio", "async_sessionmaker"))


class SQLAlchemyTransactions:
    """Stores jobs for sessions and connections, including scoped and asyncio ones."""

    def takes(self, where: object) -> bool | None:
        """See TransactionAdapter."""
        if _is(where, *_SCOPED, *_SESSIONS, *_CONNECTIONS):
            return True
        return False if _is(where, *_MAKERS) else None

    def keep(self, where: Any, pending: Sequence[PendingJob]) -> None:
        """See TransactionAdapter."""
        if _is(where, *_SCOPED):
            where = where.registry()
        if _is(where, *_SESSIONS):
            session = getattr(where, "sync_session", where)
            _of_session(session).add(session, pending)
        else:
            connection = getattr(where, "sync_connection", where)
            _of_connection(connection).add(connection, pending)


def _is(where: object, *classes: tuple[str, str]) -> bool:
    # an object of a module exists only if the module was imported, so no import is needed here
    for module, name in classes:
        module_object = sys.modules.get(module)
        if module_object is not None and isinstance(where, getattr(module_object, name, ())):
            return True
    return False


on_commit.register(SQLAlchemyTransactions())
