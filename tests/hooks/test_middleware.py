"""Middlewares: code around the call of each job, and its effects on the outcome."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from history import History
from lockwork import ConfigError, JobFailed, Lockwork
from lockwork.errors import JobCancelled
from processes import until


@pytest.fixture
def shop(app: Callable[[str], Any], work: Any) -> Iterator[Any]:
    """The app, with a worker."""
    module = app("surrounded")
    with work("surrounded", "-c", "6"):
        yield module


def seen(history: History) -> list[str]:
    return [line["event"] for line in history.lines()]


def settle(history: History, event: str, times: int = 1) -> None:
    until(lambda: len(history.lines(event)) >= times, event)


def test_middlewares_run_in_order_in_the_coroutine_and_its_context(shop: Any, history: History) -> None:
    assert shop.coroutine.enqueue(7).result(30) == "7 acme"
    assert seen(history) == ["outer", "inner", "loop", "ran", "loop after", "inner after", "outer after"]
    assert {line["thread"] for line in history.lines()} == {"MainThread"}
    assert history.lines("outer after")[0]["result"] == "7 acme"
    assert shop.coroutine.enqueue(8).result(30) == "8 acme"


def test_middlewares_of_a_def_task_run_in_its_thread(shop: Any, history: History) -> None:
    assert shop.in_thread.enqueue(7).result(30) == "7 acme"
    settle(history, "loop after")
    assert seen(history) == ["loop", "outer", "inner", "ran", "inner after", "outer after", "loop after"]
    assert history.lines("loop")[0]["thread"] == "MainThread"
    threads = {line["thread"] for line in history.lines() if not line["event"].startswith("loop")}
    assert len(threads) == 1
    assert threads.pop().startswith("lockwork-job")


def test_middlewares_run_in_the_runner_process(shop: Any, history: History) -> None:
    assert shop.in_process.enqueue().result(30) == "acme"
    assert seen(history) == ["loop", "outer", "inner", "ran", "inner after", "outer after", "loop after"]


def test_middlewares_receive_the_error_of_each_attempt(shop: Any, history: History) -> None:
    with pytest.raises(JobFailed, match="attempt 2"):
        shop.fails.enqueue().result(30)
    assert [line["text"] for line in history.lines("outer saw")] == ["attempt 1", "attempt 2"]
    assert seen(history).count("inner after") == 2


def test_swallowed_error_stays_the_outcome(shop: Any, history: History) -> None:
    with pytest.raises(JobFailed, match="attempt 1") as failed:
        shop.swallowed.enqueue().result(30)
    assert failed.value.type == "ValueError"
    assert "surrounded.py" in (failed.value.traceback or "")


def test_error_of_a_middleware_is_the_outcome(shop: Any, history: History) -> None:
    with pytest.raises(JobFailed, match="translated") as failed:
        shop.translated.enqueue().result(30)
    assert failed.value.type == "LookupError"


def test_middleware_that_fails_before_its_yield_prevents_the_run(shop: Any, history: History) -> None:
    assert shop.never_begins.enqueue(1).result(30) == "1 acme"
    assert seen(history)[:2] == ["refused", "outer"]
    assert len(history.lines("ran")) == 1


def test_middleware_that_fails_after_its_yield_fails_the_attempt(shop: Any, history: History) -> None:
    assert shop.commits.enqueue(1).result(30) == "1 acme"
    assert len(history.lines("ran")) == 2


def test_middleware_may_snooze_the_job(shop: Any, history: History) -> None:
    assert shop.closed.enqueue(1).result(30) == "1 acme"
    assert seen(history)[:2] == ["snoozed", "outer"]
    assert [line["attempt"] for line in history.lines("ran")] == [1]


@pytest.mark.parametrize(("task", "message"), [("twice", "yielded twice"), ("no_yield", "ended before its yield")])
def test_middleware_that_does_not_yield_once_fails_the_job(
    shop: Any, history: History, task: str, message: str
) -> None:
    with pytest.raises(JobFailed, match=message) as failed:
        getattr(shop, task).enqueue(1).result(30)
    assert failed.value.type == "ConfigError"
    assert len(history.lines("ran")) == (task == "twice")


@pytest.mark.parametrize("task", ["slow", "slow_in_thread"])
def test_middleware_receives_the_timeout_with_its_text(shop: Any, history: History, task: str) -> None:
    with pytest.raises(JobFailed, match="longer than 0.3 s"):
        getattr(shop, task).enqueue().result(30)
    saw = history.lines("outer saw")[0]
    assert (saw["error"], saw["text"]) == ("JobTimeout", "it took longer than 0.3 s")


def test_middleware_receives_a_retry_request(shop: Any, history: History) -> None:
    assert shop.asks_again.enqueue().result(30) is None
    assert [line["error"] for line in history.lines("outer saw")] == ["Again"]


@pytest.mark.parametrize(("task", "error"), [("long", "CancelledError"), ("long_in_thread", "JobCancelled")])
def test_middleware_receives_the_cancellation(shop: Any, history: History, task: str, error: str) -> None:
    job = getattr(shop, task).enqueue()
    settle(history, "began")
    job.cancel()
    with pytest.raises(JobCancelled):
        job.result(30)
    settle(history, "inner after")
    if task == "long":
        assert [line["error"] for line in history.lines("outer saw")] == [error]
    assert [line["error"] for line in history.lines("loop saw")] == [error]


@pytest.mark.parametrize("task", ["batched", "abatched"])
def test_middlewares_of_a_batch_run_once_per_job(shop: Any, history: History, task: str) -> None:
    jobs = getattr(shop, task).enqueue_many([(number,) for number in range(1, 5)])
    assert [jobs[at].result(30) for at in (0, 1, 3)] == [10, 20, 40]
    with pytest.raises(JobFailed, match="three"):
        jobs[2].result(30)
    (batch,) = history.lines("batch")
    assert batch["items"] == [1, 2, 3, 4]
    assert batch["tenant"] == "acme"
    assert {line["job"]: line["result"] for line in history.lines("outer after")} == {
        jobs[0].id: 10, jobs[1].id: 20, jobs[3].id: 40,
    }  # fmt: skip
    assert [(line["job"], line["error"]) for line in history.lines("outer saw")] == [(jobs[2].id, "KeyError")]


@pytest.mark.parametrize("task", ["refuses_some", "arefuses_some"])
def test_job_refused_by_a_middleware_is_not_in_the_batch(shop: Any, history: History, task: str) -> None:
    function = getattr(shop, task)
    refused = function.options(tags=["refused"]).enqueue(1)
    others = [function.enqueue(number) for number in (2, 4)]
    assert [job.result(30) for job in others] == [20, 40]
    with pytest.raises(JobFailed, match="not now"):
        refused.result(30)
    assert [(line["items"], line["jobs"]) for line in history.lines("batch")] == [([2, 4], 2)]


def plain(job: object) -> None: ...


async def no_generator(job: object) -> None: ...


def takes_nothing() -> Iterator[None]:
    yield


@pytest.mark.parametrize("wrong", [plain, no_generator, takes_nothing, 7])
def test_wrong_middleware_is_refused(wrong: Any) -> None:
    app = Lockwork("redis://127.0.0.1:1", patience=0)
    with pytest.raises(ConfigError, match="a middleware must"):
        app.middleware(wrong)
