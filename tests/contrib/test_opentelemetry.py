"""Spans and metrics of jobs, as the SDK's in-memory exporters get them from a real server and a real worker."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from opentelemetry import baggage, context, trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from history import History
from lockwork import Lockwork, ServerUnavailable
from lockwork.contrib.opentelemetry import instrument
from processes import until, worker

APP = """
import json
import os
from pathlib import Path

from opentelemetry import baggage, trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader

from lockwork import Lockwork, current_job
from lockwork.contrib.opentelemetry import instrument


def note(**facts):
    with Path(os.environ["HISTORY"]).open("a") as file:
        file.write(json.dumps(facts) + "\\n")


class Exporter(SpanExporter):
    def export(self, spans):
        for span in spans:
            note(event="span", name=span.name, kind=span.kind.name, attributes=dict(span.attributes),
                 trace=span.context.trace_id, span=span.context.span_id, parent=span.parent and span.parent.span_id,
                 links=[link.context.span_id for link in span.links], status=span.status.status_code.name,
                 events=[event.name for event in span.events])
        return SpanExportResult.SUCCESS

provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(Exporter()))
reader = InMemoryMetricReader()
lw = Lockwork(partitions={"split": 2})
instrument(lw, tracer_provider=provider, meter_provider=MeterProvider([reader]))


@lw.task(retries=1, backoff=0.01)
async def flaky(fails: int) -> str | None:
    with trace.get_tracer("app", tracer_provider=provider).start_as_current_span("inside"):
        pass
    if current_job().attempt <= fails:
        raise ValueError("no")
    return baggage.get_baggage("tenant")


@lw.task
def in_thread() -> None:
    with trace.get_tracer("app", tracer_provider=provider).start_as_current_span("inside"):
        pass


@lw.task
async def snoozes() -> None:
    if not [line for line in Path(os.environ["HISTORY"]).read_text().splitlines() if "snoozed" in line]:
        note(event="snoozed")
        current_job().snooze(0.01)


@lw.task
async def retries() -> None:
    if current_job().attempt == 1:
        current_job().retry(0.01)


@lw.task(queue="split")
async def elsewhere() -> None: ...


@lw.task(batch=2, linger=1)
async def batched(items: list[int]) -> list[int | Exception]:
    return [item if item else KeyError(item) for item in items]


@lw.task
async def metrics() -> str:
    return reader.get_metrics_data().to_json()
"""


class Traced:
    """The app here and in a worker, and the spans of both."""

    def __init__(self, app: Any, history: History) -> None:
        self.app = app
        self._history = history

    def spans(self, name: str, count: int) -> list[dict[str, Any]]:
        """Wait for `count` spans of one name."""

        def complete() -> list[dict[str, Any]]:
            spans = [line for line in self._history.lines("span") if line["name"] == name]
            return spans if len(spans) >= count else []

        spans = until(complete, f"{count} spans {name!r}")
        assert len(spans) == count
        return spans


@pytest.fixture
def traced(own_url: str, tmp_path: Path, history: History, load: Callable[..., Any]) -> Iterator[Traced]:
    (tmp_path / "traced.py").write_text(APP)
    from app_modules import load_app

    app: Any = load_app(tmp_path, "traced", own_url)
    with app.lw, worker("traced:lw", "-c", "4", url=own_url, folder=tmp_path):
        yield Traced(app, history)


def test_trace_goes_from_the_enqueue_through_each_attempt(traced: Traced) -> None:
    token = context.attach(baggage.set_baggage("tenant", "acme"))
    job = traced.app.flaky.enqueue(1)
    context.detach(token)
    assert job.result(30) == "acme"
    (send,) = traced.spans("send default", 1)
    first, second = traced.spans("process default", 2)
    assert (send["kind"], first["kind"], second["kind"]) == ("PRODUCER", "CONSUMER", "CONSUMER")
    host, port = traced.app.lw.runtime.address
    server = {"server.address": host} | ({} if port is None else {"server.port": port})
    assert send["attributes"] == server | {
        "messaging.system": "lockwork",
        "messaging.operation.name": "send",
        "messaging.operation.type": "send",
        "messaging.destination.name": "default",
        "messaging.message.id": job.id,
        "lockwork.task": "flaky",
    }
    assert first["attributes"] == server | {
        "messaging.system": "lockwork",
        "messaging.operation.name": "process",
        "messaging.operation.type": "process",
        "messaging.destination.name": "default",
        "messaging.message.id": job.id,
        "lockwork.task": "flaky",
        "lockwork.attempt": 1,
        "error.type": "ValueError",
    }
    for span in (first, second):
        assert (span["trace"], span["parent"], span["links"]) == (send["trace"], send["span"], [send["span"]])
    assert (first["status"], first["events"]) == ("ERROR", ["exception"])
    assert (second["status"], second["events"], second["attributes"]["lockwork.attempt"]) == ("UNSET", [], 2)
    assert [span["parent"] for span in traced.spans("inside", 2)] == [first["span"], second["span"]]


def test_spans_inside_a_thread_belong_to_the_job(traced: Traced) -> None:
    traced.app.in_thread.enqueue().result(30)
    (process,) = traced.spans("process default", 1)
    (inside,) = traced.spans("inside", 1)
    assert (inside["parent"], inside["trace"]) == (process["span"], process["trace"])


@pytest.mark.parametrize(("task", "status"), [("snoozes", "UNSET"), ("retries", "ERROR")])
def test_snooze_is_no_error_and_retry_is(traced: Traced, task: str, status: str) -> None:
    getattr(traced.app, task).enqueue().result(30)
    assert [span["status"] for span in traced.spans("process default", 2)] == [status, "UNSET"]


def test_job_of_a_batch_has_its_own_span(traced: Traced) -> None:
    good, bad = (traced.app.batched.enqueue(item) for item in (1, 0))
    assert good.result(30) == 1
    spans = {span["attributes"]["messaging.message.id"]: span for span in traced.spans("process default", 2)}
    sends = {span["attributes"]["messaging.message.id"]: span for span in traced.spans("send default", 2)}
    assert {id: span["parent"] for id, span in spans.items()} == {id: span["span"] for id, span in sends.items()}
    assert spans[good.id]["status"] == "UNSET"
    assert spans[bad.id]["attributes"]["error.type"] == "KeyError"


def test_enqueue_many_is_one_send_span(traced: Traced) -> None:
    jobs = traced.app.elsewhere.enqueue_many([()] * 4)
    for job in jobs:
        job.result(30)
    (send,) = traced.spans("send split", 1)
    assert send["attributes"]["messaging.batch.message_count"] == 4
    assert "messaging.message.id" not in send["attributes"]
    spans = traced.spans("process split", 4)
    assert {span["parent"] for span in spans} == {send["span"]}
    assert {span["attributes"]["messaging.destination.partition.id"] for span in spans} <= {"0", "1"}


def test_metrics(traced: Traced) -> None:
    traced.app.flaky.enqueue(1).result(30)
    text = traced.app.metrics.enqueue().result(30)
    for name in ("messaging.process.duration", "messaging.client.consumed.messages"):
        assert f'"{name}"' in text
    assert '"error.type": "ValueError"' in text


def test_failed_enqueue_is_an_error_span() -> None:
    spans, reader = InMemorySpanExporter(), InMemoryMetricReader()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(spans))
    lw = Lockwork("redis://127.0.0.1:1", patience=0)
    instrument(lw, tracer_provider=provider, meter_provider=MeterProvider([reader]))
    task = lw.task(test_failed_enqueue_is_an_error_span)
    with pytest.raises(ServerUnavailable):
        task.enqueue()
    (span,) = spans.get_finished_spans()
    assert isinstance(span, ReadableSpan)
    assert (span.kind, span.status.status_code) == (SpanKind.PRODUCER, StatusCode.ERROR)
    assert span.attributes is not None
    assert span.attributes["error.type"] == "lockwork.errors.ServerUnavailable"
    assert (span.attributes["server.address"], span.attributes["server.port"]) == ("127.0.0.1", 1)
    data = reader.get_metrics_data()
    assert data is not None
    names = {metric.name: metric for metric in data.resource_metrics[0].scope_metrics[0].metrics}
    assert set(names) == {"messaging.client.operation.duration", "messaging.client.sent.messages"}
    assert not trace.get_current_span().get_span_context().is_valid


def test_opentelemetry_is_not_imported_unless_used() -> None:
    # redis-py imports the API where it is installed
    code = (
        "import sys, lockwork.app.lockwork, lockwork.types; sys.exit('lockwork.contrib.opentelemetry' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


BUFFERED = """
import os
from pathlib import Path

from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult

from lockwork import Lockwork
from lockwork.contrib.opentelemetry import instrument


class Exporter(SpanExporter):
    def export(self, spans):
        for span in spans:
            with Path(os.environ["HISTORY"]).open("a") as file:
                file.write(f'{{"event": "span", "task": "{span.attributes["lockwork.task"]}"}}\\n')
        return SpanExportResult.SUCCESS


provider = TracerProvider()
provider.add_span_processor(BatchSpanProcessor(Exporter(), schedule_delay_millis=3_600_000))
lw = Lockwork()
instrument(lw, tracer_provider=provider)


@lw.task
async def here() -> None: ...


@lw.task(executor="process")
def there() -> None: ...
"""


def test_spans_are_exported_when_a_worker_stops(tmp_path: Path, own_url: str, history: History) -> None:
    (tmp_path / "buffered.py").write_text(BUFFERED)
    with Lockwork(own_url) as lw, worker("buffered:lw", url=own_url, folder=tmp_path) as one:
        for name in ("here", "there"):
            lw.task(name=name)(lambda: None).enqueue().result(30)
        assert history.lines("span") == []
        one.send(signal.SIGTERM)
        assert one.wait() == 0
    assert {line["task"] for line in history.lines("span")} == {"here", "there"}


def test_hanging_exporter_delays_no_exit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lockwork.contrib.opentelemetry._LAST", 0.05)
    never, lifespans = threading.Event(), list[Callable[[], Iterator[None]]]()
    lw, provider = Lockwork("redis://127.0.0.1:1"), TracerProvider()
    monkeypatch.setattr(provider, "force_flush", never.wait)
    monkeypatch.setattr(lw, "lifespan", lifespans.append)
    instrument(lw, tracer_provider=provider)
    (lifespan,) = lifespans
    assert list(lifespan()) == [None]
    never.set()
