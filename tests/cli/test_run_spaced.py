"""`lockwork run` with --at-least and --every: programs that many machines start at almost the same time."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from cli.conftest import Run
from lockwork import Lockwork
from processes import until

SOON = "10m"


@pytest.fixture
def ran(tmp_path: Path) -> Path:
    """A file with one line for each run of the program."""
    path = tmp_path / "ran"
    path.touch()
    return path


def count(ran: Path) -> int:
    return len(ran.read_text().splitlines())


def program(ran: Path, then: str = "true") -> tuple[str, ...]:
    return "--", "sh", "-c", f"echo ran >> {ran}; {then}"


def test_lock_stays_taken_for_its_minimum(run: Run, lw: Lockwork, ran: Path) -> None:
    statuses = []
    for _ in range(3):
        with run("--wait", "0", "--at-least", SOON, *program(ran)) as process:
            statuses.append(process.wait())
    assert statuses == [0, 75, 75]
    assert count(ran) == 1
    assert lw.lock("x").locked()
    lw.lock("x").force_release()


@pytest.mark.parametrize("then", ["true", "exit 7"])
def test_program_runs_once_in_a_period(run: Run, lw: Lockwork, ran: Path, then: str) -> None:
    """A failed run counts as well; otherwise all machines would run the program one after the other."""
    statuses = []
    for _ in range(4):
        with run("--every", SOON, *program(ran, then)) as process:
            statuses.append(process.wait())
            assert process.errors == ""
    assert statuses == [7 if then == "exit 7" else 0, 0, 0, 0]
    assert count(ran) == 1
    assert lw.once("x").inspect().state == ("failed" if then == "exit 7" else "done")
    assert not lw.lock("x").locked()


def test_program_runs_again_in_the_next_period(run: Run, lw: Lockwork, ran: Path) -> None:
    for _ in range(2):
        with run("--every", "50ms", *program(ran)) as process:
            assert process.wait() == 0
        until(lambda: lw.once("x").inspect().state == "idle", "the period has ended")
    assert count(ran) == 2


def test_program_that_is_running_elsewhere_is_skipped(run: Run, ran: Path) -> None:
    with run("--every", SOON, *program(ran, "read line")) as first:
        until(lambda: count(ran), "it runs")
        with run("--every", SOON, *program(ran)) as second:
            assert second.wait() == 0
        first.tell("go")
        assert first.wait() == 0
    assert count(ran) == 1


def test_waiter_skips_the_program_that_ran_meanwhile(run: Run, lw: Lockwork, ran: Path) -> None:
    grant = lw.lock("x").acquire()
    with run("--every", SOON, *program(ran)) as first, run("--every", SOON, *program(ran)) as second:
        until(lambda: lw.lock("x").inspect().waiters == 2, "both wait")
        grant.release()
        assert (first.wait(), second.wait()) == (0, 0)
    assert count(ran) == 1


def test_program_that_did_not_start_does_not_count(run: Run, lw: Lockwork, ran: Path) -> None:
    with run("--every", SOON, "--", "/no/such/program") as process:
        assert process.wait() == 127
    with run("--every", SOON, *program(ran)) as process:
        assert process.wait() == 0
    assert count(ran) == 1


def test_program_whose_lock_was_taken_away_does_not_count(run: Run, lw: Lockwork, ran: Path) -> None:
    with run("--every", SOON, *program(ran, "exec sleep 600")) as process:
        until(lambda: count(ran), "it runs")
        lw.lock("x").force_release()
        assert process.wait() == 76
    with run("--every", SOON, *program(ran)) as process:
        assert process.wait() == 0
    assert count(ran) == 2


def test_run_that_was_killed_does_not_count(run: Run, lw: Lockwork, ran: Path) -> None:
    with run("--every", SOON, "--lease", "1s", *program(ran, "exec sleep 600")) as process:
        until(lambda: count(ran), "it runs")
        process.send(signal.SIGKILL)
        process.wait()
    until(lambda: lw.once("x").inspect().state == "lost", "its lease has ended")
    with run("--every", SOON, *program(ran)) as process:
        assert process.wait() == 0
    assert count(ran) == 2


def test_both_options_exclude_each_other(run: Run) -> None:
    with run("--every", "1d", "--at-least", "1m", "--", "true") as process:
        assert process.wait() == 125
        assert "omit --at-least" in process.errors


@pytest.mark.parametrize("option", ["--every", "--at-least"])
def test_nonsense_is_no_duration(run: Run, option: str) -> None:
    with run(option, "soon", "--", "true") as process:
        assert process.wait() == 125
        assert option in process.errors


def test_program_keeps_its_lock_for_longer_than_the_lease(run: Run, lw: Lockwork, ran: Path) -> None:
    with run("--lease", "1s", *program(ran, "read line")) as process:
        until(lambda: count(ran), "it runs")
        assert lw.lock("x", wait=3).try_acquire() is None
        with pytest.raises(TimeoutError):
            lw.lock("x").acquire(wait=3)
        process.tell("go")
        assert process.wait() == 0
        assert process.errors == ""
