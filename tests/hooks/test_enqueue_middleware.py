"""Middlewares around an enqueue, and the job headers that they set."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from lockwork import ConfigError, Lockwork, PayloadTooLarge, ServerUnavailable
from lockwork.jobs.options import headers, with_headers

HEADERS = {"tenant": "acme/inner"}


@pytest.fixture
def shop(app: Callable[[str], Any], work: Any) -> Iterator[Any]:
    """The app, with a worker."""
    module = app("outgoing")
    with work("outgoing"):
        yield module


def test_job_has_the_headers_of_its_enqueue_in_each_attempt(shop: Any) -> None:
    assert shop.told.enqueue(1).result(30) == [1, 1, HEADERS, []]
    assert shop.told.enqueue(2, fails=True).result(30) == [2, 2, HEADERS, []]
    assert shop.told.options(tags=["a"]).enqueue(3).result(30) == [3, 1, HEADERS, ["a"]]
    assert shop.seen == [("told", "default", 1, 1)] * 3


async def test_async_enqueue_methods_set_headers(shop: Any) -> None:
    assert await (await shop.told.aenqueue(1)).aresult(30) == [1, 1, HEADERS, []]
    assert [await job.aresult(30) for job in await shop.told.aenqueue_many([(1,)])] == [[1, 1, HEADERS, []]]
    assert await (await shop.lw.chain(shop.told.call(1), shop.after).aenqueue()).aresult(30) == [HEADERS, HEADERS]
    await shop.lw.aclose()


def test_enqueue_methods_set_headers(shop: Any) -> None:
    assert [job.result(30)[2] for job in shop.told.enqueue_many([(1,), (2,)])] == [HEADERS] * 2
    commit: list[Callable[[], object]] = []
    job = shop.told.on_commit(commit.append).enqueue(5)
    commit[0]()
    assert job.result(30)[2] == HEADERS
    assert [count for _, _, count, _ in shop.seen] == [2, 1]
    with shop.lw.queue("default").lock("a") as grant:
        assert grant.release_and_enqueue(shop.told.call(6)).result(30)[2] == HEADERS


def test_jobs_of_a_flow_have_headers(shop: Any) -> None:
    flow = shop.lw.chain(shop.told.call(1), shop.after)
    assert flow.enqueue().result(30) == [HEADERS, HEADERS]
    assert shop.seen == [("", "default", 2, 1)]


def test_scheduled_jobs_have_no_headers(shop: Any) -> None:
    schedule = shop.lw.schedule(shop.told.call(1), name="s", every="1h")
    assert shop.seen == []
    del schedule


def test_enqueue_error_is_raised_even_if_a_middleware_swallows_it(app: Callable[[str], Any]) -> None:
    module = app("outgoing")
    lw = Lockwork("redis://127.0.0.1:1", patience=0)
    lw.enqueue_middleware(module.outer)
    task = lw.task(module.told.function)
    with pytest.raises(ServerUnavailable):
        task.enqueue(1)
    assert module.seen == [("told", "default", 1, 1)]


def test_records_without_headers_are_unchanged() -> None:
    task = Lockwork("redis://127.0.0.1:1", patience=0).task(name="size")(len)
    assert task.call([1]).record == b'1,4,,;["size",[[1]]]'
    assert headers(task.call([1]).record) == {}


def test_headers_are_stored_in_the_record() -> None:
    record = with_headers(b'1,4,,;["size",[[1, 2.50]]]', {"a": "b"}, 100)
    assert record == b'1,4,,;["size",[[1, 2.50]],{},{"headers":{"a":"b"}}]'
    assert headers(record) == {"a": "b"}
    assert headers(b'1,4,,;["size",[],{},{"headers":7}]') == {}
    assert headers(b"1,4,,;no JSON") == {}
    with pytest.raises(PayloadTooLarge, match="with its headers"):
        with_headers(record, {"a": "b" * 100}, 100)
    with pytest.raises(ConfigError, match="texts by name"):
        with_headers(record, {"a": 7}, 100)  # type: ignore[dict-item]


async def generator(outgoing: object) -> Any:
    yield


@pytest.mark.parametrize("wrong", [generator, len, 7])
def test_wrong_enqueue_middleware_is_refused(wrong: Any) -> None:
    with pytest.raises(ConfigError, match="an enqueue middleware must"):
        Lockwork("redis://127.0.0.1:1", patience=0).enqueue_middleware(wrong)
