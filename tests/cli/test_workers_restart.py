"""`lockwork workers restart`: each worker has a successor before the next one stops."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from lockwork import ConfigError, Lockwork
from lockwork.cli.commands import cli
from processes import Started, until, worker

APP = """
from lockwork import Lockwork

lw = Lockwork(app_name="shop")


@lw.task
async def nothing() -> None: ...
"""


@contextmanager
def managed(folder: Path, url: str, *, restarts: bool = True) -> Iterator[list[Started]]:
    """Run a worker, and start another one after each that ends, as a process manager does."""
    begun: list[Started] = []
    over = threading.Event()
    failed: list[BaseException] = []

    def manage() -> None:
        while not over.is_set():
            with worker("shop:lw", "--grace", "1", url=url, folder=folder) as process:
                begun.append(process)
                while process.process.poll() is None and not over.wait(0.05):
                    pass
                process.send(signal.SIGTERM)
                try:
                    assert process.wait() == 0, process.errors
                except BaseException as error:  # noqa: BLE001 - the test raises it
                    failed.append(error)
            if not restarts:
                return

    thread = threading.Thread(target=manage, name="manager")
    thread.start()
    try:
        yield begun
    finally:
        over.set()
        thread.join()
        assert failed == []


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "shop.py").write_text(APP)
    return tmp_path


@pytest.fixture
def lw(own_url: str) -> Iterator[Lockwork]:
    with Lockwork(own_url) as lw:
        yield lw


def restart(url: str, *words: str) -> Result:
    return CliRunner(env={"LOCKWORK_URL": url}).invoke(cli, ["workers", "restart", *words])


def names(lw: Lockwork) -> set[str]:
    return {each.name for each in lw.workers() if each.alive}


@pytest.mark.timeout(120)
def test_workers_are_restarted_one_by_one(lw: Lockwork, own_url: str, folder: Path) -> None:
    with managed(folder, own_url) as first, managed(folder, own_url) as second:
        until(lambda: len(names(lw)) == 2, "both workers run")
        before = names(lw)
        fewest: list[int] = []
        done = threading.Event()

        def watch() -> None:
            while not done.wait(0.05):
                fewest.append(sum(each.alive and each.state == "running" for each in lw.workers()))

        watching = threading.Thread(target=watch)
        watching.start()
        result = restart(own_url, "--one-by-one", "--yes", "--timeout", "60s")
        done.set()
        watching.join()
        assert result.exit_code == 0, result.output
        lines = result.output.splitlines()
        assert {line.split()[1] for line in lines} == before
        assert {line.split()[-2] for line in lines} == names(lw)
        assert before & names(lw) == set()
        assert len(first) == len(second) == 2
        assert min(fewest) == 1


@pytest.mark.timeout(120)
def test_worker_without_a_process_manager_is_reported(lw: Lockwork, own_url: str, folder: Path) -> None:
    with managed(folder, own_url, restarts=False), managed(folder, own_url, restarts=False):
        until(lambda: len(names(lw)) == 2, "both workers run")
        result = restart(own_url, "--one-by-one", "--yes", "--timeout", "3s")
        assert result.exit_code == 1
        assert isinstance(result.exception, ConfigError)
        text = str(result.exception)
        assert "has ended, and no process manager started a successor within 3.0 s: start a worker" in text
        assert text.endswith("; 1 worker not restarted")
        (left,) = names(lw)
        alone = restart(own_url, left, "--timeout", "1s", "--json")
        assert "no process manager started a successor" in str(alone.exception)


def test_restart_names_what_to_pass(own_url: str) -> None:
    for words, text in (
        ((), "pass the name of a worker, or --one-by-one; to stop all at once, use workers stop --all"),
        (("web1", "--one-by-one"), "pass the name of a worker"),
    ):
        result = restart(own_url, *words)
        assert result.exit_code == 2
        assert text in " ".join(result.output.split())
    nothing: Any = restart(own_url, "--one-by-one", "--yes").exception
    assert str(nothing) == "nothing to restart: no worker runs"
