"""The results of many jobs: all of them in order, or one after the other as the jobs end."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from itertools import islice
from operator import length_hint
from typing import Any, TypeVar

from lockwork.durations import Duration
from lockwork.errors import ResultTimeout
from lockwork.jobs.completion import Completion, Ended
from lockwork.jobs.job import Job, read_outcome, remember_outcome
from lockwork.jobs.progress_bar import ProgressBar
from lockwork.runtime.drive import no_running_loop
from lockwork.validation import whole

R = TypeVar("R")

CHUNK = 1000
"""Jobs that `map` enqueues at a time, unless given."""
_MOST = 1_000_000


def gather(jobs: Iterable[Job[Any]], timeout: Duration | None, *, return_exceptions: bool, progress: bool) -> list[Any]:
    """Wait for all jobs and return their results; see `Lockwork.gather`."""
    results = _Results(timeout, keep_errors=return_exceptions)
    total = results.completion.add(jobs)
    with results.completion, ProgressBar("jobs", total, show=progress) as bar:
        while ended := _next(results):
            results.take(ended, bar)
    return results.values


async def agather(
    jobs: Iterable[Job[Any]], timeout: Duration | None, *, return_exceptions: bool, progress: bool
) -> list[Any]:
    """Async version of `gather`."""
    results = _Results(timeout, keep_errors=return_exceptions)
    total = results.completion.add(jobs)
    with results.completion, ProgressBar("jobs", total, show=progress) as bar:
        while ended := await _anext(results):
            results.take(ended, bar)
    return results.values


def completed(jobs: Iterable[Job[R]], timeout: Duration | None, *, progress: bool) -> Iterator[Job[R]]:
    """Yield the jobs in the order in which they end; see `Lockwork.completed`."""
    completion: Completion[R] = Completion(timeout)
    total = completion.add(jobs)
    return _completed(completion, total, progress=progress)


def _completed(completion: Completion[R], total: int, *, progress: bool) -> Iterator[Job[R]]:
    with completion, ProgressBar("jobs", total, show=progress) as bar:
        while completion.runtime is not None:
            completion.prepare()
            ended = completion.runtime.run(completion.next())
            if not ended:
                return
            for each in ended:
                remember_outcome(each.job, each.outcome)
                bar.advance(1)
                yield each.job


def acompleted(jobs: Iterable[Job[R]], timeout: Duration | None, *, progress: bool) -> AsyncIterator[Job[R]]:
    """Async version of `completed`."""
    completion: Completion[R] = Completion(timeout)
    total = completion.add(jobs)
    return _acompleted(completion, total, progress=progress)


async def _acompleted(completion: Completion[R], total: int, *, progress: bool) -> AsyncIterator[Job[R]]:
    with completion, ProgressBar("jobs", total, show=progress) as bar:
        while completion.runtime is not None:
            completion.prepare()
            ended = await completion.runtime.arun(completion.next())
            if not ended:
                return
            for each in ended:
                remember_outcome(each.job, each.outcome)
                bar.advance(1)
                yield each.job


def map_items(
    enqueue_many: Callable[[list[tuple[Any]]], list[Job[Any]]],
    items: Iterable[Any],
    chunk: int,
    *,
    return_exceptions: bool,
    progress: bool,
) -> list[Any]:
    """Enqueue a job for each item, wait for all, and return their results; see `Task.map`."""
    no_running_loop()
    mapping = _Mapping(items, chunk, keep_errors=return_exceptions)
    results = mapping.results
    with results.completion, ProgressBar("jobs", mapping.total, show=progress) as bar:
        while True:
            if some := mapping.more(bar):
                results.completion.add(enqueue_many(some))
            if not (ended := _next(results)):
                return results.values
            results.take(ended, bar)


async def amap_items(
    enqueue_many: Callable[[list[tuple[Any]]], Awaitable[list[Job[Any]]]],
    items: Iterable[Any],
    chunk: int,
    *,
    return_exceptions: bool,
    progress: bool,
) -> list[Any]:
    """Async version of `map_items`."""
    mapping = _Mapping(items, chunk, keep_errors=return_exceptions)
    results = mapping.results
    with results.completion, ProgressBar("jobs", mapping.total, show=progress) as bar:
        while True:
            if some := mapping.more(bar):
                results.completion.add(await enqueue_many(some))
            if not (ended := await _anext(results)):
                return results.values
            results.take(ended, bar)


class _Results:
    """The results of jobs in the order of the jobs; with `keep_errors`, the error of a failed job is its result."""

    def __init__(self, timeout: Duration | None, *, keep_errors: bool) -> None:
        self.completion: Completion[Any] = Completion(timeout)
        self._keep_errors = keep_errors
        self._values: dict[int, Any] = {}

    @property
    def values(self) -> list[Any]:
        """The results in order, of all jobs."""
        return [self._values[at] for at in range(len(self._values))]

    @property
    def missing(self) -> int:
        """Number of jobs without a result."""
        return self.completion.added - len(self._values)

    def take(self, ended: list[Ended[Any]], bar: ProgressBar) -> None:
        """Store the results of ended jobs, or raise the error of one."""
        for at, job, outcome in ended:
            try:
                self._values[at] = read_outcome(job, outcome)
            except Exception as error:
                if not self._keep_errors:
                    raise
                self._values[at] = error
            bar.advance(1)

    def give_up(self, error: ResultTimeout) -> None:
        """Store the error as the result of each job that has not ended in time, or raise it."""
        if not self._keep_errors:
            raise error
        self._values.update(dict.fromkeys(self.completion.unended, error))


class _Mapping:
    """The items of a `map`, enqueued in chunks."""

    def __init__(self, items: Iterable[Any], chunk: int, *, keep_errors: bool) -> None:
        self._chunk = whole(chunk, "chunk", 1, _MOST)
        self.total: int | None = length_hint(items, -1)
        if self.total < 0:
            self.total = None
        self.results: _Results = _Results(None, keep_errors=keep_errors)
        self._items = iter(items)
        self._exhausted = False

    def more(self, bar: ProgressBar) -> list[tuple[Any]]:
        """Return the next items to enqueue, as arguments; none while more than half a chunk has not ended."""
        if self._exhausted or 2 * self.results.missing > self._chunk:
            return []
        some = [(item,) for item in islice(self._items, self._chunk)]
        if len(some) < self._chunk:
            self._exhausted = True
            bar.expect(self.results.completion.added + len(some))
        return some


def _next(results: _Results) -> list[Ended[Any]]:
    completion = results.completion
    if completion.runtime is None:
        no_running_loop()
        return []
    completion.prepare()
    try:
        return completion.runtime.run(completion.next())
    except ResultTimeout as error:
        results.give_up(error)
        return []


async def _anext(results: _Results) -> list[Ended[Any]]:
    completion = results.completion
    if completion.runtime is None:
        return []
    completion.prepare()
    try:
        return await completion.runtime.arun(completion.next())
    except ResultTimeout as error:
        results.give_up(error)
        return []
