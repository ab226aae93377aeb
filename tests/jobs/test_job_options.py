"""Options of tasks and of single jobs, with a real worker."""

from __future__ import annotations

from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from clients import client_of
from history import History
from lockwork import JobFailed, ResultUnavailable
from lockwork.backoff import Exponential
from lockwork.protocol.keys import QueueKeys
from processes import until, worker


def _attempts(history: History) -> list[int]:
    return [line["attempt"] for line in history.lines("ran")]


def _pauses(history: History) -> list[float]:
    return [later["at"] - earlier["at"] for earlier, later in pairwise(history.lines("ran"))]


@pytest.mark.parametrize(
    ("what", "attempts"),
    [("reset", 6), ("refused", 1), ("value", 1), ("reset+reset", 6), ("reset+refused", 1), ("reset+value", 1)],
)
def test_retry_on_and_give_up_on_select_exceptions(handled: Any, history: History, what: str, attempts: int) -> None:
    job = handled.picky.enqueue(history.path, what)
    with pytest.raises(JobFailed):
        job.result(30)
    assert _attempts(history) == list(range(1, attempts + 1))


def test_retry_on_can_be_set_for_one_job(handled: Any, history: History) -> None:
    """The exception classes are stored by name, and subclasses match."""
    task = handled.picky.options(retry_on=Exception, give_up_on=ConnectionResetError, retries=1, backoff=0)
    for what in ("refused", "reset"):
        with pytest.raises(JobFailed):
            task.enqueue(history.path, what).result(30)
    assert _attempts(history) == [1, 2, 1]


def test_backoff_may_be_a_list(handled: Any, history: History) -> None:
    with pytest.raises(JobFailed):
        handled.paced.enqueue(history.path).result(30)
    first, second = _pauses(history)
    assert first >= 0.029
    assert second >= 0.009


def test_backoff_list_can_be_set_for_one_job(handled: Any, history: History) -> None:
    with pytest.raises(JobFailed):
        handled.paced.options(backoff=["50ms"], retries=1).enqueue(history.path).result(30)
    assert [pause >= 0.049 for pause in _pauses(history)] == [True]


@pytest.mark.parametrize("kind", ["calculated", "grown"])
def test_backoff_may_be_a_function_or_exponential(handled: Any, history: History, kind: str) -> None:
    with pytest.raises(JobFailed):
        getattr(handled, kind).enqueue(history.path).result(30)
    assert all(pause >= 0.009 for pause in _pauses(history))


def test_exponential_backoff_can_be_set_for_one_job(handled: Any, history: History) -> None:
    task = handled.paced.options(backoff=Exponential("20ms", factor=2, jitter=0))
    with pytest.raises(JobFailed):
        task.enqueue(history.path).result(30)
    first, second = _pauses(history)
    assert first >= 0.019
    assert second >= 0.039


def test_failing_backoff_function_does_not_lose_the_job(handled: Any, history: History) -> None:
    with pytest.raises(JobFailed, match="ValueError: no"):
        handled.miscalculated.enqueue(history.path).result(30)
    assert _attempts(history) == [1, 2]


def test_timeout_can_be_set_for_one_job(handled: Any, history: History) -> None:
    with pytest.raises(JobFailed, match="JobTimeout: it took longer than 0.05 s"):
        handled.hold.options(timeout="50ms", retries=0).enqueue(history.path).result(30)
    assert _attempts(history) == [1]


def test_poison_job_is_delivered_at_most_max_deliveries(own: Any, own_url: str, apps: Path, history: History) -> None:
    """Q5, sidekiq#4683, celery#1628: a job that kills its worker is delivered `max_deliveries` times, then dead."""
    job = own.dies.enqueue(history.path)
    with worker("handled:lw", "--lease", "5", url=own_url, folder=apps):
        with pytest.raises(
            JobFailed, match="WorkerDied: its worker died while it ran, and it was delivered 3 of at most 3"
        ):
            job.result(60)
    assert _attempts(history) == [1, 2, 3]
    view = job.inspect()
    assert (view.state, view.attempts, view.tags) == ("dead", 3, ("poison",))


def test_deliveries_do_not_mean_retries(handled: Any, history: History) -> None:
    with pytest.raises(JobFailed):
        handled.fails.enqueue(history.path).result(30)
    assert _attempts(history) == [1]
    with pytest.raises(JobFailed):
        handled.fails.options(retries=1, backoff=0).enqueue(history.path).result(30)
    assert _attempts(history) == [1, 1, 2]
    with pytest.raises(JobFailed):
        handled.paced.options(max_deliveries=1).enqueue(history.path).result(30)
    assert _attempts(history) == [1, 1, 2, 1]


def test_job_has_its_tags(handled: Any) -> None:
    job = handled.tags.options(tags=["a", "b c"]).enqueue()
    assert job.result(30) == ["a", "b c"]
    waiting = handled.tags.options(tags=["x"], delay="1h").enqueue()
    assert waiting.inspect().tags == ("x",)
    waiting.cancel()
    assert waiting.inspect().tags == ("x",)


def test_result_ttl_can_be_set_for_one_job(own: Any, own_url: str, apps: Path) -> None:
    keys = QueueKeys("lw", "default")
    with worker("handled:lw", url=own_url, folder=apps), client_of(own_url) as client:
        short = own.add.options(result_ttl="1500ms").enqueue(1)
        long = own.add.options(result_ttl=timedelta(hours=3)).enqueue(2)
        assert (short.result(30), long.result(30)) == (2, 3)
        until(
            lambda: own.add.enqueue(5).result(30) and not client.hexists(keys.long_results, short.id), "it is deleted"
        )
        assert long.result(0) == 3
        assert client.ttl(keys.long_results) > 3 * 3600
        assert client.zcard(keys.expiry) == 1
        assert short.state() == "succeeded"
        with pytest.raises(ResultUnavailable, match="has no result: its task keeps none, or result_ttl has passed"):
            short.result(0)


def test_rare_options_do_not_lengthen_plain_records(lw: Any) -> None:
    task = lw.task(name="t")(_nothing)
    assert task.call(1).record == b'1,4,,;["t",[1]]'
    assert task.options(delay="1s", priority="high").call(1).record == b'0,4,,;["t",[1]]'
    assert task.options(retries=0).call(1).record == b'1,1,,;["t",[1]]'
    assert task.options(timeout=5).call(1).record == b'1,4,,;["t",[1],{},{"timeout":5.0}]'


def _nothing(x: int) -> None:
    """Do nothing; no worker runs it."""


@pytest.mark.parametrize("extra", [b"[]", b'{"backoff":"x"}', b'{"backoff":[1,2,3,4,5]}', b'{"pauses":["x"]}', b"7"])
def test_unreadable_job_options_send_the_job_to_the_dead_set(handled: Any, extra: bytes) -> None:
    """The worker continues with other jobs."""
    from lockwork.ids import new_id
    from lockwork.protocol.queue import enqueue

    id = new_id()
    record = b'1,1,,;["add",[1],{},' + extra + b"]"
    handled.lw.runtime.run(enqueue.push(QueueKeys("lw", "default"), [enqueue.NewJob(id, record)]))
    with pytest.raises(JobFailed, match="its options"):
        handled.lw.job(id).result(30)
    assert handled.add.enqueue(1).result(30) == 2
