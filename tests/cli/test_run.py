"""`lockwork run`: it keeps the program's status, signals, output and environment, and holds a lock while it runs."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

import pytest
import redis

from cli.conftest import Run
from lockwork import Lockwork
from ports import free_port
from processes import alive, started, until

FORWARDED = [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2]


@pytest.mark.parametrize(
    ("command", "status"),
    [
        (["--", "true"], 0),
        (["true"], 0),
        (["--", "sh", "-c", "exit 7"], 7),
        (["sh", "-c", "exit 9"], 9),
        (["--", "sh", "-c", "kill -9 $$"], 128 + 9),
        (["--", "sh", "-c", "kill -TERM $$"], 128 + 15),
        (["--", "sh", "-c", 'test "$2" = -- && test "$3" = --lock', "sh", "a", "--", "--lock"], 0),
        (["--", "/etc/passwd"], 126),
        (["--", "/no/such/program"], 127),
        (["--", "no-such-program"], 127),
        ([], 125),
    ],
)
def test_exit_status_is_the_status_of_the_program(run: Run, lw: Lockwork, command: list[str], status: int) -> None:
    with run(*command) as process:
        assert process.wait() == status, process.errors
        assert "Traceback" not in process.errors
    assert not lw.lock("x").locked()


@pytest.mark.parametrize(
    ("program", "said"),
    [("no-such-program", "command not found"), ("/", "cannot be executed: Permission denied")],
)
def test_program_that_does_not_start_is_named(run: Run, program: str, said: str) -> None:
    with run("--", program) as process:
        process.wait()
        assert process.errors.startswith(f"lockwork: {program}")
        assert process.errors.endswith(f"{said}\n")


def test_streams_and_environment(run: Run, lw: Lockwork) -> None:
    with run("--", "sh", "-c", "echo $LOCKWORK_LOCK $LOCKWORK_FENCE; read a; echo $a; echo trouble >&2") as process:
        name, fence = process.line().split()
        assert name == "x"
        assert int(fence) == lw.lock("x").inspect().fence
        process.tell("hello")
        assert process.line() == "hello"
        assert process.wait() == 0
        assert process.errors == "trouble\n"


def test_program_sees_the_end_of_its_input(run: Run) -> None:
    with run("--", "cat") as process:
        assert process.process.stdin is not None
        process.process.stdin.close()
        assert process.wait() == 0


def test_descriptor_of_the_caller_reaches_the_program(run: Run, url: str, tmp_path: Path) -> None:
    inner = f"{sys.executable} -m lockwork run --lock x -- sh -c 'echo passed on >&5' 5>found"
    with started(["sh", "-c", inner], folder=tmp_path, url=url) as process:
        assert process.wait() == 0
    assert (tmp_path / "found").read_text() == "passed on\n"


def test_our_own_descriptors_do_not_reach_the_program(run: Run) -> None:
    with run("--", "ls", "/proc/self/fd") as process:
        assert process.process.stdout is not None
        assert process.process.stdout.read().split() == [
            b"0",
            b"1",
            b"2",
            b"3",
        ]  # descriptor 3 belongs to the directory listing itself
        assert process.wait() == 0


def test_output_ends_with_the_program(run: Run) -> None:
    with run("--", "echo", "done") as process:
        assert process.process.stdout is not None
        assert process.process.stdout.read() == b"done\n"
        assert process.wait() == 0


def test_held_lock_shows_the_program(run: Run, lw: Lockwork) -> None:
    with run("--", "sh", "-c", "echo began; read line") as process:
        process.line()
        owner = lw.lock("x").owner()
        assert owner is not None
        assert (owner.pid, owner.tags) == (process.pid, ("sh",))
        process.tell("go")
        assert process.wait() == 0
    assert not lw.lock("x").locked()


@pytest.mark.parametrize("number", FORWARDED)
def test_signal_is_forwarded_to_the_program(run: Run, lw: Lockwork, number: signal.Signals) -> None:
    code = (
        "import signal, sys\n"
        f"signal.signal({int(number)}, lambda *_: (print('heard', flush=True), sys.exit(5)))\n"
        "print('began', flush=True)\n"
        "while True: signal.pause()"
    )
    with run("--", sys.executable, "-c", code) as process:
        process.line()
        process.send(number)
        assert process.line() == "heard"
        assert process.wait() == 5
    assert not lw.lock("x").locked()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_signal_ends_the_processes_that_the_program_started(run: Run, number: signal.Signals) -> None:
    with run("--", "sh", "-c", "sleep 100 & echo $!; wait") as process:
        child = int(process.line())
        process.send(number)
        assert process.wait() == 128 + number
        until(lambda: not alive(child), "the program's child is gone")


def test_ignored_signal_stays_ignored(url: str, admin: redis.Redis, tmp_path: Path) -> None:
    inner = f"trap '' HUP; exec {sys.executable} -m lockwork run --lock x -- sh -c 'kill -HUP $$; exit 3'"
    with started(["sh", "-c", inner], folder=tmp_path, url=url) as process:
        assert process.wait() == 3


@pytest.mark.parametrize("number", FORWARDED)
def test_signal_ends_the_wait_for_the_lock(run: Run, lw: Lockwork, number: signal.Signals) -> None:
    with lw.lock("x"), run("--", "echo", "ran") as process:
        until(lambda: lw.lock("x").inspect().waiters, "it stands in line")
        process.send(number)
        assert process.wait() == 128 + number
        assert process.errors == ""
        assert lw.lock("x").inspect().waiters == 0
        assert process.process.stdout is not None
        assert process.process.stdout.read() == b""


def test_not_granted_in_time(run: Run, lw: Lockwork) -> None:
    with lw.lock("x"), run("--", "echo", "ran", options=("--wait", "0.2")) as process:
        assert process.wait() == 75
        assert process.errors == "lockwork: lock 'x' was not granted within 0.2 s\n"
        assert process.process.stdout is not None
        assert process.process.stdout.read() == b""


def test_granted_after_waiting(run: Run, lw: Lockwork) -> None:
    # a handed-over grant begins with a short lease, and must not look like an expiring one
    with lw.lock("x") as grant, run("--", "echo", "ran", options=("--wait", "1m")) as process:
        until(lambda: lw.lock("x").inspect().waiters, "it stands in line")
        grant.release()
        assert process.line() == "ran"
        assert process.wait() == 0, process.errors


def test_url_option_overrides_the_environment(run: Run, url: str) -> None:
    nowhere = f"redis://127.0.0.1:{free_port()}/0"
    with run("--", "true", options=("--url", url), server=nowhere) as process:
        assert process.wait() == 0, process.errors


@pytest.mark.parametrize(
    "address",
    ["redis://user:s3cr3t@127.0.0.1:{port}/0", "http://:s3cr3t@x", "user:s3cr3t@redis://x", "redis://:s3cr3t@x:port"],
)
@pytest.mark.parametrize("given", ["option", "environment"])
def test_error_hides_the_password(run: Run, address: str, given: str) -> None:
    address = address.format(port=free_port())
    options = ("--wait", "0", "--url", address) if given == "option" else ("--wait", "0")
    with run("--", "true", options=options, server="" if given == "option" else address) as process:
        assert process.wait() == 125
        assert process.errors.startswith("lockwork: ")
        assert "s3cr3t" not in process.errors
        assert "Traceback" not in process.errors


@pytest.mark.parametrize(
    "options",
    [("--wait", "soon"), ("--lease", "0"), ("--lease", "0.5"), ("--grace", "-1"), ("--url", ""), ("--lock", "")],
)
def test_bad_options(run: Run, options: tuple[str, ...]) -> None:
    with run("--", "true", options=options) as process:
        assert process.wait() == 125
        assert process.errors.startswith("lockwork: ")
        assert "Traceback" not in process.errors


def test_unknown_option_of_run_is_refused(run: Run) -> None:
    with run("--", "true", options=("--lokc", "x")) as process:
        assert process.wait() == 125
        assert "--lokc" in process.errors
