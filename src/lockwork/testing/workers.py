"""A worker in this process, on a thread of its own."""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from lockwork.app.lockwork import Lockwork
from lockwork.durations import Duration
from lockwork.worker.embedded import WorkerOfProcess, embedded_worker

_READY = 30.0
"""Seconds for a worker to start."""
_running: list[WorkerOfProcess] = []


def workers_here() -> list[WorkerOfProcess]:
    """Return the workers that tests run in this process."""
    return list(_running)


@contextmanager
def worker(
    lw: Lockwork,
    *,
    queues: Sequence[str] | None = None,
    concurrency: int = 10,
    lease: Duration = 15,
    grace: Duration = 5,
) -> Iterator[None]:
    """Run a worker of the app on a thread while the block runs: see `Lockwork.worker`.

    At the end, running jobs may finish within `grace`; then they are cancelled, and return to the queue. Raises the
    error of a worker that failed.
    """
    running = embedded_worker(lw, queues, concurrency, lease, grace)
    ready = threading.Event()
    running.on_ready = ready.set
    errors: list[BaseException] = []

    def main() -> None:
        try:
            # without the context variables of the test
            contextvars.Context().run(running.run)
        except BaseException as error:  # noqa: BLE001 - the test's thread raises it
            errors.append(error)
        finally:
            ready.set()

    thread = threading.Thread(target=main, name="lockwork-test-worker", daemon=True)
    thread.start()
    _running.append(running)
    try:
        if not ready.wait(_READY):
            raise TimeoutError(f"the worker has not started within {_READY:g} s")
        if not errors:
            yield
    finally:
        running.stop()
        thread.join()
        _running.remove(running)
    if errors:
        raise errors[0]
