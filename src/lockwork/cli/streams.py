"""The standard streams of a command that starts processes."""

from __future__ import annotations

import os


def fill_standard_streams() -> None:
    """Open the null device where standard input, output or error is closed.

    Else what is opened next would get that number, and processes would write to it what they print.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # it gets the lowest number that is free: this one
            os.set_inheritable(number, True)
