"""The types of `enqueue_many` and `map`: each tuple has the positional arguments of one `enqueue` of the same task.

A ParamSpec cannot describe tuples, so the overloads compare the number and types of the arguments of `enqueue`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal, Protocol, TypeVar, overload

from lockwork.jobs.gather import CHUNK, amap_items, map_items
from lockwork.jobs.job import Job

R = TypeVar("R")
A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")
D = TypeVar("D")
A_contra = TypeVar("A_contra", contravariant=True)
B_contra = TypeVar("B_contra", contravariant=True)
C_contra = TypeVar("C_contra", contravariant=True)
D_contra = TypeVar("D_contra", contravariant=True)


class _Takes0(Protocol[R]):
    def enqueue(self) -> Job[R]: ...


class _Takes1(Protocol[A_contra, R]):
    def enqueue(self, a: A_contra, /) -> Job[R]: ...


class _Takes2(Protocol[A_contra, B_contra, R]):
    def enqueue(self, a: A_contra, b: B_contra, /) -> Job[R]: ...


class _Takes3(Protocol[A_contra, B_contra, C_contra, R]):
    def enqueue(self, a: A_contra, b: B_contra, c: C_contra, /) -> Job[R]: ...


class _Takes4(Protocol[A_contra, B_contra, C_contra, D_contra, R]):
    def enqueue(self, a: A_contra, b: B_contra, c: C_contra, d: D_contra, /) -> Job[R]: ...


class _Takes5(Protocol[R]):
    def enqueue(self, a: Any, b: Any, c: Any, d: Any, e: Any, /) -> Job[R]: ...


class _Takes6(Protocol[R]):
    def enqueue(self, a: Any, b: Any, c: Any, d: Any, e: Any, f: Any, /) -> Job[R]: ...


class _Takes7(Protocol[R]):
    def enqueue(self, a: Any, b: Any, c: Any, d: Any, e: Any, f: Any, g: Any, /) -> Job[R]: ...


class _Takes8(Protocol[R]):
    def enqueue(self, a: Any, b: Any, c: Any, d: Any, e: Any, f: Any, g: Any, h: Any, /) -> Job[R]: ...


_Rows = Iterable[tuple[Any, Any, Any, Any, Any, *tuple[Any, ...]]]


class EnqueuesMany:
    """Enqueues many calls at once, and maps items; a mixin for classes that have `enqueue`."""

    @overload
    def enqueue_many(self: _Takes1[A, R], arguments: Iterable[tuple[A]]) -> list[Job[R]]: ...
    @overload
    def enqueue_many(self: _Takes2[A, B, R], arguments: Iterable[tuple[A, B]]) -> list[Job[R]]: ...
    @overload
    def enqueue_many(self: _Takes3[A, B, C, R], arguments: Iterable[tuple[A, B, C]]) -> list[Job[R]]: ...
    @overload
    def enqueue_many(self: _Takes4[A, B, C, D, R], arguments: Iterable[tuple[A, B, C, D]]) -> list[Job[R]]: ...
    @overload
    def enqueue_many(self: _Takes0[R], arguments: Iterable[tuple[()]]) -> list[Job[R]]: ...
    @overload
    def enqueue_many(self: _Takes5[R], arguments: _Rows) -> list[Job[R]]: ...
    @overload
    def enqueue_many(self: _Takes6[R], arguments: _Rows) -> list[Job[R]]: ...
    @overload
    def enqueue_many(self: _Takes7[R], arguments: _Rows) -> list[Job[R]]: ...
    @overload
    def enqueue_many(self: _Takes8[R], arguments: _Rows) -> list[Job[R]]: ...

    def enqueue_many(self, arguments: Iterable[Any]) -> list[Any]:
        """Enqueue one call per tuple of positional arguments, up to a thousand or a megabyte per round trip.

        Raises QueueFull if the queue's limit is reached: one round trip enqueues all of its jobs or none, and the error
        has the number of jobs, from the first, that are enqueued.
        """
        return self._enqueue_all(arguments)  # type: ignore[attr-defined, no-any-return]

    @overload
    def map(
        self: _Takes1[A, R],
        items: Iterable[A],
        *,
        chunk: int = ...,
        return_exceptions: Literal[False] = ...,
        progress: bool = ...,
    ) -> list[R]: ...
    @overload
    def map(
        self: _Takes1[A, R],
        items: Iterable[A],
        *,
        chunk: int = ...,
        return_exceptions: bool,
        progress: bool = ...,
    ) -> list[R | Exception]: ...

    def map(
        self,
        items: Iterable[Any],
        *,
        chunk: int = CHUNK,
        return_exceptions: bool = False,
        progress: bool = False,
    ) -> list[Any]:
        """Enqueue one call per item, wait for all jobs, and return their results in the order of the items.

        Items are read as jobs end, so a generator need not fit into memory, nor its jobs into the queue. If a job
        fails, no more items are enqueued, and the enqueued jobs still run.

        Args:
            items: the only argument of each call. For several arguments, use `lw.gather(task.enqueue_many(...))`.
            chunk: number of items to enqueue at a time; the next ones when half of that number has not ended.
            return_exceptions: return errors in place of results. Default False: raise the first one.
            progress: show a progress bar on standard error, in a terminal or a notebook. Default False.
        """
        return map_items(
            self._enqueue_all,  # type: ignore[attr-defined]
            items,
            chunk,
            return_exceptions=return_exceptions,
            progress=progress,
        )


class AEnqueuesMany:
    """Async version of `EnqueuesMany`."""

    @overload
    async def aenqueue_many(self: _Takes1[A, R], arguments: Iterable[tuple[A]]) -> list[Job[R]]: ...
    @overload
    async def aenqueue_many(self: _Takes2[A, B, R], arguments: Iterable[tuple[A, B]]) -> list[Job[R]]: ...
    @overload
    async def aenqueue_many(self: _Takes3[A, B, C, R], arguments: Iterable[tuple[A, B, C]]) -> list[Job[R]]: ...
    @overload
    async def aenqueue_many(self: _Takes4[A, B, C, D, R], arguments: Iterable[tuple[A, B, C, D]]) -> list[Job[R]]: ...
    @overload
    async def aenqueue_many(self: _Takes0[R], arguments: Iterable[tuple[()]]) -> list[Job[R]]: ...
    @overload
    async def aenqueue_many(self: _Takes5[R], arguments: _Rows) -> list[Job[R]]: ...
    @overload
    async def aenqueue_many(self: _Takes6[R], arguments: _Rows) -> list[Job[R]]: ...
    @overload
    async def aenqueue_many(self: _Takes7[R], arguments: _Rows) -> list[Job[R]]: ...
    @overload
    async def aenqueue_many(self: _Takes8[R], arguments: _Rows) -> list[Job[R]]: ...

    async def aenqueue_many(self, arguments: Iterable[Any]) -> list[Any]:
        """Async version of `enqueue_many`."""
        jobs: list[Any] = await self._aenqueue_all(arguments)  # type: ignore[attr-defined]
        return jobs

    @overload
    async def amap(
        self: _Takes1[A, R],
        items: Iterable[A],
        *,
        chunk: int = ...,
        return_exceptions: Literal[False] = ...,
        progress: bool = ...,
    ) -> list[R]: ...
    @overload
    async def amap(
        self: _Takes1[A, R],
        items: Iterable[A],
        *,
        chunk: int = ...,
        return_exceptions: bool,
        progress: bool = ...,
    ) -> list[R | Exception]: ...

    async def amap(
        self,
        items: Iterable[Any],
        *,
        chunk: int = CHUNK,
        return_exceptions: bool = False,
        progress: bool = False,
    ) -> list[Any]:
        """Async version of `map`."""
        return await amap_items(
            self._aenqueue_all,  # type: ignore[attr-defined]
            items,
            chunk,
            return_exceptions=return_exceptions,
            progress=progress,
        )
