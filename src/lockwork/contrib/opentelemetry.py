"""OpenTelemetry: a trace from the enqueue of a job to its last attempt, and the times of locks, as spans and metrics.

Needs lockwork[opentelemetry].

Names follow the messaging conventions of OpenTelemetry (development status, 2026).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from time import monotonic, perf_counter
from typing import TYPE_CHECKING, Any, Protocol

from opentelemetry import metrics, propagate, trace
from opentelemetry.context import Context, attach, detach
from opentelemetry.trace import Link, Span, SpanKind, Status, StatusCode

from lockwork.errors import LockLost, LockTimeout
from lockwork.jobs.current import JobContext, is_failure
from lockwork.runtime.runtime import LockObserver, Runtime
from lockwork.tasks.middleware import Outgoing

if TYPE_CHECKING:
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import TracerProvider

_NAME = "lockwork"
_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10)
_LAST = 2.0
"""Time limit in seconds for the last export of a worker process."""
Attributes = dict[str, str | int]


class TracedApp(Protocol):
    """The part of `Lockwork` that `instrument` needs."""

    runtime: Runtime

    def middleware(self, function: Callable[[JobContext], Iterator[None]], /) -> object:
        """Run a generator function around each job."""

    def enqueue_middleware(self, function: Callable[[Outgoing], Iterator[None]], /) -> object:
        """Run a generator function around each enqueue."""

    def observe_locks(self, observer: LockObserver, /) -> None:
        """Call the observer for each acquire."""

    def lifespan(self, function: Callable[[], Iterator[None]], /) -> object:
        """Run a generator function around the life of a worker process."""


def instrument(
    lw: TracedApp,
    *,
    tracer_provider: TracerProvider | None = None,
    meter_provider: MeterProvider | None = None,
) -> None:
    """Record spans and metrics of the jobs and locks of this app; uses the global providers by default. Call it once.

    Call it before other middlewares are registered, so that their time and errors are part of the spans.
    """
    tracer = trace.get_tracer(_NAME, tracer_provider=tracer_provider)
    meter = metrics.get_meter(_NAME, meter_provider=meter_provider)
    lw.enqueue_middleware(_Enqueues(lw, tracer, meter).send)
    lw.middleware(_Attempts(lw, tracer, meter).process)
    _observe_locks(lw, tracer, meter)
    lw.lifespan(_last_export(tracer_provider, meter_provider))


def _histogram(meter: metrics.Meter, name: str, description: str) -> metrics.Histogram:
    return meter.create_histogram(name, "s", description, explicit_bucket_boundaries_advisory=_SECONDS)


class _Enqueues:
    """The spans and metrics of enqueues."""

    def __init__(self, lw: TracedApp, tracer: trace.Tracer, meter: metrics.Meter) -> None:
        self._lw = lw
        self._tracer = tracer
        self._durations = _histogram(meter, "messaging.client.operation.duration", "Duration of enqueues.")
        self._jobs = meter.create_counter("messaging.client.sent.messages", "{message}", "Jobs that were enqueued.")

    def send(self, outgoing: Outgoing) -> Iterator[None]:
        """Record one enqueue, and add its trace to the headers of its jobs."""
        facts = _facts("send", outgoing.queue)
        began = perf_counter()
        with self._tracer.start_as_current_span(
            f"send {facts['messaging.destination.name']}",
            kind=SpanKind.PRODUCER,
            attributes={**facts, **_of_outgoing(outgoing)},
            record_exception=False,
            set_status_on_exception=False,
        ) as span:
            propagate.inject(outgoing.headers)
            try:
                yield
            except BaseException as error:
                _failed(span, error, facts)
                raise
            finally:
                facts |= _server(self._lw.runtime)  # opened by the first enqueue, so its address is known only now
                span.set_attributes(_known_at_the_end(outgoing, facts))
                self._jobs.add(outgoing.count, _of_metric(facts))
                self._durations.record(perf_counter() - began, facts)


class _Attempts:
    """The spans and metrics of attempts of jobs."""

    def __init__(self, lw: TracedApp, tracer: trace.Tracer, meter: metrics.Meter) -> None:
        self._lw = lw
        self._tracer = tracer
        self._durations = _histogram(meter, "messaging.process.duration", "Duration of attempts of jobs.")
        self._started = meter.create_counter(
            "messaging.client.consumed.messages", "{message}", "Attempts that were started."
        )

    def process(self, job: JobContext) -> Iterator[None]:
        """Record one attempt, as part of the trace in the job's headers."""
        facts = _facts("process", job.queue) | _server(self._lw.runtime)
        # an empty context, so that a job without a trace starts a new one
        context = propagate.extract(job.headers, Context())
        creation = trace.get_current_span(context).get_span_context()
        self._started.add(1, _of_metric(facts))
        began = perf_counter()
        token = attach(context)
        try:
            with self._tracer.start_as_current_span(
                f"process {facts['messaging.destination.name']}",
                kind=SpanKind.CONSUMER,
                attributes={
                    **facts,
                    "messaging.message.id": job.id,
                    "lockwork.task": job.task,
                    "lockwork.attempt": job.attempt,
                },
                links=[Link(creation)] if creation.is_valid else None,
                record_exception=False,
                set_status_on_exception=False,
            ) as span:
                try:
                    yield
                except BaseException as error:
                    if is_failure(error):
                        _failed(span, error, facts)
                    raise
                finally:
                    self._durations.record(perf_counter() - began, _of_metric(facts))
        finally:
            detach(token)


def _observe_locks(lw: TracedApp, tracer: trace.Tracer, meter: metrics.Meter) -> None:
    waiting = _histogram(meter, "lockwork.lock.wait.duration", "Duration of acquires of locks, granted or not.")
    holding = _histogram(meter, "lockwork.lock.hold.duration", "How long locks were held.")
    lw.observe_locks(lambda kind, name: _Acquire(tracer, waiting, holding, kind, name))


class _Acquire:
    """The spans of one acquire of a lock: while it waits, and while the lock is held."""

    def __init__(
        self, tracer: trace.Tracer, waiting: metrics.Histogram, holding: metrics.Histogram, kind: str, name: str
    ) -> None:
        self._tracer = tracer
        self._waiting = waiting
        self._holding = holding
        self._kind = kind
        self._facts: Attributes = {"lockwork.lock.kind": kind, "lockwork.lock.name": name}
        self._began = perf_counter()
        self._wait = tracer.start_span(f"acquire {kind}", attributes=self._facts)

    def granted(self, fence: int) -> Callable[[bool], None]:
        self._wait.set_attribute("lockwork.lock.granted", True)
        self._end(self._wait, self._waiting)
        self._began = perf_counter()
        hold = self._tracer.start_span(f"hold {self._kind}", attributes={**self._facts, "lockwork.lock.fence": fence})

        def ended(lost: bool) -> None:
            if lost:
                hold.set_attribute("error.type", _error_type(LockLost))
                hold.set_status(Status(StatusCode.ERROR, "the lease was lost"))
            self._end(hold, self._holding, LockLost if lost else None)

        return ended

    def failed(self, error: BaseException) -> None:
        self._wait.set_attribute("lockwork.lock.granted", False)
        if isinstance(error, Exception) and not isinstance(error, LockTimeout):  # a cancelled wait is not a failure
            _failed(self._wait, error, {})
        self._end(self._wait, self._waiting, type(error))

    def _end(self, span: Span, histogram: metrics.Histogram, error: type[BaseException] | None = None) -> None:
        facts = {"lockwork.lock.kind": self._kind}
        histogram.record(perf_counter() - self._began, facts | {"error.type": _error_type(error)} if error else facts)
        span.end()


def _last_export(
    tracer_provider: TracerProvider | None, meter_provider: MeterProvider | None
) -> Callable[[], Iterator[None]]:
    """Return the lifespan that exports the remaining data when a worker process stops."""

    def last_export() -> Iterator[None]:
        yield
        _flush(tracer_provider or trace.get_tracer_provider(), meter_provider or metrics.get_meter_provider())

    return last_export


def _flush(*providers: object) -> None:
    """Flush the providers: a worker process exits without calling atexit handlers."""
    flushes = [getattr(provider, "force_flush", None) for provider in providers]
    # an exporter may exceed its time limit if its collector is unreachable
    threads = [threading.Thread(target=flush, daemon=True) for flush in flushes if flush is not None]
    for thread in threads:
        thread.start()
    until = monotonic() + _LAST
    for thread in threads:
        thread.join(max(0.0, until - monotonic()))


def _facts(operation: str, queue: str) -> dict[str, Any]:
    """Return the common attributes of spans and metrics; the queue without its partition."""
    name, _, partition = queue.partition("/")
    facts = {
        "messaging.system": _NAME,
        "messaging.operation.name": operation,
        "messaging.operation.type": operation,
        "messaging.destination.name": name,
    }
    return facts | {"messaging.destination.partition.id": partition} if partition else facts


def _server(runtime: Runtime) -> Attributes:
    address = runtime.address
    if address is None:
        return {}
    host, port = address
    return {"server.address": host} if port is None else {"server.address": host, "server.port": port}


def _of_metric(facts: dict[str, Any]) -> dict[str, Any]:
    """Return the attributes that the conventions require of a metric whose name includes the type of operation."""
    return {name: value for name, value in facts.items() if name != "messaging.operation.type"}


def _of_outgoing(outgoing: Outgoing) -> Attributes:
    attributes: Attributes = {"lockwork.task": outgoing.task} if outgoing.task else {}
    return attributes | {"messaging.batch.message_count": outgoing.count} if outgoing.count != 1 else attributes


def _known_at_the_end(outgoing: Outgoing, facts: dict[str, Any]) -> Attributes:
    attributes: Attributes = {name: facts[name] for name in facts if name.startswith("server.")}
    return attributes | {"messaging.message.id": outgoing.ids[0]} if len(outgoing.ids) == 1 else attributes


def _failed(span: Span, error: BaseException, facts: dict[str, Any]) -> None:
    name = facts["error.type"] = _error_type(type(error))
    span.set_attribute("error.type", name)
    span.record_exception(error)
    span.set_status(Status(StatusCode.ERROR, str(error)))


def _error_type(kind: type[BaseException]) -> str:
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
