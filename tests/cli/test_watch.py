"""`--watch` in a terminal: it redraws, survives an outage of the server, and Ctrl-C restores the terminal."""

from __future__ import annotations

import re
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from cli.conftest import Office
from lockwork import Lockwork
from processes import PATIENCE, started, until
from proxy import Proxy
from terminals import Typist, typist

LOCKWORK = f"{sys.executable} -m lockwork"
XTERM = {"TERM": "xterm-256color", "NO_COLOR": "1"}
ENTERED, LEFT = "\x1b[?1049h", "\x1b[?1049l"
HIDDEN, SHOWN = "\x1b[?25l", "\x1b[?25h"
HEAD = "every 0.2 s, Ctrl-C ends"


@pytest.fixture
def shell(lw: Lockwork, url: str, tmp_path: Path) -> Iterator[Typist]:
    """A shell in a terminal that supports cursor movement."""
    bash = ["bash", "--norc", "--noprofile", "--noediting", "-i"]
    with typist(bash, tmp_path, url, environment=XTERM) as at_work:
        at_work.sees("ready> ")
        at_work.types("bind 'set enable-bracketed-paste off' 2>/dev/null; stty -echo; echo no' 'echo\n")
        at_work.sees("no echo")  # the result, not the typed command: the shell still echoed that
        yield at_work


def settings(shell: Typist) -> str:
    """Return the terminal's settings."""
    shell.types("echo is $(stty -g) so\n")
    shell.sees("is ")
    return shell.sees(" so")


def test_watch_redraws_and_ctrl_c_restores_the_terminal(shell: Typist, lw: Lockwork) -> None:
    send = lw.task(name="send", queue="mail")(print)
    send.enqueue()
    before = settings(shell)
    shell.types(f"{LOCKWORK} queue --watch 0.2; echo status $?\n")
    shell.sees(ENTERED)
    shell.sees(HEAD)
    assert re.search(r"mail +open +1 ", shell.sees("workers") + shell.sees(HEAD))
    send.enqueue_many([()] * 41)
    until(lambda: re.search(r"mail +open +42 ", shell.sees(HEAD)), "the new jobs are drawn")
    shell.types("\x03")
    shell.sees(LEFT)
    after = shell.sees("status 130")
    assert re.search(r"mail +open +42 ", after), "the last state stays on the screen"
    assert "Traceback" not in after
    assert "Aborted" not in after
    assert settings(shell) == before
    lw.queue("mail").clear()


@pytest.mark.parametrize(
    "view",
    ["status", "jobs", "job ID", "workers", "schedules", "flows", "stocks", "locks", "queue", "queue mail", "dead",
     "dead groups", "doctor"],
)  # fmt: skip
def test_every_view_can_be_watched(office: Office, tmp_path: Path, view: str) -> None:
    job = office.app.send.options(delay="1h").enqueue(1)
    words = view.replace("ID", job.id).split()
    command = [sys.executable, "-m", "lockwork", *words, "--watch", "0.2"]
    with typist(command, tmp_path, office.url, environment=XTERM) as somebody:
        assert HIDDEN in somebody.sees(HEAD)
        somebody.sees(HEAD)
        somebody.types("\x03")
        assert somebody.process.wait(PATIENCE) == 130
        left = somebody.rest()
    assert left.rindex(SHOWN) < left.rindex(LEFT) or left.rindex(LEFT) < left.rindex(SHOWN)
    assert "Traceback" not in left
    assert job.delete()


def test_sigterm_restores_the_terminal(office: Office, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "lockwork", "queue", "--watch", "0.2"]
    with typist(command, tmp_path, office.url, environment=XTERM) as somebody:
        somebody.sees(HEAD)
        somebody.process.send_signal(signal.SIGTERM)
        status = somebody.process.wait(PATIENCE)
        left = somebody.rest()
    assert LEFT in left
    assert SHOWN in left
    assert status == 143


def test_server_that_goes_away_is_named_on_the_screen(lw: Lockwork, proxy: Proxy, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "lockwork", "locks", "--watch", "0.2"]
    with lw.lock("catalog"), typist(command, tmp_path, proxy.url, environment=XTERM) as somebody:
        somebody.sees("catalog")
        proxy.refuse(on=True)
        proxy.lose("EVALSHA", "request")
        somebody.sees("the figures below are old")
        assert "catalog" in somebody.sees(HEAD)
        proxy.refuse(on=False)
        until(lambda: "the figures below are old" not in somebody.sees(HEAD), "it goes on")
        somebody.types("\x03")
        assert somebody.process.wait(PATIENCE) == 130


def test_into_a_pipe_it_prints_one_view_after_the_other(lw: Lockwork, url: str, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "lockwork", "locks", "--watch", "0.1"]
    with started(command, folder=tmp_path, url=url) as process:
        lines = [process.line() for _ in range(3)]
        process.send(signal.SIGINT)
        assert (process.wait(), process.errors) == (130, "")
    assert lines == ["no lock is held or waited for"] * 3
