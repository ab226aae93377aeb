"""Connects on a separate thread, because neither a resolver nor an app's password callback has a time-out."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable

from lockwork.runtime.endpoint import Endpoint
from lockwork.runtime.replies import Late
from lockwork.runtime.sync_connection import Wire


class Dial:
    """One attempt to connect to the endpoint's server and to check it; each step may take `seconds`.

    Calls `then` on the attempt's thread at its end.
    """

    def __init__(
        self, endpoint: Endpoint, seconds: float, *, allow_eviction: bool, then: Callable[[], None] | None = None
    ) -> None:
        self._endpoint = endpoint
        self._seconds = seconds
        self._allow_eviction = allow_eviction
        self._then = then
        self._lock = threading.Lock()
        self._unwanted = False
        self._wire: Wire | None = None
        self._error: BaseException | None = None
        self._ended = threading.Lock()
        self._ended.acquire()
        thread = threading.Thread(target=self._main, name="lockwork-dial", daemon=True)
        try:
            thread.start()
        except RuntimeError:  # no more threads, for instance at the interpreter's exit
            self._main()

    @property
    def ended(self) -> bool:
        """True if `result` returns or raises at once."""
        return not self._ended.locked()

    def result(self, seconds: float) -> Wire:
        """Return the connection, waiting for at most `seconds`; raises Retry or a LockworkError."""
        if not self._ended.acquire(timeout=max(0.0, seconds)):
            raise Late(f"no connection to {self._endpoint.shown}", seconds)
        if self._wire is None:
            error, self._error = self._error, None
            assert error is not None
            raise error
        return self._wire

    def leave(self) -> None:
        """Close the connection, now or as soon as it exists."""
        with self._lock:
            self._unwanted = True
            wire = self._wire
        if wire is not None:
            wire.close()

    def _main(self) -> None:
        wire = Wire(self._endpoint, self._seconds)
        try:
            wire.connect()
            wire.inspect(allow_eviction=self._allow_eviction)
        except BaseException as error:  # noqa: BLE001 - `result` raises it
            wire.close()
            self._error = error
        else:
            with self._lock:
                self._wire = wire
            if self._unwanted:
                wire.close()
        self._ended.release()
        if self._then is not None:
            with contextlib.suppress(Exception):  # the waiting caller has ended
                self._then()


def dial(endpoint: Endpoint, seconds: float, *, allow_eviction: bool) -> Wire:
    """Connect and check the server within `seconds`; raises Retry or a LockworkError."""
    attempt = Dial(endpoint, seconds, allow_eviction=allow_eviction)
    try:
        return attempt.result(seconds)
    except BaseException:
        attempt.leave()
        raise
