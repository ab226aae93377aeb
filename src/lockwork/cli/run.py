"""`lockwork run`."""

from __future__ import annotations

import contextlib
import errno
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

import lockwork.runtime.engine  # noqa: F401 - else the first call imports it, when Ctrl-C already goes to the program
from lockwork.app.lockwork import Lockwork
from lockwork.cli.guarded_program import Guarded, Stopped
from lockwork.cli.help import Command
from lockwork.cli.options import names_the_app, unit_or_seconds
from lockwork.cli.project import server
from lockwork.durations import seconds
from lockwork.errors import ConfigError, LockLost, LockTimeout, LockworkError, OnceFailed, WaitTimeout
from lockwork.locks import Grant
from lockwork.protocol.locks.overview import plain
from lockwork.synchronizers.once import Once

SKIPPED = 0
"""The exit status of a run that --every skips: on most machines, that is the normal case."""
NOT_GRANTED, LOST, FAILED, NOT_EXECUTABLE, NOT_FOUND = 75, 76, 125, 126, 127
"""The exit statuses of `lockwork run` itself."""


class _Run(Command):
    """A command whose usage errors do not have the exit status 2, which may be the program's."""

    def make_context(self, *args: Any, **extra: Any) -> click.Context:
        try:
            return super().make_context(*args, **extra)
        except click.UsageError as error:
            error.exit_code = FAILED  # type: ignore[misc] # click reads it from the instance
            raise


@click.command(
    cls=_Run,
    context_settings={"allow_interspersed_args": False},
    examples={
        "lockwork run --lock nightly --wait 0 -- ./backup --all": "One backup at a time; a second one exits with 75.",
        "lockwork run --lock nightly --every 23h -- ./backup": "In the crontabs of many machines: once a day in all.",
    },
)
@click.option("--lock", "name", required=True, metavar="NAME", help="The lock to hold while the program runs.")
@click.option("--wait", help="How long to wait for the lock; 0 tries once. [default: without a limit]")
@click.option(
    "--lease",
    default="15s",
    show_default=True,
    help="How long the lock remains held after this machine dies. It is renewed while the program runs.",
)
@click.option(
    "--grace", default="5s", show_default=True, help="Time from SIGTERM to SIGKILL when the command ends the program."
)
@click.option(
    "--at-least", help="Keep the lock at least this long after it was granted, even if the program ends earlier."
)
@click.option(
    "--every",
    help="Run the program at most once in this time on all machines; otherwise skip it, with exit status 0.",
)
@names_the_app
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
def run(
    name: str,
    wait: str | None,
    lease: str,
    grace: str,
    at_least: str | None,
    every: str | None,
    url: str | None,
    prefix: str,
    command: tuple[str, ...],
) -> None:
    """Run COMMAND under a lock: lockwork run --lock nightly --wait 30s -- ./backup --all

    The program gets LOCKWORK_LOCK and LOCKWORK_FENCE in its environment. The command forwards signals to it. If the
    lock is about to be lost, or this process is killed, the program and the processes that it started are ended.

    With --every, a program that ran or runs in this period is skipped, also if it failed. The period begins with the
    program; make it a little shorter than the time between two runs. A run that never ended does not count.

    The exit status is the program's (128 + n when signal n ended it); 0 also if --every skipped the program; 75: the
    lock was not granted in time; 76: the lock was lost or could not be renewed, and the program was ended; 125: another
    problem with the lock, the server or the options; 126: the program cannot be executed; 127: it was not found.
    """
    try:
        status = _run(name, wait, lease, grace, at_least, every, url, prefix, command)
    except LockTimeout as error:
        status = _complain(str(error), NOT_GRANTED)
    except LockworkError as error:
        status = _complain(str(error), FAILED)
    sys.exit(status)


def _run(
    name: str,
    wait: str | None,
    lease: str,
    grace: str,
    at_least: str | None,
    every: str | None,
    url: str | None,
    prefix: str,
    command: tuple[str, ...],
) -> int:
    patience = None if wait is None else seconds(unit_or_seconds(wait), "--wait", zero=True)
    if not name:  # an app may have such a name; here a variable of the shell is not set
        raise ConfigError("--lock names the lock, and is an empty text")
    lasts = seconds(unit_or_seconds(lease), "--lease")
    if lasts < 1:
        raise ConfigError(f"--lease must be at least 1 s, so that it can be renewed, not {lease}")
    minimum = None if at_least is None else seconds(unit_or_seconds(at_least), "--at-least")
    period = None if every is None else seconds(unit_or_seconds(every), "--every")
    if minimum is not None and period is not None:
        raise ConfigError("--every already skips runs that come too soon: omit --at-least")
    url, client = server(url)
    with (
        Guarded(seconds(unit_or_seconds(grace), "--grace", zero=True)) as guarded,
        Lockwork(url, client=client, prefix=prefix, lock_lease=lasts) as lw,
    ):
        once = None if period is None else lw.once(name, every=period, wait=0, again_if_lost=True)
        if once is not None and once.inspect().state in ("running", "done", "failed"):
            return SKIPPED
        tag = plain(Path(command[0]).name) or "program"
        lock = lw.lock(name, wait=patience, on_lost=guarded.lost, tags=[tag], at_least=minimum)
        try:
            grant = guarded.acquire(lock)
        except Stopped as stopped:
            return 128 + stopped.number
        status, lost = _once(once, guarded, command, grant) if once else (_program(guarded, command, grant)[0], "")
        try:
            grant.release()
        except LockLost:
            return _complain(f"lock {name!r} was lost{_fate(status, ended=guarded.ended)}", LOST)
        except LockworkError as error:
            _complain(f"lock {name!r} could not be released; it ends with its lease: {error}", FAILED)
        if guarded.ended:
            return _complain(f"lock {name!r} could not be renewed{_fate(status, ended=True)}", LOST)
        return _complain(lost, LOST) if lost else status


class _Failed(Exception):
    """The program failed: it is the run of this period."""


class _NotRun(BaseException):
    """The program did not start, or was ended because of its lock: the next call runs it."""


def _once(once: Once, guarded: Guarded, command: Sequence[str], grant: Grant) -> tuple[int, str]:
    """Run the program as the run of this period; return its status, and why the run may not count."""
    status = SKIPPED

    def turn() -> None:
        nonlocal status
        status, started = _program(guarded, command, grant)
        if not started or guarded.ended:
            raise _NotRun
        if status:
            raise _Failed(f"exit status {status}")

    try:
        once.run(turn)
    except LockLost as error:
        return status, str(error)
    except (_Failed, _NotRun, OnceFailed, WaitTimeout):
        pass  # `status` says which; another machine may have run it while this one waited for the lock
    return status, ""


def _program(guarded: Guarded, command: Sequence[str], grant: Grant) -> tuple[int, bool]:
    """Run the program; return its exit status, and whether it started."""
    try:
        guarded.start(command, grant)
    except OSError as error:
        return _not_started(command[0], error), False
    return guarded.wait(grant), True


def _fate(status: int, *, ended: bool) -> str:
    how = f"with status {status}"
    return f": the program was ended, {how}" if ended else f" while the program ran to its end, {how}"


def _not_started(program: str, error: OSError) -> int:
    if isinstance(error, FileNotFoundError):
        return _complain(f"{program}: command not found", NOT_FOUND)
    reason = "this machine cannot run this file" if error.errno == errno.ENOEXEC else error.strerror
    return _complain(f"{program} cannot be executed: {reason}", NOT_EXECUTABLE)


def _complain(text: str, status: int) -> int:
    with contextlib.suppress(OSError):  # the terminal may be gone
        click.echo(f"lockwork: {text}", err=True)
    return status
