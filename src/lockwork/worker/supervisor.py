"""The supervisor: starts the children, keeps their leases, and gives a dead child's jobs back at once."""

from __future__ import annotations

import contextlib
import logging
import platform
import re
import secrets
import signal
import subprocess
import sys
import threading
from dataclasses import dataclass
from types import FrameType
from typing import Literal

import msgspec

from lockwork.app import Lockwork
from lockwork.errors import LockworkError
from lockwork.protocol.jobs import session_name
from lockwork.protocol.keys import QueueKeys
from lockwork.runtime.clock import now
from lockwork.worker.child import FAILED, NOT_SET_UP, OK
from lockwork.worker.events import Events
from lockwork.worker.heartbeat import Heartbeat
from lockwork.worker.options import STOP, ChildOrders, WorkerOptions

log: logging.Logger = logging.getLogger("lockwork.worker")

_QUICK = 2.0
"""Seconds within which a child that ends is taken as failing to start."""
_SLOWEST = 5.0
_HURRY = 3.0
"""Seconds that children have, beyond their grace, before they are killed."""


@dataclass(slots=True)
class _Child:
    process: subprocess.Popen[bytes]
    session: str
    started: float


_Event = tuple[Literal["exit"], _Child] | tuple[Literal["signal"], int] | tuple[Literal["tick"], None]


class Supervisor:
    """Runs until told to stop; `run` returns the exit status."""

    def __init__(self, app: Lockwork, options: WorkerOptions) -> None:
        self._app = app
        self._options = options
        self._events: Events[_Event] = Events()
        self._children: dict[str, _Child] = {}
        self._stopping = 0
        self._status = OK
        self._failures = 0
        self._missing = options.processes
        queues = {name: QueueKeys(app.config.prefix, name) for name in options.queues}
        window_ms = int(app.config.result_ttl * 1000)
        self._heartbeat = Heartbeat(app.runtime, queues, options.lease, window_ms, self._session_over)

    @property
    def alive(self) -> bool:
        """Whether the supervisor still turns, server or no server."""
        return now() - self._heartbeat.turned < max(self._options.lease, 10.0)

    @property
    def ready(self) -> bool:
        """Whether all children run, the server answers, and nobody asked us to stop."""
        heard = now() - self._heartbeat.last < self._options.lease
        return heard and not self._stopping and len(self._children) == self._options.processes

    def run(self) -> int:
        """Work until SIGTERM or SIGINT; raises a LockworkError when it cannot begin."""
        with self._events:
            return self._run()

    def _run(self) -> int:
        previous = {number: signal.signal(number, self._on_signal) for number in (signal.SIGTERM, signal.SIGINT)}
        try:
            self._start_missing(first=True)
            self._heartbeat.start()
            while self._children or not self._stopping:
                self._handle(self._events.next())
            log.info("stopped")
            return self._status
        finally:
            self._kill_all()
            self._heartbeat.stop()
            for number, handler in previous.items():
                signal.signal(number, handler)

    def _on_signal(self, number: int, _frame: FrameType | None) -> None:
        self._events.post(("signal", number))

    def _session_over(self, session: str) -> None:
        # on the heartbeat's thread: its jobs run elsewhere now, so the process that still runs them must end
        child = self._children.get(session)
        if child is not None:
            log.error("the server gave up worker process %d: it is killed and replaced", child.process.pid)
            child.process.kill()

    def _handle(self, event: _Event) -> None:
        kind, what = event
        if kind == "exit":
            assert isinstance(what, _Child)
            self._on_exit(what)
        elif kind == "signal":
            self._on_stop()
        elif kind == "tick":
            if self._stopping:
                log.warning("worker processes that did not end in time are killed")
                self._kill_all()
            else:
                self._start_missing()

    def _on_stop(self) -> None:
        self._stopping += 1
        if self._stopping == 1:
            log.info(
                "stopping: running jobs have %g s to end (a second signal ends them at once)",
                self._options.grace,
            )
            for child in self._children.values():
                _tell(child, STOP)
            self._later(self._options.grace + _HURRY)
        else:
            self._kill_all()

    def _on_exit(self, child: _Child) -> None:
        del self._children[child.session]
        code = child.process.returncode
        _let_go(child)
        try:
            given_back = self._heartbeat.leave(child.session)
        except LockworkError as error:
            # its lease runs out by itself, and then any worker gives its jobs back
            log.error("the jobs of worker process %d could not be given back yet: %s", child.process.pid, error)
            given_back = 0
        if self._stopping:
            return
        if code == NOT_SET_UP:
            # trying again and again would only look like working: whoever started the worker is told
            log.error(
                "worker process %d could not set up what it needs (see above): the worker stops", child.process.pid
            )
            self._status = FAILED
            self._on_stop()
            return
        log.error("worker process %d ended (%s): %d jobs given back", child.process.pid, _why(code), given_back)
        self._missing += 1
        quick = now() - child.started < _QUICK
        self._failures = self._failures + 1 if quick else 0
        if self._failures:
            self._later(min(_SLOWEST, 0.1 * 2.0**self._failures))
        else:
            self._start_missing()

    def _start_missing(self, *, first: bool = False) -> None:
        while self._missing:
            try:
                self._start_child()
            except LockworkError as error:
                if first:
                    raise
                log.error("a worker process could not be started: %s", error)
                self._later(1.0)
                return
            self._missing -= 1

    def _start_child(self) -> None:
        process = subprocess.Popen(
            [sys.executable, "-m", "lockwork.worker.child"], stdin=subprocess.PIPE, process_group=0
        )
        host = re.sub(r"[^\w.-]", "-", platform.node()) or "localhost"
        child = _Child(process, session_name(host, process.pid, secrets.token_hex(4)), now())
        try:
            self._heartbeat.join(child.session)
        except BaseException:
            process.kill()
            process.wait()
            assert process.stdin is not None
            process.stdin.close()
            raise
        self._children[child.session] = child
        _tell(child, msgspec.json.encode(ChildOrders(self._options, child.session)) + b"\n")
        threading.Thread(target=self._watch, args=(child,), name=f"lockwork-watch-{process.pid}", daemon=True).start()
        log.info("worker process %d works on %s", process.pid, ", ".join(self._options.queues))

    def _watch(self, child: _Child) -> None:
        child.process.wait()
        self._events.post(("exit", child))

    def _later(self, seconds: float) -> None:
        timer = threading.Timer(seconds, self._events.post, [("tick", None)])
        timer.daemon = True
        timer.start()

    def _kill_all(self) -> None:
        for child in list(self._children.values()):
            child.process.kill()


def _tell(child: _Child, line: bytes) -> None:
    assert child.process.stdin is not None
    try:
        child.process.stdin.write(line)
        child.process.stdin.flush()
    except OSError:
        pass  # it has ended: its watcher says so


def _let_go(child: _Child) -> None:
    """Close our end of its standard input."""
    assert child.process.stdin is not None
    # orders that it did not live to read are still in the buffer, and closing tries to send them
    with contextlib.suppress(OSError):
        child.process.stdin.close()


def _why(code: int | None) -> str:
    if code is not None and code < 0:
        return f"killed by {signal.Signals(-code).name}"
    return f"exit status {code}"
