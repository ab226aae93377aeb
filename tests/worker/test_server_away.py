"""A worker whose server becomes unavailable: it logs this, and continues within five seconds of the server's return.

The bug by name is celery#8030 (and #8091, #4453, #10205): a worker that has reconnected never fetches a job again.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from app_modules import Load
from history import History
from mortal_servers import MortalServer
from ports import free_port
from processes import until, worker
from proxy import Proxy, proxied

SOON = 5.0


@pytest.fixture
def mortal(tmp_path: Path) -> Iterator[MortalServer]:
    with MortalServer(tmp_path / "mortal") as server:
        yield server


def resumes(app: Any, history: History, lines: int) -> None:
    """Check that both queues continue within `SOON`, or start."""
    back = time.monotonic()
    app.mark_a.enqueue(history.path)
    app.mark_b.enqueue(history.path)
    history.wait(lines + 2)
    assert not lines or time.monotonic() - back < SOON


@pytest.mark.timeout(120)
@pytest.mark.parametrize("away", [1.0, 13.0], ids=["short outage", "long outage"])
def test_worker_continues_after_restart_of_killed_server(
    mortal: MortalServer, load: Load, apps: Path, history: History, away: float,
    ask: Any,
) -> None:  # fmt: skip
    app: Any = load(mortal.url, "shift")
    port = free_port()
    with (
        app.lw,
        worker("shift:lw", "--lease", "2s", "--health-port", str(port), url=mortal.url, folder=apps) as process,
    ):
        resumes(app, history, 0)
        mortal.kill()
        until(lambda: "no heartbeat for queue" in process.errors, "it says so")
        if away > 5:
            until(lambda: ask(port, "/readyz")[0] == 503, "it is not ready")
            assert "the server has not answered" in ask(port, "/readyz")[1]
            assert "lockwork_server_up 0" in ask(port, "/metrics")[1]
            assert ask(port, "/livez")[0] == 200
        threading.Event().wait(away)
        mortal.start()
        resumes(app, history, 2)
        until(lambda: ask(port, "/readyz")[0] == 200, "it is ready again")
        assert process.process.poll() is None


@pytest.mark.timeout(120)
def test_worker_continues_after_server_was_frozen(
    mortal: MortalServer, load: Load, apps: Path, history: History
) -> None:
    """The connections stay open, and the server does not answer."""
    app: Any = load(mortal.url, "shift")
    with app.lw, worker("shift:lw", "--lease", "2s", url=mortal.url, folder=apps) as process:
        resumes(app, history, 0)
        assert mortal._server is not None
        pid = mortal._server.pid
        os.kill(pid, signal.SIGSTOP)
        try:
            until(lambda: "no heartbeat for queue" in process.errors, "it says so")
            threading.Event().wait(8)
        finally:
            os.kill(pid, signal.SIGCONT)
        resumes(app, history, 2)


def test_worker_continues_after_all_connections_were_cut(
    url: str, shift: Any, own_url: str, apps: Path, history: History
) -> None:
    """Also while the worker is idle and cannot receive wake-ups."""
    with proxied(url) as proxy:
        with worker("shift:lw", url=f"{proxy.url.removesuffix('/0')}/{own_url.rpartition('=')[2]}", folder=apps):
            resumes(shift, history, 0)
            for lines in (2, 4, 6):
                cut(proxy)
                resumes(shift, history, lines)


def cut(proxy: Proxy) -> None:
    for end in list(proxy._peers):
        try:
            end.shutdown(2)
        except OSError:
            continue


def test_stop_does_not_wait_for_unavailable_server(
    mortal: MortalServer, load: Load, apps: Path, history: History
) -> None:
    app: Any = load(mortal.url, "shift")
    with app.lw, worker("shift:lw", "-p", "3", "--grace", "1s", url=mortal.url, folder=apps) as process:
        resumes(app, history, 0)
        mortal.kill()
        process.send(signal.SIGTERM)
        assert process.wait() == 0
        assert "Traceback" not in process.errors


LIVELY = """
from pathlib import Path
from lockwork import Lockwork
lw = Lockwork()
@lw.lifespan
async def connection():
    Path("up").touch()
    yield
    Path("down").touch()
@lw.task
async def nothing() -> None: ...
"""


def test_lifespans_end_when_the_server_is_unreachable(mortal: MortalServer, tmp_path: Path) -> None:
    """The worker waits for a pending call no longer than for jobs."""
    (tmp_path / "lively.py").write_text(LIVELY)
    with worker("lively:lw", "--grace", "1s", url=mortal.url, folder=tmp_path) as process:
        until((tmp_path / "up").exists, "it is set up")
        mortal.kill()
        until(lambda: "no heartbeat for queue" in process.errors, "it is noticed")
        process.send(signal.SIGTERM)
        assert process.wait() == 0
        assert "did not end in time" not in process.errors
    assert (tmp_path / "down").exists()


@pytest.mark.timeout(120)
def test_process_that_dies_during_outage_is_replaced(
    mortal: MortalServer, load: Load, apps: Path, history: History, tmp_path: Path
) -> None:
    """Other processes run the jobs before the end of the lease."""
    app: Any = load(mortal.url, "shift")
    gate = tmp_path / "gate"
    with app.lw, worker("shift:lw", "--lease", "60s", url=mortal.url, folder=apps) as process:
        job = app.gated.enqueue(history.path, str(gate))
        history.wait(1)
        mortal.kill()
        os.kill(process.children()[0], signal.SIGKILL)
        until(lambda: "could not be returned to the queue yet" in process.errors, "it is noticed")
        gate.touch()
        mortal.start()
        assert job.result(20) == 2
        assert app.lw.queue().status().recovered == 1


@pytest.mark.timeout(120)
def test_finished_process_waits_until_outcomes_are_stored(
    mortal: MortalServer, load: Load, apps: Path, history: History, tmp_path: Path
) -> None:
    """Otherwise, the outcome of its job would be lost, and the job would run again."""
    app: Any = load(mortal.url, "shift")
    gate = tmp_path / "gate"
    with app.lw, worker("shift:lw", "--once", url=mortal.url, folder=apps) as process:
        job = app.gated.enqueue(history.path, str(gate))
        history.wait(1)
        mortal.kill()
        gate.touch()
        history.wait(1, "done")
        until(lambda: "1 outcome waits to be settled" in process.errors, "it keeps the outcome")
        mortal.start()
        assert process.wait() == 0
        assert job.result(5) == 1
        assert app.lw.queue().status().recovered == 0
