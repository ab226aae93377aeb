"""A call with its dependencies outside of any worker."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from lockwork.injection.calling import Caller
from lockwork.injection.plan import Injection
from lockwork.injection.scopes import WorkerScope


async def call_alone(
    function: Callable[..., Any],
    injection: Injection,
    args: Sequence[Any],
    kwargs: dict[str, Any],
    *,
    is_async: bool,
) -> Any:
    """Provide what is not given, call, and clean up, also what would otherwise live as long as a worker."""
    threads = _Threads()
    scope = WorkerScope(threads)
    caller = Caller(threads, scope, _unlimited)
    try:
        return await caller.call(
            function, injection.without(args, kwargs), list(args), kwargs, is_async=is_async, timeout=None
        )
    finally:
        await scope.close()


class _Threads:
    async def run(
        self,
        function: Callable[..., Any],
        args: Any,
        kwargs: Any,
        timeout: float | None,  # noqa: ARG002 - nothing is limited here
        within: Callable[[Callable[..., Any]], Any] | None = None,
    ) -> Any:
        """Run a call in a thread."""
        if within is not None:
            return await asyncio.to_thread(within, function)
        return await asyncio.to_thread(function, *args, **kwargs)

    async def run_out(self, function: Callable[..., Any], args: Any, kwargs: Any, timeout: float | None) -> Any:
        """The same: there is no job that could be settled before its end."""
        return await self.run(function, args, kwargs, timeout)


async def _unlimited(awaitable: Awaitable[Any], _seconds: float) -> Any:
    return await awaitable
