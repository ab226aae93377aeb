"""A real Valkey server without set-up: one for all processes of a user, ended when the last process leaves.

Nothing polls. Processes lock four files of its folder with flock, so that the kernel tracks the users, even if they are
killed:

- `users`: every process holds a shared lock while it uses the server. The guardian (guard.py) waits for the exclusive
lock: then no user remains. The guardian keeps it until the server has ended.
- `start`: held while a process joins, so that joins, and starts, run one after another.
- `guardian`, `server`: held by these two processes during their lifetime. The process that starts them acquires both
  and passes them on, so that a starting server never looks absent. `server` also has the server's address.

A forked process shares its parent's lock on `users`: the server stays until both have left.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import sys
import threading
from typing import TYPE_CHECKING, Self
from urllib.parse import quote

from msgspec import Struct

from lockwork.errors import ConfigError
from lockwork.runtime.embedded.folder import errors_of, lock, locked, made, try_lock, user_home
from lockwork.runtime.embedded.server import Guardian, Record, end_server, join

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

if sys.platform != "win32":
    import fcntl


class Embedded:
    """A use of an embedded server, until `close` or the end of the process."""

    def __init__(self, record: Record, leave: Callable[[], None]) -> None:
        self.url: str = f"unix://{quote(record.socket)}"
        self.pid: int = record.pid
        self._leave: Callable[[], None] | None = leave

    def close(self) -> None:
        """Leave the server; a second call does nothing."""
        with _inside:
            leave, self._leave = self._leave, None
            if leave is not None:
                leave()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def open_shared(home: Path | None = None) -> Embedded:
    """Join the durable server that all processes of this user share; start it if it does not run.

    Its default folder is LOCKWORK_HOME, or `lockwork` in the user's data folder. After the server was killed, call this
    again: the next server has the same data, and the same URL. Forked processes are also users. Waits while an earlier
    server of the folder ends (at most about 10 s). Raises ConfigError and ServerUnavailable.
    """
    folder = made(user_home() if home is None else home)
    with _inside, _place(folder) as users:
        record, _ = join(folder, durable=True, mode="detach")
        member = _members.setdefault(folder, _User(folder))
        member.enter(users)
    return Embedded(record, member.leave)


def start_private(folder: Path, *, durable: bool = False) -> Embedded:
    """Start a server for this process alone in `folder`; it ends with `close`, or with the process.

    `durable` keeps the data in the folder. Forked processes can use the server, but neither end it nor keep it running.
    Raises ConfigError, also if another owner's server runs in `folder`, and ServerUnavailable.
    """
    folder = made(folder)
    with _inside, _place(folder) as users:
        _end_ownerless(folder, users)
        record, guardian = join(folder, durable=durable, mode="child")
        if guardian is None:
            raise ConfigError(_IN_USE.format(folder))
        owner = _Owner(folder, users, guardian)
        _owners.add(owner)
    return Embedded(record, owner.end)


@contextlib.contextmanager
def _place(folder: Path) -> Iterator[int]:
    """Register as a user of the folder's server, also after the block unless it raises; one process at a time."""
    with errors_of(folder), locked(folder / "start"):
        # waits only while a guardian without users ends its server
        users = lock(folder / "users", fcntl.LOCK_SH)
        try:
            yield users
        except BaseException:
            os.close(users)
            raise


def _end_ownerless(folder: Path, users: int) -> None:
    """End a server whose owner was killed, if its guardian has not done so yet."""
    server = try_lock(folder / "server")
    if server is None:
        try:
            fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ConfigError(_IN_USE.format(folder)) from None
        server = end_server(folder)
        # not atomic: the guardian may acquire the lock first, and then ends before this returns
        fcntl.flock(users, fcntl.LOCK_SH)
    os.close(server)


_IN_USE = "another server already runs in {}: use a folder of its own for this one"


class _User(Struct):
    """Use of one shared server by this process: all its handles share one lock."""

    folder: Path
    users: int | None = None
    handles: int = 0

    def enter(self, users: int) -> None:
        # the newest lock is kept: the folder may have been removed and created again since the last one
        if self.users is not None:
            os.close(self.users)
        self.users = users
        self.handles += 1

    def leave(self) -> None:
        self.handles -= 1
        if self.handles == 0 and self.users is not None:
            del _members[self.folder]
            # closed, not unlocked: a forked child may still use this lock
            os.close(self.users)


class _Owner(Struct, eq=False):
    """Ownership of a private server by this process."""

    folder: Path
    users: int
    guardian: Guardian

    def end(self) -> None:
        """End the server and wait until it and its guardian are gone; do nothing in a forked child."""
        if self not in _owners:
            return
        _owners.remove(self)
        # no process may start the next server here before this is done: it would look like the old one
        with errors_of(self.folder), locked(self.folder / "start"):
            # unlocked, not only closed: a process forked outside Python shares the descriptor
            fcntl.flock(self.users, fcntl.LOCK_UN)
            os.close(self.users)
            self.guardian.terminate()
            self.guardian.wait()
            # a server remains only if its guardian was killed
            os.close(end_server(self.folder))

    def forget(self) -> None:
        """Forget the server in a forked child: it belongs to the parent."""
        os.close(self.users)
        # it is not a child of this process: it cannot be waited for, and its object must not warn about that
        self.guardian.returncode = 0


_inside = threading.RLock()
_members: dict[Path, _User] = {}
_owners: set[_Owner] = set()


def _after_fork() -> None:
    try:
        for owner in _owners:
            with contextlib.suppress(OSError):
                owner.forget()
        _owners.clear()
    finally:
        _inside.release()


def _at_exit() -> None:
    # the kernel releases locks on shared servers, after all other exit code has run
    with _inside:
        for owner in list(_owners):
            owner.end()


if sys.platform != "win32":
    # no fork in the middle of a join: the child would keep the locks of the join
    os.register_at_fork(before=_inside.acquire, after_in_parent=_inside.release, after_in_child=_after_fork)
atexit.register(_at_exit)
