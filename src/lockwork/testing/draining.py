"""Runs jobs until nothing is left to do, as a worker would."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from msgspec import Struct, field

from lockwork.app.lockwork import Lockwork, apps_here
from lockwork.durations import Duration, seconds
from lockwork.hooks import Died, Failed, Retrying, Snoozed, Succeeded
from lockwork.runtime.drive import no_running_loop
from lockwork.testing.clocks import MovableClock, tick_schedules
from lockwork.validation import whole
from lockwork.worker.embedded import embedded_worker

_MARGIN = 0.001


class TooManyRuns(AssertionError):
    """`run_all` has run the maximum number of attempts, and jobs are left: perhaps a job enqueues itself."""


class Drained(Struct):
    """What `run_all` did: the jobs that succeeded and that died, and the number of attempts of any kind."""

    succeeded: list[Succeeded] = field(default_factory=list)
    dead: list[Died] = field(default_factory=list)
    retried: list[Retrying] = field(default_factory=list)
    snoozed: list[Snoozed] = field(default_factory=list)
    attempts: int = 0

    def check(self) -> None:
        """Raise the error of the job that died; an ExceptionGroup if several died."""
        errors = [_noted(death) for death in self.dead]
        if len(errors) == 1:
            raise errors[0]
        if errors:
            raise BaseExceptionGroup(f"{len(errors)} jobs failed for good", errors)


def _noted(death: Died) -> BaseException:
    death.error.add_note(f"job {death.id} of task {death.task!r} failed for good, in attempt {death.attempt}")
    return death.error


def drain(clock: MovableClock, within: Duration | None, most: int, *, raise_errors: bool) -> Drained:
    """Run jobs until idle; see `run_all`."""
    no_running_loop()
    limit = whole(most, "most", 1, 1 << 40)
    remaining = None if within is None else seconds(within, "within", zero=True)
    done = Drained()
    while True:
        before, due = done.attempts, None
        tick_schedules()
        for app in _used():
            # without the context variables of the test, such as the fake job of its block
            next_due = contextvars.Context().run(_burst, app, done, limit)
            due = next_due if due is None or (next_due is not None and next_due < due) else due
            if done.attempts >= limit and _waiting(app):
                raise TooManyRuns(f"{done.attempts} attempts have run, and jobs are left: does a job enqueue itself?")
        if done.attempts > before and len(_used()) > 1:
            continue  # jobs may have enqueued others for an app that had its turn
        if due is None or (remaining is not None and due > remaining):
            break
        step = max(0.0, due) + _MARGIN
        clock.advance(step)
        if remaining is not None:
            remaining = max(0.0, remaining - step)
    if raise_errors:
        done.check()
    return done


async def adrain(clock: MovableClock, within: Duration | None, most: int, *, raise_errors: bool) -> Drained:
    """Async version of `drain`: the jobs run on the event loop of another thread."""
    return await asyncio.to_thread(drain, clock, within, most, raise_errors=raise_errors)


def _used() -> list[Lockwork]:
    """Return the apps that have tasks and have used the server."""
    return [app for app in apps_here() if app.runtime.opened and app.registry.used_queues()]


def _waiting(app: Lockwork) -> bool:
    counts = [app.queue(name).status() for name in app.registry.used_queues()]
    return any(each.ready or each.scheduled for each in counts)


def _burst(app: Lockwork, done: Drained, limit: int) -> float | None:
    """Run the jobs that can run now; return the seconds until the next one can."""
    running = embedded_worker(app, app.registry.used_queues(), burst=True, concurrency=min(10, limit))
    with _counting(app, done, lambda: running.stop() if done.attempts >= limit else None):
        running.run()
    return running.next_due


@contextmanager
def _counting(app: Lockwork, done: Drained, counted: Callable[[], object]) -> Iterator[None]:
    """Note how the app's jobs end, by its hooks."""
    hooks = app.registry.context.hooks
    kinds = ("on_success", "on_failure", "on_retry", "on_dead", "on_snooze", "on_cancel", "in_worker")
    before = {kind: getattr(hooks, kind) for kind in kinds}

    def ended(into: list[Any] | None) -> Callable[[Any], None]:
        def note(event: Any) -> None:
            if into is not None:
                into.append(event)
            if not isinstance(event, Retrying | Died):  # a failure came before
                done.attempts += 1
                counted()

        return note

    def failed(_event: Failed) -> None:
        done.attempts += 1
        counted()

    hooks.success(ended(done.succeeded))
    hooks.failure(failed)
    hooks.retry(ended(done.retried))
    hooks.dead(ended(done.dead))
    hooks.snooze(ended(done.snoozed))
    hooks.cancel(ended(None))
    try:
        yield
    finally:
        for kind, value in before.items():
            setattr(hooks, kind, value)
