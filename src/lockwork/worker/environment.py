"""Logging of the worker's processes. The app's configuration takes precedence; the default is standard error."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path

from lockwork.errors import ConfigError
from lockwork.failures import one_line
from lockwork.jobs.log_fields import JobFields
from lockwork.lazy import asyncio
from lockwork.logs import Log
from lockwork.protocol.queue.leases import Buried
from lockwork.tracebacks import LOGGED, LOGGED_TEXT, bounded
from lockwork.version import install_command
from lockwork.words import several

_PS = "/bin/ps"


def resident(pid: int) -> int | None:
    """Return the resident memory of a process in bytes; None if the system does not report it."""
    try:
        pages = Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1]
        return int(pages) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, IndexError, ValueError):
        return None if Path("/proc/self/statm").exists() else _rss_from_ps(pid)


def _rss_from_ps(pid: int) -> int | None:
    """Read the resident memory from `ps`, on systems without /proc."""
    try:
        process = subprocess.run(  # noqa: S603 - a fixed program and a number
            [_PS, "-o", "rss=", "-p", str(pid)], capture_output=True, timeout=2, check=True
        )
        return int(process.stdout) * 1024
    except (OSError, subprocess.SubprocessError, ValueError):
        return None


LOOPS = ("uvloop", "asyncio")


def chosen(name: str | None) -> str:
    """Return the name of the event loop: `name`, else uvloop if it is installed. Raises ConfigError."""
    installed = find_spec("uvloop") is not None
    if name is None:
        return "uvloop" if installed else "asyncio"
    if name == "uvloop" and not installed:
        raise ConfigError(f"uvloop is not installed here: {install_command('fast')}, or omit --loop")
    return name


def factory(name: str) -> Callable[[], asyncio.AbstractEventLoop] | None:
    """Return the factory of the named loop; None selects Python's own."""
    if name == "asyncio":
        return None
    import uvloop  # noqa: PLC0415 - an extra

    return uvloop.new_event_loop


log: Log = Log("lockwork.worker")

_NAMED = 10
"""Maximum number of jobs that one log line names."""
AGAIN = 5.0
"""Seconds between two warnings about the same lasting problem."""
LEVELS = ("debug", "info", "warning", "error")
FORMATS = ("text", "json")

JOB_FIELDS = ("job", "task", "queue", "attempt", "seconds")
"""`extra` fields of log records about a job; `seconds` is its run time."""


def log_buried(queue: str, session: str, buried: Sequence[Buried]) -> None:
    """Log the jobs that were buried because the worker that ran them died or lost its session."""
    named = [f"{job.id} of task {job.task!r} ({job.problem})" for job in buried[:_NAMED]]
    if len(buried) > _NAMED:
        named.append(f"and {len(buried) - _NAMED} more")
    count = several(len(buried), "job goes", "jobs go")
    log.error(
        "queue %s: %s to the dead set with worker session %s: %s", queue, count, session, one_line(", ".join(named))
    )


def log_suspects(queue: str, session: str, ids: Sequence[str]) -> None:
    """Log the jobs that run in isolation because they were running when a worker process crashed, now or before."""
    named = ", ".join(ids[:_NAMED]) + (f" and {len(ids) - _NAMED} more" if len(ids) > _NAMED else "")
    jobs = several(len(ids), "job runs", "jobs run")
    log.warning("queue %s: %s alone next, after worker session %s died: %s", queue, jobs, session, one_line(named))


@contextlib.contextmanager
def configured(level: str | None, form: str | None) -> Iterator[None]:
    """Import the app inside this block; on exit, configure the logging that the app did not configure.

    level: always sets the level of Lockwork's own loggers. form: one of FORMATS.
    """
    Log.stays_enabled = True
    root = logging.getLogger()
    if not root.handlers:  # otherwise the app has configured logging already
        root.setLevel(_number(level))  # unless the app sets a different level
    try:
        yield
    finally:
        if level is not None:
            _set_level_of_ours(level)
        handlers = [handler for handler in root.handlers if not isinstance(handler, logging.NullHandler)]
        if not handlers or (root.level == _number(level) and _by_accident(handlers)):
            root.handlers = [_handler(form)]


def overruled(form: str | None) -> bool:
    """Return True if the app's configuration overrides the requested format."""
    ours = any(isinstance(handler.formatter, _Text | _Json) for handler in logging.getLogger().handlers)
    return form is not None and not ours


def _handler(form: str | None) -> logging.Handler:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Json() if form == "json" else _Text())
    handler.addFilter(_not_printed_elsewhere)
    handler.addFilter(JobFields())
    return handler


def _number(level: str | None) -> int:
    return logging.INFO if level is None else int(getattr(logging, level.upper()))


def _set_level_of_ours(level: str) -> None:
    for name, logger in list(logging.Logger.manager.loggerDict.items()):
        if name.startswith("lockwork.") and isinstance(logger, logging.Logger):
            logger.setLevel(logging.NOTSET)
    logging.getLogger("lockwork").setLevel(_number(level))


def _by_accident(handlers: list[logging.Handler]) -> bool:
    """Return True if these handlers come from `logging.warning` without a configuration."""
    if len(handlers) != 1 or type(handlers[0]) is not logging.StreamHandler:
        return False
    form = handlers[0].formatter
    return form is not None and form._fmt == logging.BASIC_FORMAT  # noqa: SLF001 - it has no public name


def _not_printed_elsewhere(record: logging.LogRecord) -> bool:
    """Return False if a handler below the root already prints the record."""
    root = logging.getLogger()
    logger: logging.Logger | None = logging.getLogger(record.name)
    while logger is not None and logger is not root:
        if any(not isinstance(handler, logging.NullHandler) for handler in logger.handlers):
            return False
        logger = logger.parent
    return True


class _Formatter(logging.Formatter):
    def formatException(self, ei: logging._SysExcInfoType) -> str:  # noqa: N802 - logging's name
        _, error, first = ei
        if error is None:
            return ""
        try:
            return bounded(error, first, text=LOGGED_TEXT, total=LOGGED).rstrip("\n")
        except Exception:  # noqa: BLE001 - it looks at the error and its causes, which may do anything; frames do nothing
            return "".join(traceback.format_tb(first)).rstrip()


class _Text(_Formatter):
    """Formats one line per record, with an indented traceback below: no error text can imitate another record."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s [%(process)d] %(name)s: %(message)s")

    def format(self, record: logging.LogRecord) -> str:
        if record.exc_text:  # text of another formatter, or shortened, but not indented
            record = copy(record)
            record.exc_text = None
        return super().format(record)

    def formatException(self, ei: logging._SysExcInfoType) -> str:  # noqa: N802 - logging's name
        return "\n".join(f"  {one_line(text)}" for text in super().formatException(ei).split("\n"))


class _Json(_Formatter):
    """Formats one JSON object per record, on one line."""

    def format(self, record: logging.LogRecord) -> str:
        at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        fields: dict[str, object] = {
            "time": at.replace("+00:00", "Z"),
            "level": record.levelname,
            "logger": record.name,
            "process": record.process,
            "message": record.getMessage(),
        }
        fields |= {name: value for name in JOB_FIELDS if (value := getattr(record, name, None)) is not None}
        if record.exc_info:
            fields["exception"] = self.formatException(record.exc_info)
        if record.stack_info:
            fields["stack"] = self.formatStack(record.stack_info)
        return json.dumps(fields, default=str)
