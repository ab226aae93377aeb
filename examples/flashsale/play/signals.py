"""Ctrl-C and its kin as the answer of a wait, so that they never strike in the middle of a start or a clean-up."""

from __future__ import annotations

import os
import select
import signal
from types import FrameType, TracebackType
from typing import Any, Self

from play.failure import Interrupted


class Signals:
    """While entered, a signal only makes the present or next `wait` raise Interrupted."""

    def __init__(self) -> None:
        self.number: int = 0
        self._previous: dict[int, Any] = {}

    def __enter__(self) -> Self:
        self._woken, self._wake = os.pipe()
        os.set_blocking(self._woken, False)
        os.set_blocking(self._wake, False)
        self._previous_wake = signal.set_wakeup_fd(self._wake, warn_on_full_buffer=False)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            # nohup, and a shell's background job, ignore some: they stay ignored
            if signal.getsignal(number) is not signal.SIG_IGN:
                self._previous[number] = signal.signal(number, self._on_signal)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(self._previous_wake)
        os.close(self._woken)
        os.close(self._wake)

    def wait(self, seconds: float, *files: int) -> list[int]:
        """Wait until one of the files can be read, and return those that can; raises Interrupted."""
        ready: list[int] = []
        if not self.number:
            ready, _, _ = select.select([self._woken, *files], [], [], seconds)
            if self._woken in ready:
                os.read(self._woken, 4096)
                ready.remove(self._woken)
        if self.number:
            raise Interrupted(self.number)
        return ready

    def _on_signal(self, number: int, _: FrameType | None) -> None:
        self.number = self.number or number
