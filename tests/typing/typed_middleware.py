"""Middlewares as a type checker sees them."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Generator, Iterator
from typing import Any

from lockwork import JobContext, Lockwork
from lockwork.contrib import opentelemetry, sentry

lw = Lockwork()
opentelemetry.instrument(lw)
sentry.instrument(lw)


@lw.middleware
def plain(job: JobContext) -> Iterator[None]:
    yield


@lw.middleware
def with_result(job: JobContext) -> Generator[None, Any, None]:
    result = yield
    print(result)


@lw.middleware
async def on_loop(job: JobContext) -> AsyncIterator[None]:
    yield


@lw.middleware
async def on_loop_with_result(job: JobContext) -> AsyncGenerator[None, Any]:
    result = yield
    print(result)
