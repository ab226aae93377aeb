"""The worker process: runs jobs under a session that its supervisor renews."""

from __future__ import annotations

import asyncio
import io
import logging
import os
import sys
from typing import BinaryIO

import msgspec

from lockwork.app.lockwork import Lockwork
from lockwork.errors import LockworkError
from lockwork.failures import one_line
from lockwork.logs import Log
from lockwork.worker import environment
from lockwork.worker.environment import configured
from lockwork.worker.execution.forked_copies import watch_for_copies
from lockwork.worker.ipc.messages import FAILED, NOT_IMPORTED, PipeControl, SocketReporter
from lockwork.worker.loading import NotImported, load
from lockwork.worker.process.exit import leave_after, leave_to_supervisor, leave_within
from lockwork.worker.process.lifecycle import work
from lockwork.worker.settings import ProcessSettings

log: Log = Log("lockwork.worker")

_LONGEST = 1 << 24
"""Maximum bytes of a line from the supervisor: a worker may have thousands of queues."""
_LAST = 10.0
"""Seconds until a forced exit when the supervisor is gone, or when only leftovers of finished jobs still run."""


async def _main(app: Lockwork, settings: ProcessSettings, line: BinaryIO, received: bytes, descriptor: int) -> int:
    """Run jobs; `received` are the bytes already read from `line` after the settings."""
    loop, pipe = asyncio.get_running_loop(), line.fileno()
    watch_for_copies()
    reader = asyncio.StreamReader(limit=_LONGEST)
    reader.feed_data(received)
    transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), line)
    control, reporter = PipeControl(reader, pipe), SocketReporter(descriptor, settings.session)
    try:
        return await work(app, settings, control, reporter)
    finally:
        await control.close()
        transport.close()
        reporter.close()


def _read_settings(line: BinaryIO) -> tuple[ProcessSettings | None, bytes]:
    """Read the first line; return the settings (None if the supervisor is gone) and the bytes after that line."""
    received = b""
    while b"\n" not in received:
        part = os.read(line.fileno(), _LONGEST)
        if not part:
            return None, b""
        received += part
    settings, _, rest = received.partition(b"\n")
    return msgspec.json.decode(settings, type=ProcessSettings), rest


def _own_input() -> BinaryIO:
    """Take over standard input, and put an empty file in its place.

    Otherwise programs that jobs start would read the supervisor's messages there, from a nonblocking descriptor.
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
        sys.stdout.reconfigure(line_buffering=True)  # os._exit does not flush buffers
    leave_to_supervisor()
    leave_after(line.fileno(), _LAST, FAILED)
    status = FAILED
    try:
        settings, received = _read_settings(line)
        if settings is not None:
            # before the event loop runs: the import may block, or run its own loop
            with configured(settings.options.log_level, settings.options.log_format):
                app = load(settings.options.app, settings.options.discover)
            runner = asyncio.Runner(loop_factory=environment.factory(sys.argv[1]))
            status = runner.run(_main(app, settings, line, received, int(sys.argv[2])))
            leave_within(_LAST, status)
            runner.close()
    except NotImported as error:
        log.error("%s", one_line(str(error)), exc_info=error.__cause__)
        status = NOT_IMPORTED
    except LockworkError as error:
        log.error("%s", one_line(str(error)))
        status = FAILED
    except BaseException:
        # includes a SystemExit from a finished job's leftovers: it must not fail other jobs, so none is cancelled
        log.exception("this worker process stops because of an internal error")
        status = FAILED
    logging.shutdown()
    # threads that still run a job would keep the process alive; the supervisor returns their jobs
    os._exit(status)


if __name__ == "__main__":
    main()
