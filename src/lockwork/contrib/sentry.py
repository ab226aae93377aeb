"""Sentry: one event for each job that failed for good, and a trace from its enqueue to its last attempt.

Needs lockwork[sentry]. Names and data follow Sentry's module of queues (`queue.publish`, `queue.process`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any, NamedTuple, Protocol

import sentry_sdk
from sentry_sdk.integrations.logging import ignore_logger
from sentry_sdk.scope import Scope, use_isolation_scope
from sentry_sdk.tracing import Span
from sentry_sdk.utils import event_from_exception

from lockwork.errors import LockworkError
from lockwork.hooks import Died, Hooks, Retrying
from lockwork.jobs.current import JobContext, is_failure
from lockwork.jobs.job import Job
from lockwork.jobs.snapshot import JobSnapshot
from lockwork.tasks.middleware import Outgoing

_ORIGIN = "auto.queue.lockwork"
_LAST = 2.0
"""Time limit in seconds for sending the last events of a worker process."""


class SentryApp(Protocol):
    """The part of `Lockwork` that `instrument` needs."""

    @property
    def hooks(self) -> Hooks:
        """Hooks of the app."""
        ...

    def middleware(self, function: Callable[[JobContext], Iterator[None]], /) -> object:
        """Run a generator function around each job."""

    def enqueue_middleware(self, function: Callable[[Outgoing], Iterator[None]], /) -> object:
        """Run a generator function around each enqueue."""

    def lifespan(self, function: Callable[[], Iterator[None]], /) -> object:
        """Run a generator function around the life of a worker process."""

    def job(self, id: str, queue: str) -> Job[Any]:
        """Return a job by its id."""
        ...


class _FailedAttempt(NamedTuple):
    """The scope and trace of a failed attempt: its data belongs to the event, if there is one."""

    scope: Scope
    span: Span


def instrument(lw: SentryApp) -> None:
    """Report the jobs of this app to Sentry; call it once, before other middlewares are registered.

    The app must call `sentry_sdk.init`; before that, nothing is sent. An event has the arguments of the job only with
    `send_default_pii`.
    """
    reports = _Reports(lw)
    lw.enqueue_middleware(_send)
    lw.middleware(reports.process)
    lw.hooks.retry(reports.retrying)
    lw.hooks.dead(reports.died)
    lw.lifespan(_sent_at_the_end)
    # its log lines about failed attempts would duplicate the event
    ignore_logger("lockwork.jobs")


def _sent_at_the_end() -> Iterator[None]:
    yield
    # a worker process exits without calling atexit handlers
    sentry_sdk.flush(timeout=_LAST)


def _send(outgoing: Outgoing) -> Iterator[None]:
    with sentry_sdk.start_span(op="queue.publish", name=outgoing.task or "flow", origin=_ORIGIN) as span:
        _describe(span, outgoing.queue)
        trace, baggage = sentry_sdk.get_traceparent(), sentry_sdk.get_baggage()
        if trace is not None:
            outgoing.headers["sentry-trace"] = trace
        if baggage:
            # OpenTelemetry may have set a baggage header
            outgoing.headers["baggage"] = ",".join(filter(None, (outgoing.headers.get("baggage"), baggage)))
        yield
        if len(outgoing.ids) == 1:
            span.set_data("messaging.message.id", outgoing.ids[0])


class _Reports:
    """Stores the scope of a failed attempt until the job is retried or dead."""

    def __init__(self, lw: SentryApp) -> None:
        self._lw = lw
        self._failed: dict[tuple[str, int], _FailedAttempt] = {}
        """By job and attempt: the next attempt may fail before the hooks of a retry are called."""

    def process(self, job: JobContext) -> Iterator[None]:
        """Run an attempt in a separate scope and transaction."""
        raised: BaseException | None = None
        with sentry_sdk.isolation_scope() as scope:
            scope.clear_breadcrumbs()
            _tag(scope, job)
            transaction = sentry_sdk.continue_trace(
                job.headers, op="queue.process", name=job.task, source="task", origin=_ORIGIN
            )
            with sentry_sdk.start_transaction(transaction) as span:
                _describe(span, job.queue)
                span.set_data("messaging.message.id", job.id)
                span.set_data("messaging.message.retry.count", job.attempt - 1)
                status = "ok"
                try:
                    yield
                except BaseException as error:  # noqa: BLE001 - raised again, outside: here it would fail the transaction
                    raised, status = error, "cancelled"
                    if is_failure(error):
                        self._failed[job.id, job.attempt], status = _FailedAttempt(scope, span), "internal_error"
                span.set_status(status)
        if raised is not None:
            raise raised

    def retrying(self, event: Retrying) -> None:
        """Drop the scope of a failed attempt."""
        self._failed.pop((event.id, event.attempt), None)

    def died(self, event: Died) -> None:
        """Send the event."""
        attempt = self._failed.pop((event.id, event.attempt), None)
        client = sentry_sdk.get_client()
        if not client.is_active():
            return
        with use_isolation_scope(attempt.scope if attempt else Scope()), sentry_sdk.new_scope() as scope:
            if attempt is not None:
                scope.span = attempt.span
            _tag(scope, event)
            _tell_history(scope, event, self._inspected(event))
            mechanism = {"type": "lockwork", "handled": False}
            sentry_event, hint = event_from_exception(event.error, client_options=client.options, mechanism=mechanism)
            sentry_event["transaction"] = event.task
            sentry_event["fingerprint"] = ["{{ default }}", event.task]
            sentry_sdk.capture_event(sentry_event, hint)

    def _inspected(self, event: Died) -> JobSnapshot | None:
        try:
            return self._lw.job(event.id, event.queue).inspect()
        except LockworkError:  # the event is more important than the data of earlier attempts
            return None


def _describe(span: Span, queue: str) -> None:
    span.set_data("messaging.system", "lockwork")
    span.set_data("messaging.destination.name", queue.partition("/")[0])


def _tag(scope: Scope, job: JobContext | Died) -> None:
    scope.set_tag("lockwork.job", job.id)
    scope.set_tag("lockwork.task", job.task)
    scope.set_tag("lockwork.queue", job.queue)
    scope.set_tag("lockwork.attempt", str(job.attempt))


def _tell_history(scope: Scope, event: Died, job: JobSnapshot | None) -> None:
    """Add the earlier attempts as breadcrumbs, and the known data of the job."""
    if job is None:
        return
    for past in job.timeline:
        if past.number < event.attempt and past.error is not None:
            scope.add_breadcrumb(
                category="lockwork.attempt",
                level="warning",
                message=f"attempt {past.number} {past.outcome}: {past.error.type}: {past.error.text}",
                timestamp=past.ended or datetime.now(UTC),
                data={"worker": past.worker},
            )
    facts: dict[str, Any] = {"enqueued": job.enqueued and job.enqueued.isoformat(), "tags": list(job.tags)}
    facts |= {
        name: getattr(job, name)
        for name in ("key", "group", "flow", "schedule", "stock")
        if getattr(job, name) is not None
    }
    if sentry_sdk.get_client().options["send_default_pii"]:
        facts |= {"args": job.args, "kwargs": job.kwargs}
    scope.set_context("lockwork job", facts)
