"""`lockwork run` in a terminal: the program reads from it and receives Ctrl-C, and Ctrl-Z stops both."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from lockwork import Lockwork
from processes import PATIENCE, alive, children, until
from terminals import Typist, typist

RUN = f"{sys.executable} -m lockwork run --lock x"


@pytest.fixture
def direct(lw: Lockwork, url: str, tmp_path: Path) -> Iterator[Typist]:
    """`lockwork run` started directly in a terminal; the program prints its input, and reports Ctrl-C."""
    code = "trap 'echo heard it; exit 5' INT; read line; echo got $line; while :; do sleep 0.05; done"
    with typist([*RUN.split(), "--", "sh", "-c", code], tmp_path, url) as at_work:
        yield at_work


@pytest.fixture
def shell(lw: Lockwork, url: str, tmp_path: Path) -> Iterator[Typist]:
    """A shell with job control."""
    with typist(["bash", "--norc", "--noprofile", "--noediting", "-i"], tmp_path, url) as at_work:
        at_work.sees("ready> ")
        at_work.types("stty -echo\n")
        at_work.sees("ready> ")
        yield at_work


def test_program_reads_and_ctrl_c_reaches_it_once(direct: Typist, lw: Lockwork) -> None:
    direct.types("hello\n")
    direct.sees("got hello")
    direct.types("\x03")
    direct.sees("heard it")
    assert direct.process.wait(PATIENCE) == 5
    assert not lw.lock("x").locked()


def test_ctrl_c_while_it_waits(lw: Lockwork, url: str, tmp_path: Path) -> None:
    with lw.lock("x"), typist([*RUN.split(), "--", "true"], tmp_path, url) as at_work:
        until(lambda: lw.lock("x").inspect().waiters, "it stands in line")
        at_work.types("\x03")
        assert at_work.process.wait(PATIENCE) == 130
        assert lw.lock("x").inspect().waiters == 0


def test_closed_terminal_ends_the_program(direct: Typist, lw: Lockwork) -> None:
    direct.types("hello\n")
    direct.sees("got hello")
    left = children(direct.process.pid)
    assert len(left) == 2
    direct.hang_up()
    direct.process.wait(PATIENCE)
    until(lambda: not any(map(alive, left)), "all of it is gone")
    assert not lw.lock("x").locked()


def test_shell_has_its_terminal_back(shell: Typist) -> None:
    shell.types(f"{RUN} -- sh -c 'read a; echo got $a'; read b; echo then $? $b\n")
    shell.types("one\n")
    shell.sees("got one")
    shell.types("two\n")
    shell.sees("then 0 two")


def test_shell_has_its_terminal_back_after_kill_9(shell: Typist) -> None:
    shell.types(f"{RUN} --grace 0.2 -- sh -c 'echo by $PPID; while :; do sleep 0.05; done'; echo status $?\n")
    shell.sees("by ")
    pid = int(shell.sees("\n"))
    left = children(pid)
    os.kill(pid, 9)
    shell.sees("status 137")
    until(lambda: not any(map(alive, left)), "all of it is gone")
    shell.types("read b; echo then $b\n")
    shell.types("two\n")
    shell.sees("then two")


def test_ctrl_z_stops_all_of_it_and_fg_goes_on(shell: Typist, lw: Lockwork) -> None:
    shell.types(f"{RUN} -- sh -c 'echo began; read a; echo got $a; exit 4' | cat; echo status ${{PIPESTATUS[0]}}\n")
    shell.sees("began")
    shell.types("\x1a")
    shell.sees("Stopped")
    shell.sees("ready> ")
    shell.types("fg\n")
    shell.types("one\n")
    shell.sees("got one")
    shell.sees("ready> ")
    assert not lw.lock("x").locked()


def test_nested_shell_has_the_terminal(shell: Typist, lw: Lockwork) -> None:
    """The nested shell creates process groups, and moves the terminal between them."""
    shell.types(f"{RUN} -- bash --norc --noprofile --noediting -i; echo status $?\n")
    shell.sees("ready> ")
    shell.types("sh -c 'echo began; read a; echo got $a'\n")
    shell.sees("began")
    shell.types("\x1a")
    shell.sees("Stopped")
    shell.types("fg\n")
    shell.types("one\n")
    shell.sees("got one")
    assert lw.lock("x").locked()
    shell.types("exit 6\n")
    shell.sees("status 6")
    shell.types("read b; echo then $b\n")
    shell.types("two\n")
    shell.sees("then two")


def test_lock_lost_during_ctrl_z_ends_the_program(shell: Typist, lw: Lockwork) -> None:
    shell.types(f"{RUN} -- sh -c 'echo began; read a; echo; echo went on'\n")
    shell.sees("began")
    shell.types("\x1a")
    shell.sees("Stopped")
    shell.sees("ready> ")
    assert lw.lock("x").force_release()
    shell.types("fg; echo status $?\n")
    shell.types("one\n")
    assert "\nwent on" not in shell.sees("status 76").replace("\r", "")


def test_from_the_background_to_the_foreground(shell: Typist, lw: Lockwork) -> None:
    shell.types(f"{RUN} -- sh -c 'echo began; read a; echo got $a; exit 4' &\n")
    shell.sees("began")

    def stopped() -> bool:
        shell.types("jobs; echo looked\n")
        return "Stopped" in shell.sees("looked")

    # The program is stopped when it reads from the terminal. `fg` works only after the shell has noticed the stop.
    until(stopped, "the job is stopped")
    shell.types("fg; echo status $?\n")
    shell.types("one\n")
    shell.sees("got one")
    shell.sees("status 4")
    assert not lw.lock("x").locked()
