"""Run a program of the demo, and end it when the demo's process ends, even by SIGKILL.

Usage: parent_watch.py MODULE|FILE.py [ARGUMENT...]; standard input is a pipe that only the demo's
process holds open, so its end is the end of that process.
"""

from __future__ import annotations

import os
import runpy
import signal
import sys
import threading
import time

LONGEST = 5.0
"""Seconds that a program may take to end in good order; more than a worker needs to end its children."""


def main() -> None:
    """Run the program as if it had been started itself, in the current directory."""
    program, *arguments = sys.argv[1:]
    threading.Thread(target=_end_with_the_demo, name="parent-watch", daemon=True).start()
    sys.argv = [program, *arguments]
    sys.path[0] = os.getcwd()  # noqa: PTH109 - an entry of the path is text
    if program.endswith(".py"):
        runpy.run_path(program, run_name="__main__")
    else:
        runpy.run_module(program, run_name="__main__", alter_sys=True)


def _end_with_the_demo() -> None:
    # not through sys.stdin: a thread inside of that one would disturb the interpreter's end
    while os.read(0, 1024):
        pass
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(LONGEST)
    os._exit(1)


if __name__ == "__main__":
    main()
