"""What a forked child of this process finds, told to its parent."""

from __future__ import annotations

import os
from collections.abc import Callable


def in_a_child(does: Callable[[], object]) -> str:
    """Fork, run it there, and return what it returned or raised, as text."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        said = "nothing"
        try:
            said = str(does())
        except BaseException as error:  # noqa: BLE001 - the parent reports it
            said = repr(error)
        finally:
            os.write(writer, said.encode())
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        found = pipe.read()
    os.waitpid(child, 0)
    return found
