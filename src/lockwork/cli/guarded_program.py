"""A program under a lock: it receives the signals, and ends before the lease of the lock does."""

from __future__ import annotations

import asyncio
import contextlib
import os
import select
import signal
from collections.abc import Sequence
from types import FrameType, TracebackType
from typing import Any, Self

from lockwork import owners
from lockwork.cli.program import NEVER, Program
from lockwork.errors import LockLost, LockworkError
from lockwork.locks import Grant, Lock
from lockwork.owners import Owner
from lockwork.runtime.clock import now

_TO_ALL = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT}
_TO_IT = {signal.SIGUSR1, signal.SIGUSR2}


class Stopped(Exception):
    """A signal came before the program ran."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number: int = number


class Guarded:
    """While entered, signals end the wait for the lock (Stopped), or go to the program once there is one.

    No signal handler raises: an exception from there is lost when it strikes in a `__del__`.

    The program has its SIGTERM `grace` seconds before the lease's end, so that both end together; but not before the
    last third of the lease, when several tries to renew it have failed.
    """

    def __init__(self, grace: float) -> None:
        self._grace = grace
        self._longest = 0.0
        """The longest observed remaining time of the lease: a transferred lease begins short."""
        self._signals: list[int] = []
        self._gone = False
        self._continued = False
        self._previous: dict[int, Any] = {}
        self.ended: bool = False
        """True after the program was ended because of its lock."""

    def __enter__(self) -> Self:
        self._woken, self._wake = os.pipe()
        for end in (self._woken, self._wake):
            os.set_blocking(end, False)
        self._previous_wake = signal.set_wakeup_fd(self._wake, warn_on_full_buffer=False)
        try:
            for number in _TO_ALL | _TO_IT:
                # signals that nohup or a shell's background job ignores stay ignored, here and in the program
                if signal.getsignal(number) is not signal.SIG_IGN:
                    self._previous[number] = signal.signal(number, self._on_signal)
            self._previous[signal.SIGCHLD] = signal.signal(signal.SIGCHLD, self._on_child)
            self._previous[signal.SIGCONT] = signal.signal(signal.SIGCONT, self._on_continued)
            self._program = Program(self._grace)
        except BaseException:
            self._restore()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._program.close()
        self._restore()

    def acquire(self, lock: Lock) -> Grant:
        """Wait for the lock; raises Stopped and what `Lock.acquire` raises. This thread owns it."""
        return asyncio.run(self._acquire(lock, owners.current()))

    async def _acquire(self, lock: Lock, owner: Owner) -> Grant:
        async def acquire() -> Grant:
            with owners.acting_as(owner):  # the asyncio task ends before the program does
                return await lock.aacquire()

        acquiring = asyncio.create_task(acquire())
        loop = asyncio.get_running_loop()
        loop.add_reader(self._woken, self._on_wakeup, acquiring)
        try:
            await asyncio.wait([acquiring])
        finally:
            loop.remove_reader(self._woken)
        if not acquiring.cancelled():
            grant = acquiring.result()
            if not self._signals:
                return grant
            with contextlib.suppress(LockworkError):
                await grant.arelease()
        raise Stopped(self._signals[0])

    def _on_wakeup(self, acquiring: asyncio.Task[Grant]) -> None:
        self._drain_pipe()
        if self._signals:
            acquiring.cancel()

    def lost(self, _: Grant) -> None:
        """Note, from another thread, that the lease has ended."""
        self._gone = True
        with contextlib.suppress(OSError):
            os.write(self._wake, b"!")

    def start(self, command: Sequence[str], grant: Grant) -> None:
        """Start the program; raises OSError if it cannot be started."""
        self._watch(grant)
        self._program.start(command, {**os.environ, "LOCKWORK_LOCK": grant.name, "LOCKWORK_FENCE": str(grant.fence)})
        self._watch(grant)

    def wait(self, grant: Grant) -> int:
        """Wait for the program's end, and end it before its lease ends; return its exit status as a shell does."""
        kill_at = NEVER
        while (status := self._program.poll(pause=not self.ended)) is None:
            self._forward_signals()
            if self._continued and self._program.paused:
                self._check_lease(grant)
            if not self.ended and (self._gone or grant.remaining <= self._margin(grant)):
                self.ended = True
                kill_at = now() + self._grace
                self._program.watch(kill_at + self._grace, NEVER)
                self._program.send(signal.SIGTERM)
                self._program.resume()  # a stopped program receives SIGTERM when it continues
            elif self._continued:
                self._continued = False
                self._program.resume()
            if now() >= kill_at:
                kill_at = NEVER
                self._program.send(signal.SIGKILL)
            self._sleep(self._pause(grant, kill_at))
        if self.ended:
            self._program.send(signal.SIGKILL)  # its children are not guarded either
        return status

    def _check_lease(self, grant: Grant) -> None:
        """Ask the server before a stopped program continues: this process was stopped as well, and missed messages."""
        try:
            grant.extend()
        except LockLost:
            self._gone = True
        except LockworkError:
            pass  # no other holder has the lock before the lease ends, and `wait` ends the program before that

    def _pause(self, grant: Grant, kill_at: float) -> float | None:
        """Return the seconds to sleep; send the watcher the latest time for its actions."""
        if self.ended:
            return None if kill_at == NEVER else max(0.0, kill_at - now())
        if not self._program.paused:
            self._watch(grant)
        margin = self._margin(grant)
        return max(0.0, min(self._longest / 6, grant.remaining - margin))

    def _watch(self, grant: Grant) -> None:
        margin, remaining, since = self._margin(grant), grant.remaining, now()
        # a little later than this process acts
        self._program.watch(since + remaining - margin / 2, since + remaining)

    def _margin(self, grant: Grant) -> float:
        """Return the seconds between SIGTERM and the end of the lease."""
        self._longest = max(self._longest, grant.remaining)
        return min(self._grace, self._longest / 3)

    def _forward_signals(self) -> None:
        while self._signals:
            number = self._signals.pop(0)
            if number in _TO_IT:
                self._program.send_to_program(number)
            else:
                self._program.send(number)

    def _sleep(self, seconds: float | None) -> None:
        select.select([self._woken], [], [], seconds)
        self._drain_pipe()

    def _drain_pipe(self) -> None:
        with contextlib.suppress(BlockingIOError):
            os.read(self._woken, 4096)

    def _on_signal(self, number: int, _: FrameType | None) -> None:
        self._signals.append(number)

    def _on_child(self, _number: int, _: FrameType | None) -> None:
        """The wake-up file has been written."""

    def _on_continued(self, _number: int, _: FrameType | None) -> None:
        self._continued = True

    def _restore(self) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(self._previous_wake)
        os.close(self._woken)
        wake, self._wake = self._wake, -1  # the thread that calls `lost` may be late
        os.close(wake)
