"""`lockwork run` that loses its lock, or is killed or stopped: the program never runs long without the lock."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pytest
import redis

from cli.conftest import Run
from lockwork import Lockwork
from lockwork.runtime.embedded import start_private
from processes import Started, alive, children, stopped, until

STUBBORN = "trap '' TERM; sleep 100 & echo $$ $!; while :; do sleep 0.1; done"
MEEK = "sleep 100 & echo $$ $!; wait"


def begun(process: Started) -> list[int]:
    """Return the process ids of the program and its child after their start."""
    return [int(pid) for pid in process.line().split()]


def watcher(process: Started, program: int) -> int:
    """Return the process id of the watcher."""
    (found,) = [pid for pid in process.children() if pid != program]
    return found


def gone(pids: list[int]) -> bool:
    return not any(map(alive, pids))


@pytest.mark.parametrize("code", [MEEK, STUBBORN], ids=["meek", "stubborn"])
@pytest.mark.parametrize("loss", ["deleted", "taken away"])
def test_lost_lock_ends_the_program(run: Run, lw: Lockwork, admin: redis.Redis, code: str, loss: str) -> None:
    with run("--", "sh", "-c", code, options=("--grace", "0.3")) as process:
        pids = begun(process)
        if loss == "deleted":
            admin.delete("lw:{lock:x}")
        else:
            assert lw.lock("x").force_release()
        assert process.wait() == 76
        assert gone(pids[:1])
        assert process.errors.splitlines()[-1].startswith("lockwork: lock 'x' was lost: the program was ended")
        until(lambda: gone(pids), "what the program has started is gone, too")


def test_program_cleans_up_after_sigterm(run: Run, lw: Lockwork) -> None:
    code = "trap 'echo tidy; exit 0' TERM; echo began; while :; do sleep 0.05; done"
    with run("--", "sh", "-c", code, options=("--grace", "30s")) as process:
        process.line()
        lw.lock("x").force_release()
        assert process.line() == "tidy"
        assert process.wait() == 76


def test_next_holder_keeps_the_lock(run: Run, lw: Lockwork) -> None:
    with run("--", "sh", "-c", MEEK) as process:
        begun(process)
        lw.lock("x").force_release()
        with lw.lock("x") as grant:
            assert process.wait() == 76
            grant.check()
            assert lw.lock("x").locked()


def test_lock_lost_at_the_end_of_the_program_is_reported(run: Run, lw: Lockwork, admin: redis.Redis) -> None:
    with run("--", "sh", "-c", "echo began; read line; exit 3") as process:
        process.line()
        process.send(signal.SIGSTOP)  # it must not notice the loss before the program ends
        until(lambda: stopped(process.pid), "it is stopped")
        admin.delete("lw:{lock:x}")
        process.tell("go")
        program = [pid for pid in children(process.pid) if "watcher.py" not in _command(pid)]
        until(lambda: gone(program), "the program has ended")
        process.send(signal.SIGCONT)
        assert process.wait() == 76
        assert "ran to its end, with status 3" in process.errors


def test_lost_server_ends_the_program_before_the_lease_expires(run: Run, tmp_path: Path) -> None:
    """Other callers get the lock only after the lease's end, and the program ends before."""
    (tmp_path / "own").mkdir()
    with (
        start_private(tmp_path / "own") as server,
        run("--", "sh", "-c", MEEK, options=("--lease", "3s", "--grace", "0.5s"), server=server.url) as process,
    ):
        pids = begun(process)
        with redis.Redis.from_url(server.url) as admin:
            admin.execute_command(
                "CLIENT", "PAUSE", 60_000, "WRITE"
            )  # connections stay open, but the server renews no lease
            until(lambda: gone(pids), "all of it is gone")
            admin.execute_command("CLIENT", "UNPAUSE")
        assert process.wait() == 76
        assert "the program was ended, with status 143" in process.errors


@pytest.mark.parametrize("code", [MEEK, STUBBORN], ids=["meek", "stubborn"])
def test_kill_9_leaves_no_program_behind(run: Run, code: str) -> None:
    with run("--", "sh", "-c", code, options=("--grace", "0.3")) as process:
        pids = begun(process)
        pids.append(watcher(process, pids[0]))
        process.process.kill()
        process.wait()
        until(lambda: gone(pids), "the program, its child and the watcher are gone")


LEAVES = "import os, time; os.setsid(); print(os.getpid(), flush=True); time.sleep(100)"


def test_program_that_leaves_its_group_is_ended_with_the_lock(run: Run, lw: Lockwork) -> None:
    with run("--", sys.executable, "-c", LEAVES) as process:
        begun(process)
        lw.lock("x").force_release()
        assert process.wait() == 76


def test_program_that_leaves_its_group_is_ended_after_kill_9(run: Run) -> None:
    with run("--", sys.executable, "-c", LEAVES) as process:
        pids = begun(process)
        process.process.kill()
        process.wait()
        until(lambda: gone(pids), "the program is gone")


def test_kill_9_while_it_waits_leaves_no_watcher(run: Run, lw: Lockwork) -> None:
    with lw.lock("x"), run("--", "true", options=("--grace", "0.3")) as process:
        until(lambda: lw.lock("x").inspect().waiters, "it stands in line")
        left = process.children()
        assert len(left) == 1
        process.process.kill()
        process.wait()
        until(lambda: gone(left), "the watcher is gone")


def test_paused_past_its_lease(run: Run) -> None:
    """After SIGSTOP on `lockwork run`, its lease ends, so the watcher ends the program."""
    with run("--", "sh", "-c", STUBBORN, options=("--lease", "1s", "--grace", "0.2")) as process:
        pids = begun(process)
        process.send(signal.SIGSTOP)
        until(lambda: gone(pids), "the watcher has ended the program")
        process.send(signal.SIGCONT)
        assert process.wait() == 76


def test_stopped_program_is_ended_with_its_lock(run: Run, lw: Lockwork) -> None:
    with run("--", "sh", "-c", MEEK) as process:
        pids = begun(process)
        os.kill(pids[0], signal.SIGSTOP)
        until(lambda: stopped(pids[0]), "it is stopped")
        lw.lock("x").force_release()
        assert process.wait() == 76


def test_killed_watcher_is_replaced(run: Run) -> None:
    with run("--", "sh", "-c", MEEK, options=("--grace", "0.3")) as process:
        pids = begun(process)
        first = watcher(process, pids[0])
        os.kill(first, signal.SIGKILL)

        def second() -> list[int]:
            return [pid for pid in process.children() if pid not in {pids[0], first} and "watcher.py" in _command(pid)]

        until(second, "there is another watcher")
        pids += second()
        process.process.kill()
        process.wait()
        until(lambda: gone(pids), "everything is gone")


def test_clean_exit_leaves_no_key(run: Run, lw: Lockwork) -> None:
    with run("--", sys.executable, "-c", "print('began', flush=True); input()") as process:
        process.line()
        left = process.children()
        assert len(left) == 2
        process.tell("")
        assert process.wait() == 0
        assert gone(left)
    assert not lw.lock("x").locked()


def _command(pid: int) -> str:
    return Path(f"/proc/{pid}/cmdline").read_text()
