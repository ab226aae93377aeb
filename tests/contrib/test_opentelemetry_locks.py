"""Spans and metrics of locks, as the SDK's in-memory exporters get them from a real server."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from lockwork import ConfigError, LockLost, Lockwork, ServerUnavailable
from lockwork.contrib.opentelemetry import instrument
from processes import until


class Traced:
    """An app, and its exported spans and metrics."""

    def __init__(self, url: str, **settings: Any) -> None:
        self._spans = InMemorySpanExporter()
        self._reader = InMemoryMetricReader()
        self.provider = TracerProvider()
        self.provider.add_span_processor(SimpleSpanProcessor(self._spans))
        self.lw = Lockwork(url, **settings)
        instrument(self.lw, tracer_provider=self.provider, meter_provider=MeterProvider([self._reader]))

    def spans(self) -> list[ReadableSpan]:
        """The spans that have ended, in the order of their ends."""
        return list(self._spans.get_finished_spans())

    def names(self) -> list[str]:
        """Their names."""
        return [span.name for span in self.spans()]

    def points(self, name: str) -> list[tuple[dict[str, Any], int]]:
        """The attributes and the count of each point of a histogram."""
        data = self._reader.get_metrics_data()
        assert data is not None
        metrics: Any = (each for each in data.resource_metrics[0].scope_metrics[0].metrics if each.name == name)
        return [(dict(point.attributes or {}), point.count) for each in metrics for point in each.data.data_points]


@pytest.fixture
def traced(own_url: str) -> Iterator[Traced]:
    traced = Traced(own_url)
    with traced.lw:
        yield traced


def test_wait_and_hold_are_spans_of_the_caller(traced: Traced) -> None:
    with traced.provider.get_tracer("app").start_as_current_span("request") as request:
        with traced.lw.lock("till") as grant:
            assert traced.names() == ["acquire lock"]
            with traced.lw.lock("till"):
                pass
    wait, hold, _ = traced.spans()
    assert traced.names() == ["acquire lock", "hold lock", "request"]
    facts = {"lockwork.lock.kind": "lock", "lockwork.lock.name": "till"}
    assert wait.attributes == {**facts, "lockwork.lock.granted": True}
    assert hold.attributes == {**facts, "lockwork.lock.fence": grant.fence}
    for span in (wait, hold):
        assert span.parent == request.get_span_context()
        assert (span.kind, span.status.status_code) == (SpanKind.INTERNAL, StatusCode.UNSET)
    assert traced.points("lockwork.lock.wait.duration") == [({"lockwork.lock.kind": "lock"}, 1)]
    assert traced.points("lockwork.lock.hold.duration") == [({"lockwork.lock.kind": "lock"}, 1)]
    assert not trace.get_current_span().get_span_context().is_valid


async def test_coroutines(own_url: str) -> None:
    traced = Traced(own_url)
    async with traced.lw, traced.lw.lock("till"):
        assert await traced.lw.semaphore("seats", 1).atry_acquire()
        assert traced.names() == ["acquire lock", "acquire semaphore"]
        await traced.lw.semaphore("seats", 1).arelease_all()
    assert traced.names()[2:] == ["hold semaphore", "hold lock"]


def test_locks_of_every_kind(traced: Traced, own_url: str) -> None:
    lw = traced.lw
    second, third = (Lockwork(own_url, prefix=prefix) for prefix in ("second", "third"))
    with second, third, lw.quorum([lw, second, third]) as quorum:
        locks: list[Any] = [
            lw.lock("a", sticky=True),
            lw.semaphore("a", 2),
            lw.rwlock("a").read(),
            lw.rwlock("b").write(),
            lw.multilock("b", "c"),
            lw.queue("q").lock("a"),
            quorum.lock("a"),
        ]
        for lock in locks:
            with lock:
                pass
            lock.acquire().release()
    kinds = ["semaphore", "read lock", "write lock", "multilock", "lock", "quorum lock"]
    twice = [f"{what} {kind}" for kind in kinds for _ in range(2) for what in ("acquire", "hold")]
    assert traced.names() == ["acquire lock", "hold lock", *twice]  # the second time, the sticky lock is here


def test_unsuccessful_try_is_no_error(traced: Traced) -> None:
    with traced.lw.lock("till"), ThreadPoolExecutor(1) as other:
        assert other.submit(traced.lw.lock("till").try_acquire).result() is None
    wait = traced.spans()[1]
    assert wait.attributes is not None
    assert (wait.attributes["lockwork.lock.granted"], wait.status.status_code) == (False, StatusCode.UNSET)
    timeout = {"lockwork.lock.kind": "lock", "error.type": "lockwork.errors.LockTimeout"}
    assert (timeout, 1) in traced.points("lockwork.lock.wait.duration")


def test_unreachable_server_is_an_error() -> None:
    traced = Traced("redis://127.0.0.1:1", patience=0)
    with pytest.raises(ServerUnavailable):
        traced.lw.lock("till").acquire()
    (wait,) = traced.spans()
    assert wait.attributes is not None
    assert wait.attributes["error.type"] == "lockwork.errors.ServerUnavailable"
    assert wait.status.status_code is StatusCode.ERROR


def test_lost_lease_ends_the_hold_at_once(traced: Traced) -> None:
    lock = traced.lw.lock("till", lease=0.2)
    lock.acquire()
    until(lambda: len(traced.spans()) == 2, "the lease ends")
    hold = traced.spans()[1]
    assert hold.attributes is not None
    assert hold.attributes["error.type"] == "lockwork.errors.LockLost"
    assert hold.status.status_code is StatusCode.ERROR
    with pytest.raises(LockLost):
        lock.release()
    assert len(traced.spans()) == 2


def test_locks_have_one_observer(traced: Traced) -> None:
    with pytest.raises(ConfigError, match="already have an observer"):
        traced.lw.observe_locks(lambda kind, name: pytest.fail(f"{kind} {name}"))
