"""Progress bars: visible in a terminal if a command takes over a second, and nowhere else."""

from __future__ import annotations

import re
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import redis

from app_modules import load_app
from indexed import listed
from lockwork import Lockwork
from processes import PATIENCE, started, until, worker
from proxy import Proxy
from terminals import Typist, typist

APPS = Path(__file__).parents[1] / "doctor" / "apps"
XTERM = {"TERM": "xterm-256color"}
PAUSE = 2.0
"""Pause of the server in seconds: longer than a bar's delay, shorter than a command's patience."""


def command(words: str) -> list[str]:
    return [sys.executable, "-m", "lockwork", *words.split()]


@pytest.fixture
def full(lw: Lockwork, admin: redis.Redis) -> Iterator[Lockwork]:
    """Thirty jobs wait, thirty were cancelled; no worker runs."""
    jobs = lw.task(name="send", queue="mail")(print).enqueue_many([(number,) for number in range(60)])
    for job in jobs[:30]:
        assert job.cancel()
    listed(admin, "mail", kind="queues")
    yield lw
    lw.delete_jobs("mail")


@pytest.mark.parametrize(
    ("words", "doing", "done"),
    [
        ("jobs cancel mail", "cancelling", "30 jobs cancelled"),
        ("jobs retry mail --cancelled", "retrying", "30 jobs will run again"),
        ("jobs delete mail", "deleting", "60 jobs deleted"),
        ("queue clear mail", "deleting", "30 jobs deleted"),
    ],
)
def test_bar_is_drawn_in_a_terminal_and_gone_at_the_end(
    full: Lockwork, url: str, admin: redis.Redis, tmp_path: Path, words: str, doing: str, done: str
) -> None:
    with typist(command(words), tmp_path, url, environment=XTERM) as somebody:
        somebody.sees("[y/N]")
        answer_slowly(admin, somebody)
        somebody.sees(doing)
        somebody.sees("\x1b[?25h")  # the cursor is back, so the bar is gone
        somebody.sees(done)
        assert somebody.process.wait(PATIENCE) == 0


@pytest.mark.parametrize(
    ("words", "doing", "done"), [("retry", "retrying", "5 will run again"), ("delete", "deleting", "5 deleted")]
)
def test_bar_of_dead_jobs(own_url: str, tmp_path: Path, words: str, doing: str, done: str) -> None:
    app: Any = load_app(APPS, "clinic", own_url)
    with app.lw, redis.Redis.from_url(own_url) as client:
        with worker("clinic:lw", url=own_url, folder=APPS):
            app.send.enqueue_many([(-1,)] * 5)
            until(lambda: app.lw.queue("mail").status().dead == 5, "they die")
        with typist(command(f"dead {words} -q mail --all"), tmp_path, own_url, environment=XTERM) as somebody:
            somebody.sees("5 dead jobs of queue 'mail'? [y/N]")
            answer_slowly(client, somebody)
            somebody.sees(doing)
            somebody.sees("\x1b[?25h")
            somebody.sees(done)
            assert somebody.process.wait(PATIENCE) == 0


def test_ctrl_c_takes_the_bar_away(full: Lockwork, url: str, admin: redis.Redis, tmp_path: Path) -> None:
    with typist(command("jobs cancel mail"), tmp_path, url, environment=XTERM) as somebody:
        somebody.sees("[y/N]")
        answer_slowly(admin, somebody)
        somebody.sees("cancelling")
        somebody.types("\x03")
        somebody.sees("\x1b[?25h")
        somebody.sees("lockwork: interrupted after 0 of 30 jobs: run it again for the others")
        assert somebody.process.wait(PATIENCE) == 130
        assert "Traceback" not in somebody.rest()


def answer_slowly(admin: redis.Redis, somebody: Typist) -> None:
    """Answer yes to a question right after the server has begun a pause."""
    admin.client_pause(int(PAUSE * 1000))
    somebody.types("y\n")


def test_bar_counts_on_a_slow_link(full: Lockwork, proxy: Proxy, tmp_path: Path) -> None:
    full.task(name="more", queue="mail")(print).enqueue_many([(number,) for number in range(170)])
    with typist(command("jobs cancel mail"), tmp_path, proxy.url, environment=XTERM, columns=100) as somebody:
        somebody.sees("cancel 200 jobs of queue mail? [y/N]")
        proxy.slow_down(40_000)
        somebody.types("y\n")
        somebody.sees("cancelling")
        until(lambda: 0 < counted(somebody) < 200, "it counts")
        proxy.slow_down(None)
        somebody.sees("200 jobs cancelled")
        assert somebody.process.wait(PATIENCE) == 0


def counted(somebody: Typist) -> int:
    """Return the number of finished jobs on the bar."""
    return int(re.findall(r"\d+", somebody.sees(" of 200").removesuffix(" of 200"))[-1])


def test_bar_goes_to_the_terminal_and_the_result_to_the_file(
    full: Lockwork, url: str, admin: redis.Redis, tmp_path: Path
) -> None:
    with (tmp_path / "out").open("wb") as out:
        asked = typist(command("jobs cancel mail"), tmp_path, url, environment=XTERM, stdout=out)
        with asked as somebody:
            somebody.sees("[y/N]")
            answer_slowly(admin, somebody)
            somebody.sees("cancelling")
            assert somebody.process.wait(PATIENCE) == 0
    assert (tmp_path / "out").read_text() == "30 jobs cancelled\n"


@pytest.fixture
def holding(own_url: str, tmp_path: Path) -> Iterator[Callable[[], None]]:
    """Run a job until the test calls the returned function."""
    app: Any = load_app(APPS, "clinic", own_url)
    began, gate = tmp_path / "began", tmp_path / "gate"
    with app.lw, worker("clinic:lw", url=own_url, folder=APPS):
        job = app.hold.enqueue(str(began), str(gate))
        until(began.exists, "it runs")
        yield gate.touch
        job.result(30)


def test_drain_shows_a_bar_until_the_queue_is_empty(holding: Callable[[], None], own_url: str, tmp_path: Path) -> None:
    with typist(command("queue drain mail"), tmp_path, own_url, environment=XTERM) as somebody:
        somebody.sees("draining")
        somebody.sees("0 of 1")
        holding()
        somebody.sees("mail")
        assert somebody.process.wait(PATIENCE) == 0


def test_progress_bar_is_not_printed_into_a_pipe(holding: Callable[[], None], own_url: str, tmp_path: Path) -> None:
    with started(command("queue drain mail --json"), folder=tmp_path, url=own_url) as process:
        threading.Event().wait(2.5)  # longer than a bar's delay
        assert process.process.poll() is None
        holding()
        assert process.process.stdout is not None
        printed = process.process.stdout.read().decode()
        assert (process.wait(), process.errors) == (0, "")
    assert printed.startswith("{")
    assert "draining" not in printed
