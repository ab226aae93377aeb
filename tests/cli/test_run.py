"""`lockwork run`: the program's status, signals, output and environment are its own; its lock is held while it runs."""

from __future__ import annotations

import os
import pty
import signal
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest
import redis

from lockwork import Lockwork
from ports import free_port
from processes import Started, alive, started, until

Run = Callable[..., AbstractContextManager[Started]]
LOST = "lockwork: lock 'x' was lost while the program ran, so it was ended"


@pytest.fixture
def run(url: str, admin: redis.Redis, tmp_path: Path) -> Run:
    def begin(*arguments: str, options: tuple[str, ...] = (), server: str = url) -> AbstractContextManager[Started]:
        command = [sys.executable, "-m", "lockwork", "run", "--lock", "x", *options, *arguments]
        return started(command, folder=tmp_path, url=server)

    return begin


def free(lw: Lockwork) -> bool:
    return not lw.lock("x").locked()


@pytest.mark.parametrize(
    ("command", "status"),
    [
        (["--", "true"], 0),
        (["true"], 0),
        (["--", "sh", "-c", "exit 7"], 7),
        (["sh", "-c", "exit 9"], 9),
        (["--", "sh", "-c", "kill -9 $$"], 128 + 9),
        (["--", "sh", "-c", "kill -TERM $$"], 128 + 15),
        (["--", "/etc/passwd"], 126),
        (["--", "no-such-program"], 127),
        ([], 2),
    ],
)
def test_the_exit_status(run: Run, lw: Lockwork, command: list[str], status: int) -> None:
    with run(*command) as process:
        assert process.wait() == status, process.errors
        assert "Traceback" not in process.errors
    assert free(lw)


def test_a_missing_program_is_named(run: Run) -> None:
    with run("--", "no-such-program") as process:
        process.wait()
        assert process.errors == "lockwork: no-such-program: command not found\n"


def test_streams_and_environment(run: Run, lw: Lockwork) -> None:
    with run("--", "sh", "-c", "echo $LOCKWORK_LOCK $LOCKWORK_FENCE; read a; echo $a; echo trouble >&2") as process:
        name, fence = process.line().split()
        assert name == "x"
        assert int(fence) == lw.lock("x").state().fence
        process.tell("hello")
        assert process.line() == "hello"
        assert process.wait() == 0
        assert process.errors == "trouble\n"


def test_the_lock_is_held_and_shows_the_program(run: Run, lw: Lockwork) -> None:
    with run("--", "sh", "-c", "echo began; read line") as process:
        process.line()
        owner = lw.lock("x").owner()
        assert owner is not None
        assert (owner.pid, owner.tags) == (process.pid, ("sh",))
        process.tell("go")
        assert process.wait() == 0
    assert free(lw)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_goes_to_the_program(run: Run, lw: Lockwork, number: signal.Signals) -> None:
    name = number.name.removeprefix("SIG")
    with run("--", "sh", "-c", f"trap 'echo heard; exit 5' {name}; echo began; while :; do sleep 0.1; done") as process:
        process.line()
        process.send(number)
        assert process.line() == "heard"
        assert process.wait() == 5
    assert free(lw)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_while_it_waits(run: Run, lw: Lockwork, number: signal.Signals) -> None:
    with lw.lock("x"), run("--", "echo", "ran") as process:
        until(lambda: lw.lock("x").state().waiters, "it stands in line")
        process.send(number)
        assert process.wait() == 128 + number
        assert process.errors == ""
        assert lw.lock("x").state().waiters == 0


def test_not_granted_in_time(run: Run, lw: Lockwork) -> None:
    with lw.lock("x"), run("--", "echo", "ran", options=("--wait", "0.2")) as process:
        assert process.wait() == 75
        assert process.errors == "lockwork: lock 'x' was not granted within 0.2 s\n"
        assert process.process.stdout is not None
        assert process.process.stdout.read() == b""


def test_a_deleted_lock_ends_the_program(run: Run, admin: redis.Redis) -> None:
    with run("--", "sh", "-c", "echo began; sleep 100 & wait") as process:
        process.line()
        admin.delete("lw:{lock:x}")
        assert process.wait() == 76
        assert process.errors.splitlines()[-1] == LOST


def test_a_program_that_will_not_end_is_killed(run: Run, lw: Lockwork) -> None:
    with run(
        "--", "sh", "-c", "trap '' TERM; echo $$; while :; do sleep 0.1; done", options=("--grace", "0.3")
    ) as process:
        pid = int(process.line())
        assert lw.lock("x").force_release()
        assert process.wait() == 76
        assert not alive(pid)


def test_a_lease_that_was_given_ends_the_program(run: Run) -> None:
    with run("--", "sleep", "100", options=("--lease", "0.5")) as process:
        assert process.wait() == 76


@pytest.mark.parametrize("trap", ["", "trap '' TERM; "])
def test_kill_9_leaves_no_program_behind(run: Run, trap: str) -> None:
    with run("--", "sh", "-c", f"{trap}sleep 100 & echo $$ $!; wait; sleep 100", options=("--grace", "0.3")) as process:
        pids = [int(pid) for pid in process.line().split()]
        process.process.kill()
        process.wait()
        until(lambda: not any(map(alive, pids)), "the program and its child are gone")


def test_ctrl_c_in_a_terminal(run: Run, url: str, lw: Lockwork, tmp_path: Path) -> None:
    pid, terminal = pty.fork()
    if not pid:
        os.environ["LOCKWORK_URL"] = url
        script = "trap 'echo heard; exit 5' INT; read line; echo got $line; while :; do sleep 0.1; done"
        os.execv(sys.executable, [sys.executable, "-m", "lockwork", "run", "--lock", "x", "--", "sh", "-c", script])
    try:
        os.write(terminal, b"hello\n")
        seen = _read_until(terminal, b"got hello")
        assert b"stopped" not in seen
        os.write(terminal, b"\x03")
        seen = _read_until(terminal, b"heard")
        assert seen.count(b"heard") == 1
        _, raw = os.waitpid(pid, 0)
        assert os.waitstatus_to_exitcode(raw) == 5
    finally:
        os.close(terminal)
    assert free(lw)


def _read_until(terminal: int, wanted: bytes) -> bytes:
    seen = b""
    while wanted not in seen:
        seen += os.read(terminal, 4096)
    return seen


def test_an_error_does_not_show_the_password(run: Run) -> None:
    server = f"redis://user:s3cr3t@127.0.0.1:{free_port()}/0"
    with run("--", "true", options=("--wait", "0", "--url", server)) as process:
        assert process.wait() == 1
        assert "s3cr3t" not in process.errors
        assert "Traceback" not in process.errors


@pytest.mark.parametrize(
    "options", [("--wait", "soon"), ("--lease", "0"), ("--grace", "-1"), ("--url", "http://:s3cr3t@x")]
)
def test_bad_options(run: Run, options: tuple[str, ...]) -> None:
    with run("--", "true", options=options) as process:
        assert process.wait() == 1
        assert process.errors.startswith("lockwork: ")
        assert "s3cr3t" not in process.errors
