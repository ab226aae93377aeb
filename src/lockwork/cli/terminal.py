"""The process group that owns the terminal: it may read, and receives Ctrl-C."""

from __future__ import annotations

import contextlib
import os
import signal


def fill_standard_streams() -> None:
    """Open the null device where standard input, output or error is closed.

    Otherwise the next opened file gets that number, and processes print into it.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # it gets the lowest number that is free: this one
            os.set_inheritable(number, True)


class Terminal:
    """The terminal that controls this process, if there is one."""

    def __init__(self) -> None:
        try:
            self._file: int | None = os.open("/dev/tty", os.O_RDWR | os.O_CLOEXEC | os.O_NOCTTY)
        except OSError:
            self._file = None

    @property
    def there(self) -> bool:
        """True if this process has a terminal."""
        return self._file is not None

    def hand_over(self, group: int) -> None:
        """Give the terminal to `group`, if this process group owns it."""
        self._move(os.getpgrp(), group)

    def take_back(self, group: int) -> None:
        """Take the terminal back, if `group` still owns it."""
        self._move(group, os.getpgrp())

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _move(self, before: int, after: int) -> None:
        if self._file is None:
            return
        # this signal would stop a background process that gives the terminal away
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTTOU})
        try:
            with contextlib.suppress(OSError):
                if os.tcgetpgrp(self._file) == before:
                    os.tcsetpgrp(self._file, after)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
