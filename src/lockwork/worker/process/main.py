"""The worker process: runs jobs under a session that its supervisor renews."""

from __future__ import annotations

import asyncio
import io
import logging
import os
import sys
from typing import BinaryIO

import msgspec

from lockwork.errors import LockworkError
from lockwork.failures import one_line
from lockwork.logs import Log
from lockwork.worker import environment
from lockwork.worker.ipc.messages import FAILED, Control, Reporter
from lockwork.worker.loading import NotImported
from lockwork.worker.process.exit import leave_after, leave_to_supervisor, leave_within
from lockwork.worker.process.lifecycle import work
from lockwork.worker.settings import ProcessSettings

log: Log = Log("lockwork.worker")

_LONGEST = 1 << 24
"""Bytes of a line from the supervisor: a worker may have thousands of queues."""
_LAST = 10.0
"""Seconds that it has when its supervisor is gone, or when all is done and only what jobs have left behind goes on."""


async def _main(line: BinaryIO, descriptor: int) -> int:
    loop, pipe = asyncio.get_running_loop(), line.fileno()
    reader = asyncio.StreamReader(limit=_LONGEST)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), line)
    ordered = await reader.readline()
    if not ordered:
        return FAILED  # the supervisor is gone already
    settings = msgspec.json.decode(ordered, type=ProcessSettings)
    control, reporter = Control(reader, pipe), Reporter(descriptor, settings.session)
    try:
        return await work(settings, control, reporter)
    finally:
        await control.close()
        reporter.close()


def _own_input() -> BinaryIO:
    """Take our standard input, and leave an empty one in its place.

    Programs that jobs start would read the supervisor's words there, and would find that it does not block.
    """
    line = os.fdopen(os.dup(0), "rb")
    empty = os.open(os.devnull, os.O_RDONLY)
    os.dup2(empty, 0)
    os.close(empty)
    return line


def main() -> None:
    """Entry of `python -m lockwork.worker.process.main LOOP DESCRIPTOR`; orders come as JSON on standard input."""
    line = _own_input()
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(line_buffering=True)  # this process never ends in a way that would write the rest
    leave_to_supervisor()
    leave_after(line.fileno(), _LAST, FAILED)
    runner = asyncio.Runner(loop_factory=environment.factory(sys.argv[1]))
    try:
        status = runner.run(_main(line, int(sys.argv[2])))
        leave_within(_LAST, status)
        runner.close()
    except LockworkError as error:
        log.error("%s", one_line(str(error)), exc_info=error.__cause__ if isinstance(error, NotImported) else None)
        status = FAILED
    except BaseException:
        # also the SystemExit of what a job has left behind: other jobs shall not fail by that, so none is cancelled
        log.exception("this worker process stops because of an internal error")
        status = FAILED
    logging.shutdown()
    # threads that still run a job would keep the process; their jobs are returned by the supervisor
    os._exit(status)


if __name__ == "__main__":
    main()
