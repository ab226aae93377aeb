"""Builds the jobs of a task: from a call to an id and a stored record."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from copy import copy
from functools import partial
from inspect import get_annotations
from typing import Any

from lockwork import codecs
from lockwork.errors import ConfigError
from lockwork.ids import job_suffix, new_id, new_ids, with_key
from lockwork.jobs import options as job_options
from lockwork.protocol.queue.enqueue import NewJob
from lockwork.protocol.queue.record_header import key
from lockwork.signatures import Signature
from lockwork.tasks.call import Extracted, for_names
from lockwork.tasks.header_encoder import HeaderEncoder
from lockwork.tasks.options import CallSettings, TaskOptions
from lockwork.tasks.own_id import own_ids


class JobBuilder:
    """Builds jobs with the options of a task, or with options of single jobs.

    `function` is the function that a job calls; callers do not pass the parameters `injected`. A batch task's function
    takes one item here. `asked_ms` is the delay in ms, or, if negative, a point in time (ms since 1970). `extra` is the
    options stored in a job's record. A job's id contains hashes of the task, the tags and the key. Raises ConfigError
    for options that exclude each other.
    """

    def __init__(
        self,
        task: str,
        function: Callable[..., Any],
        injected: frozenset[str],
        signature: Signature,
        max_payload: int,
        options: TaskOptions,
        asked_ms: int = 0,
        extra: dict[str, Any] | None = None,
    ) -> None:
        unique, mark = options.unique, None
        if unique is not None:
            if options.replicas:
                raise ConfigError(f"task {task!r}: a unique job cannot wait for replicas: remove one of the options")
            mark = unique.marking(task, function, injected)
        debounce_ms = 0 if unique is None else unique.debounce_ms
        job_options.check_order(asked_ms, options.expires_ms, "expires")
        job_options.check_order(debounce_ms or asked_ms, options.retry_until_ms, "retry_until")
        if debounce_ms and asked_ms:
            raise ConfigError(f"task {task!r}: a debounced job cannot have delay or at")
        self.delay_ms: int = debounce_ms or asked_ms
        self._task = task
        self._function = function
        self._injected = injected
        self._signature = signature
        self._max_payload = max_payload
        self._asked_ms = asked_ms
        self._extra = job_options.sent({}, options) if extra is None else extra
        self._encode = partial(codecs.encode, reveal=True) if options.hide_arguments else codecs.encode
        self._arguments = f"the arguments of task {task!r}"
        changes = unique is not None and unique.terms.meaning != "keep"
        self._headers = HeaderEncoder(
            function,
            options.priority,
            options.budget,
            options.grouping,
            injected,
            mark,
            hidden=options.hide_arguments,
            retry_until_ms=options.retry_until_ms or 0,
            # a job that may become another call keeps its id, and a caller's own id has no time
            absolute=changes or options.own_id is not None,
        )
        self._own_id: Callable[..., str] | None = None
        if options.own_id is not None:
            self._own_id = own_ids(
                task, options.own_id, function, injected, unique=unique is not None, replicas=options.replicas
            )
        # a job that may become another call keeps its id
        self._suffix = "" if changes else job_suffix(task, self._extra.get("tags", ()))

    def changed(self, changes: CallSettings, options: TaskOptions) -> JobBuilder:
        """Return a builder with the options after these changes; raises ConfigError."""
        due = job_options.moment(changes)
        return JobBuilder(
            self._task,
            self._function,
            self._injected,
            self._signature,
            self._max_payload,
            options,
            self._asked_ms if due is None else due,
            job_options.sent(changes, options, self._extra),
        )

    def tracking(self, fields: dict[str, Any], tracked_ms: int) -> JobBuilder:
        """Return a builder of tracked jobs (queue/parts/tracked.lua), with more fields beside their options."""
        builder: JobBuilder = copy(self)
        builder._headers = self._headers.tracking(tracked_ms)
        builder._extra = {**self._extra, **fields}
        return builder

    @property
    def plain(self) -> bool:
        """Return True if jobs have no key, group, unique name or own id, so that they may go to any partition."""
        return self._headers.plain is not None and not self._own_id

    def new(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> NewJob:
        """Build one job. Raises TypeError if the arguments do not fit, ConfigError or PayloadTooLarge."""
        if self._own_id:
            return self._with_own_id(self._own_id, args, kwargs)
        record = self.record(args, kwargs)
        return NewJob(new_id() + self._suffix_of(record), record, self.delay_ms)

    def _with_own_id(self, named: Callable[..., str], args: Sequence[Any], kwargs: dict[str, Any]) -> NewJob:
        record = job_options.with_enqueued(self.record(args, kwargs), self._max_payload)
        return NewJob(named(*args, **kwargs), record, self.delay_ms)

    def many(self, arguments: Iterable[tuple[Any, ...]]) -> list[NewJob]:
        """Build a job for each tuple of arguments; raises as `new`."""
        record, delay_ms = self.record, self.delay_ms
        records: list[bytes] = []
        jobs: list[NewJob] = []
        for args in arguments:
            if not isinstance(args, tuple | list):
                raise TypeError(f"each call is a tuple of arguments, such as (42,), not {args!r:.60}")
            if self._own_id:
                jobs.append(self._with_own_id(self._own_id, args, {}))
            else:
                records.append(record(args, {}))
        if self._own_id:
            return jobs
        if self._headers.plain:
            ids = new_ids(len(records), self._suffix)
        else:
            ids = [id + self._suffix_of(stored) for id, stored in zip(new_ids(len(records)), records, strict=True)]
        return [NewJob(id, stored, delay_ms) for id, stored in zip(ids, records, strict=True)]

    def record(self, args: Sequence[Any], kwargs: dict[str, Any], taken: Extracted | None = None) -> bytes:
        """Encode a call; `taken`: without its result references. Raises as `new`."""
        try:
            self._signature.check(args, kwargs)
        except TypeError as error:
            raise TypeError(f"{error}{self._hint(kwargs)}") from None
        header = self._headers.plain or self._headers.of(*(for_names(args, kwargs) if taken else (args, kwargs)))
        if taken:
            args, kwargs = taken.args, taken.kwargs
        call: tuple[object, ...] = (self._task, args, kwargs) if kwargs else (self._task, args)
        if self._extra:
            call = (self._task, args, kwargs, self._extra)
        if taken:
            optional = sorted({one.number for one in taken.refs if one.may_fail})
            call = (self._task, args, kwargs, self._extra, taken.paths, optional)
        encoded = self._encode(call, self._arguments, self._max_payload)
        may_change = self._signature.may_change
        if may_change is not None and may_change(encoded):
            args, kwargs = self._signature.exact(args, kwargs, self._arguments)
            encoded = self._encode((self._task, args, kwargs, *call[3:]), self._arguments, self._max_payload)
        return header + encoded

    def _suffix_of(self, record: bytes) -> str:
        own = key(record) if self._suffix and not self._headers.plain else b""
        return with_key(self._suffix, own) if own else self._suffix

    def _hint(self, kwargs: dict[str, Any]) -> str:
        """Return how to pass options that the caller passed as arguments; empty if there are none."""
        options = get_annotations(CallSettings).keys() & kwargs.keys() - self._signature.names
        if not options:
            return ""
        function = getattr(self._function, "__name__", self._task)  # a partial has none
        arguments = ", ".join(f"{name}=..." for name in sorted(options))
        return f"; pass options before the arguments, {function}.options({arguments}).enqueue(...)"
