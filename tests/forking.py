"""Run a function in a forked child."""

from __future__ import annotations

import os
from collections.abc import Callable


def in_a_child(does: Callable[[], object]) -> str:
    """Fork, run the function in the child, and return its result or exception as text."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        outcome = "nothing"
        try:
            outcome = str(does())
        except BaseException as error:  # noqa: BLE001 - the parent reports it
            outcome = repr(error)
        finally:
            os.write(writer, outcome.encode())
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        received = pipe.read()
    os.waitpid(child, 0)
    return received
