"""Lifespans of worker processes: they surround all jobs, and a failing one stops the worker with one clear error."""

from __future__ import annotations

import signal
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from history import History
from lockwork import ConfigError, Lockwork
from lockwork.lifespans import Lifespans, SetUpFailed
from processes import alive, until

Load = Callable[[str], Any]


@pytest.fixture
def lively(app: Load, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Any]:
    """Loads the app with lifespans of this behavior."""

    def load(life: str) -> Any:
        monkeypatch.setenv("LIFE", life)
        return app("lively")

    return load


def seen(history: History) -> list[str]:
    return [line["event"] for line in history.lines()]


def test_lifespan_surrounds_the_jobs_of_each_process(lively: Any, work: Any, history: History) -> None:
    app = lively("well")
    with work("lively", "--processes", "2") as process:
        assert app.ready.enqueue().result(30) == "ready"
        history.wait(2, "model")
        process.send(signal.SIGTERM)
        assert process.wait() == 0
    assert sorted(seen(history)) == sorted(["first begins", "second begins", "model", "second ends", "first ends"] * 2)
    by_process: dict[int, list[str]] = {}
    for line in history.lines():
        by_process.setdefault(line["pid"], []).append(line["event"])
    for events in by_process.values():
        assert events == ["first begins", "second begins", "model", "second ends", "first ends"]


@pytest.mark.parametrize(
    ("life", "text"),
    [
        ("fails", "the lifespan second failed to start: ConnectionError: the database is away"),
        ("exits", "the lifespan second failed to start: SystemExit: no configuration"),
        ("cancelled", "the setup of this worker process was cancelled"),
        ("returns", "the lifespan third failed to start: RuntimeError: generator didn't yield"),
        ("no model", "a dependency of task 'infer' could not be provided: FileNotFoundError: the model is gone"),
    ],
)
def test_failing_lifespan_stops_the_worker_with_one_error(
    lively: Any, work: Any, history: History, life: str, text: str
) -> None:
    app = lively(life)
    job = app.ready.enqueue()
    with work("lively") as process:
        assert process.wait() == 1
        assert process.errors.count(text) == 1
        assert "failed to start (see above): the worker stops" in process.errors
    assert seen(history).count("first begins") == 1
    assert seen(history)[-1] == "first ends"
    assert job.state() == "ready"
    assert app.lw.queue().status().ready == 1
    assert app.lw.queue().workers() == []


def test_failing_lifespan_stops_the_other_processes(lively: Any, work: Any, history: History) -> None:
    lively("fails")
    with work("lively", "--processes", "3") as process:
        assert process.wait() == 1
    assert not [line["pid"] for line in history.lines() if alive(line["pid"])]


@pytest.mark.parametrize("option", ["--burst", "--once"])
def test_burst_worker_logs_its_exit(lively: Any, work: Any, history: History, option: str) -> None:
    """The work is not done, so the exit status is 1; and the lifespan is not retried."""
    app = lively("fails")
    app.ready.enqueue()
    with work("lively", option) as process:
        assert process.wait() == 1
    assert seen(history).count("first begins") == 1
    assert app.lw.queue().status().ready == 1


def test_worker_without_the_queue_skips_its_dependencies(lively: Any, work: Any) -> None:
    app = lively("no model")
    with work("lively", "--queue", "default"):
        assert app.ready.enqueue().result(30) == "ready"


def test_worker_can_be_stopped_during_its_lifespan_setup(lively: Any, work: Any, history: History) -> None:
    lively("hangs")
    with work("lively", "--grace", "10m") as process:
        history.wait(1, "hangs")
        process.send(signal.SIGTERM)
        assert process.wait() == 0
    assert seen(history)[-2:] == ["second ends", "first ends"]


def test_process_in_lifespan_setup_ends_with_its_supervisor(lively: Any, work: Any, history: History) -> None:
    lively("hangs")
    with work("lively") as process:
        (line,) = history.wait(1, "hangs")
        process.send(signal.SIGKILL)
        until(lambda: not alive(line["pid"]), "the child is gone")


def test_failing_teardown_is_logged(lively: Any, work: Any, history: History) -> None:
    app = lively("ends badly")
    with work("lively") as process:
        assert app.ready.enqueue().result(30) == "ready"
        process.send(signal.SIGTERM)
        assert process.wait() == 0
        assert "but its teardown failed" in process.errors
        assert "not closed" in process.errors
    assert seen(history)[-1] == "first ends"
    assert app.lw.queue().status().running == 0


@pytest.mark.parametrize("life", ["ends badly", "ends cancelled", "exits at its end", "ends in several ways"])
def test_failing_teardown_undoes_no_work(lively: Any, work: Any, history: History, life: str) -> None:
    """Otherwise, the process would be replaced and run another job, and so on."""
    app = lively(life)
    app.ready.enqueue_many([()] * 2)
    with work("lively", "--once") as process:
        assert process.wait() == 0
        assert "but its teardown failed" in process.errors
    assert seen(history).count("first begins") == 1
    assert seen(history)[-1] == "first ends"
    assert app.lw.queue().status().ready == 1


def test_process_that_dies_during_setup_is_replaced(
    lively: Any, work: Any, history: History, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A crash during the setup is handled like any other crash."""
    monkeypatch.setenv("MARK", str(tmp_path / "mark"))
    app = lively("fails once")
    with work("lively"):
        assert app.ready.enqueue().result(30) == "ready"
    assert len(history.lines("second begins")) == 2


def test_replacement_process_runs_the_lifespan_again(lively: Any, work: Any, history: History) -> None:
    app = lively("well")
    with work("lively"):
        app.kills.options().enqueue()
        history.wait(2, "first begins")
        assert app.ready.enqueue().result(30) == "ready"


def test_registration_refuses_wrong_lifespans() -> None:
    lw = Lockwork("redis://127.0.0.1:1")

    with pytest.raises(ConfigError, match="a lifespan must be a function with one yield, not 5"):
        lw.lifespan(5)  # type: ignore[type-var]
    with pytest.raises(ConfigError, match="a lifespan must take no arguments"):
        lw.lifespan(lambda app: None)  # type: ignore[type-var]


def plain() -> None: ...


async def coroutine() -> None: ...


@contextmanager  # type: ignore[arg-type]
def managed() -> None: ...


@asynccontextmanager  # type: ignore[arg-type]
async def amanaged() -> None: ...


@pytest.mark.parametrize("lifespan", [plain, coroutine, managed, amanaged, partial(plain), partial(amanaged)])
def test_registration_refuses_lifespans_without_yield(lifespan: Any) -> None:
    lw = Lockwork("redis://127.0.0.1:1")
    with pytest.raises(ConfigError, match=r"the lifespan .* has no yield: put `yield` between its setup and teardown"):
        lw.lifespan(lifespan)


@contextmanager
def good() -> Iterator[None]:
    yield


@asynccontextmanager
async def agood() -> AsyncIterator[None]:
    yield


@pytest.mark.parametrize("lifespan", [good, agood, partial(agood), nullcontext, lambda: nullcontext()])
async def test_context_managers_are_lifespans(lifespan: Any) -> None:
    lifespans = Lifespans()
    lifespans.add(lifespan)
    async with lifespans.around():
        pass


async def test_lifespan_must_return_a_context_manager() -> None:
    lifespans = Lifespans()
    lifespans.add(lambda: 5)
    with pytest.raises(SetUpFailed, match="it returned 5 instead of a context manager"):
        async with lifespans.around():
            pass
