"""An embedded server for tests, one per process, which all Lockwork objects use while it is in force."""

from __future__ import annotations

import asyncio
import atexit
import gc
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from lockwork.app.lockwork import Lockwork, apps_here
from lockwork.ids import new_id
from lockwork.protocol.locks.overview import literal
from lockwork.protocol.names import shown
from lockwork.protocol.scripts import replace_parts
from lockwork.protocol.slots import queue_of
from lockwork.runtime.cluster import ClusterEndpoint
from lockwork.runtime.embedded import Embedded, start_private
from lockwork.runtime.endpoint import Endpoint
from lockwork.runtime.replacement import replacement
from lockwork.runtime.runtime import Opened, living
from lockwork.runtime.sync_connection import Wire
from lockwork.testing.clocks import NOW, OFFSET, MovableClock, command, connected

_BATCH = 500
_SPECIAL = re.compile(r"([*?\[\]\\^])")
_LOCK = re.compile(r"(?:lock|sem|rw):([^}]*)}$|q:[^}]*}:lock:(.*)$")


class LocalServer:
    """The embedded server of `lockwork.testing.server()`; new Lockwork objects without a prefix have this `prefix`."""

    def __init__(self, embedded: Embedded, prefix: str) -> None:
        self.url: str = embedded.url
        self.prefix: str = prefix
        self.clock: MovableClock = MovableClock(self.url)
        """The clock of the server."""

    def flush(self) -> None:
        """Delete everything on the server."""
        with connected(Endpoint.from_url(self.url)) as wire:
            command(wire, "FLUSHALL")

    def keys(self) -> list[str]:
        """Return the names of all keys, sorted."""
        with connected(Endpoint.from_url(self.url)) as wire:
            names = {key.decode() for batch in _scan(wire, "*") for key in batch}
        return sorted(names - {OFFSET})

    def leaks(self) -> list[str]:
        """Describe what must not be left at the end of a test: jobs that still run, and locks that are held."""
        texts: list[str] = []
        for key in self.keys():
            prefix, _, rest = key.partition(":{")
            if ":run:" in rest:
                queue = queue_of(rest.partition("}")[0].removeprefix("q:"))
                texts.append(f"jobs of queue {queue!r} still run in worker session {rest.rpartition(':')[2]}")
            elif lock := _LOCK.match(rest):
                texts += self._held(prefix, shown(lock[1] or lock[2]))
        return texts

    def _held(self, prefix: str, name: str) -> list[str]:
        with Lockwork(self.url, prefix=prefix) as app:
            locks = [lock for lock in app.locks(literal(name)).locks if lock.holders]
        holders = [(lock, lock.holders[0].holder) for lock in locks]
        return [f"{lock.kind} {lock.name!r} is held by {by.label} of process {by.pid}" for lock, by in holders]

    def __repr__(self) -> str:
        return f"<LocalServer at {self.url}>"


class _ProcessServer:
    """The server of this process, which starts when it is first needed."""

    def __init__(self) -> None:
        self._folder: Path | None = None
        self._embedded: Embedded | None = None
        self._process = 0

    def started(self) -> Embedded:
        if self._embedded is None or self._process != os.getpid():
            self._folder = Path(tempfile.mkdtemp(prefix="lockwork-test-"))
            self._embedded, self._process = start_private(self._folder), os.getpid()
        return self._embedded

    def close(self) -> None:
        if self._embedded is None or self._folder is None or self._process != os.getpid():
            return
        self._embedded.close()
        shutil.rmtree(self._folder, ignore_errors=True)
        self._embedded = self._folder = None


_process_server = _ProcessServer()
_in_force: list[LocalServer] = []


def server_here() -> LocalServer | None:
    """Return the server that is in force."""
    return _in_force[-1] if _in_force else None


atexit.register(_process_server.close)


def stop_server() -> None:
    """End the server of this process; the next test that needs one starts another."""
    _process_server.close()


@contextmanager
def server() -> Iterator[LocalServer]:
    """Let all Lockwork objects of this process use an embedded server, whatever their URL, and empty it at the end.

    The server is private to this process, and starts at the first use. Connections that are open now are closed.
    Its clock can be moved: see `clock`. LOCKWORK_URL and LOCKWORK_PREFIX are set, so that new objects, and other
    processes that the test starts, use it under a prefix that no other test has.

    Raises AssertionError at the end if jobs still run, or locks are held. Raises RuntimeError in a block of another.
    """
    if replacement.opener is not None:
        raise RuntimeError("lockwork.testing.server() is in force already")
    local = LocalServer(_process_server.started(), f"test-{new_id().lower()}")

    def opened() -> Opened:
        return Endpoint.from_url(local.url), lambda: None

    if len(apps_here()) > 1:
        gc.collect()  # apps of earlier tests would run in `run_all`, too
    before = {name: os.environ.get(name) for name in ("LOCKWORK_URL", "LOCKWORK_PREFIX")}
    _close_all()
    replacement.opener = opened
    _in_force.append(local)
    replace_parts({"parts/now": NOW})
    os.environ["LOCKWORK_URL"], os.environ["LOCKWORK_PREFIX"] = local.url, local.prefix
    try:
        yield local
        if leaks := local.leaks():
            raise AssertionError("this test leaves on the server: " + "; ".join(leaks))
    finally:
        for runtime in living():
            if runtime.opened or runtime.live:
                runtime.start_over()
        replacement.opener = None
        _in_force.remove(local)
        replace_parts({})
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
        local.flush()


def _close_all() -> None:
    for runtime in living():
        if runtime.opened:
            runtime.close()


def flush(lw: Lockwork) -> int:
    """Delete all keys of the app's prefix on its server, and return their number; for tests only.

    It deletes waiting and running jobs, locks, stocks and schedules, also those of other processes.
    """
    endpoint, count = lw.runtime.endpoint, 0
    prefix = _SPECIAL.sub(r"\\\1", lw.config.prefix)
    if isinstance(endpoint, ClusterEndpoint):
        endpoint.refresh()
        nodes: list[Endpoint] = endpoint.primaries()
    else:
        nodes = [endpoint]
    for node in nodes:
        with connected(node) as wire:
            for batch in _scan(wire, f"{prefix}:*"):
                # on a Cluster, the keys of one command have one slot
                for keys in [[key] for key in batch] if len(nodes) > 1 or endpoint.cluster else [batch]:
                    count += int(command(wire, "UNLINK", *keys))
    return count


async def aflush(lw: Lockwork) -> int:
    """Async version of `flush`."""
    return await asyncio.to_thread(flush, lw)


def _scan(wire: Wire, pattern: str) -> Iterator[list[bytes]]:
    cursor: Any = 0
    while True:
        cursor, keys = command(wire, "SCAN", cursor, "MATCH", pattern, "COUNT", _BATCH)
        if keys:
            yield keys
        if int(cursor) == 0:
            return
