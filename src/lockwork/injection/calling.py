"""Calls a function with its injected dependencies."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, ExitStack
from typing import Any, TypeVar

from lockwork.injection.plan import Injection, InjectionPlan
from lockwork.injection.scopes import ProviderRunner, ThreadRunner, Values, WorkerScope, enter, enter_here
from lockwork.lazy import asyncio

T = TypeVar("T")
Limited = Callable[[Awaitable[Any], float], Awaitable[Any]]
"""Awaits an awaitable for at most the given number of seconds."""


class Caller:
    """Calls functions with their dependencies; `limited` enforces timeouts."""

    def __init__(self, threads: ProviderRunner, worker: WorkerScope, limited: Limited) -> None:
        self.worker: WorkerScope = worker
        self._threads = threads
        self._limited = limited
        self._abandoned: list[AsyncExitStack] = []

    async def call(
        self,
        function: Callable[..., Any],
        injection: Injection,
        args: list[Any],
        kwargs: dict[str, Any],
        *,
        is_async: bool,
        timeout: float | None,
        threads: ThreadRunner | None = None,
    ) -> Any:
        """Provide the dependencies, call the function, and clean up, also after an error.

        `timeout` limits providing and the call, but not cleaning up. `threads` runs a `def` function; by default, the
        runner of the providers runs it.
        """
        plan = injection.plan()
        if is_async:
            return await self._call_async(function, injection, plan, args, kwargs, timeout)
        return await self._call_in_thread(function, injection, plan, args, kwargs, timeout, threads or self._threads)

    async def _call_async(
        self,
        function: Callable[..., Any],
        injection: Injection,
        plan: InjectionPlan,
        args: list[Any],
        kwargs: dict[str, Any],
        timeout: float | None,
    ) -> Any:
        async with AsyncExitStack() as stack:

            async def whole() -> Any:
                values = await self._provide(plan, stack)
                chosen = {name: values[provider] for name, provider in plan.parameters.items()}
                filled, named = injection.filled(args, kwargs, chosen)
                return await function(*filled, **named)

            return await self._in_time(whole(), timeout)

    async def _call_in_thread(
        self,
        function: Callable[..., Any],
        injection: Injection,
        plan: InjectionPlan,
        args: list[Any],
        kwargs: dict[str, Any],
        timeout: float | None,
        threads: ThreadRunner,
    ) -> Any:
        began = asyncio.get_running_loop().time()
        async with AsyncExitStack() as stack:
            values = await self._in_time(self._provide(plan, stack), timeout)

            def within(call: Callable[..., Any]) -> Any:
                with ExitStack() as inner:
                    for provider in plan.inner:
                        values[provider] = enter_here(provider, values, inner)
                    chosen = {name: values[provider] for name, provider in plan.parameters.items()}
                    filled, named = injection.filled(args, kwargs, chosen)
                    return call(*filled, **named)

            if timeout is not None:
                timeout = max(0.0, began + timeout - asyncio.get_running_loop().time())
            try:
                return await threads.run(function, args, kwargs, timeout, within)
            except asyncio.CancelledError:
                task = asyncio.current_task()
                if task is not None and task.cancelling():
                    # the thread still runs and uses the values: garbage collection of the stack would end them
                    self._abandoned.append(stack.pop_all())
                raise

    async def _provide(self, plan: InjectionPlan, stack: AsyncExitStack) -> Values:
        if plan.worker:
            await self.worker.provide(plan.worker)
        values = dict(self.worker.values)
        for provider in plan.outer:
            values[provider] = await enter(provider, values, stack, self._threads)
        return values

    async def _in_time(self, awaitable: Awaitable[T], timeout: float | None) -> T:
        if timeout is None:
            return await awaitable
        result: T = await self._limited(awaitable, timeout)
        return result


async def call_alone(
    function: Callable[..., Any],
    injection: Injection,
    args: Sequence[Any],
    kwargs: dict[str, Any],
    *,
    is_async: bool,
) -> Any:
    """Provide the missing arguments, call, and clean up, including values of scope "worker"."""
    threads = _Threads()
    scope = WorkerScope(threads)
    caller = Caller(threads, scope, _unlimited)
    try:
        return await caller.call(
            function, injection.without(args, kwargs), list(args), kwargs, is_async=is_async, timeout=None
        )
    finally:
        await scope.close()


def call_here(
    function: Callable[..., Any],
    injection: Injection,
    args: Sequence[Any],
    kwargs: dict[str, Any],
    *,
    is_async: bool,
) -> Any:
    """Blocking version of `call_alone`: a `def` function, and its providers, run on this thread.

    An `async def` function, or an asynchronous provider, gets an event loop of its own.
    """
    injection = injection.without(args, kwargs)
    plan = injection.plan()
    if is_async or any(provider.is_async for provider in (*plan.worker, *plan.outer)):
        # with a factory, the runner does not replace the thread's event loop
        with asyncio.Runner(loop_factory=asyncio.new_event_loop) as runner:
            return runner.run(call_alone(function, injection, args, kwargs, is_async=is_async))
    values: Values = {}
    with ExitStack() as worker, ExitStack() as job:
        for providers, stack in ((plan.worker, worker), (plan.inner, job)):
            for provider in providers:
                values[provider] = enter_here(provider, values, stack)
        chosen = {name: values[provider] for name, provider in plan.parameters.items()}
        filled, named = injection.filled(list(args), kwargs, chosen)
        return function(*filled, **named)


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
        """Run a call in a thread, as `run` does: there is no job that could end before the thread."""
        return await self.run(function, args, kwargs, timeout)


async def _unlimited(awaitable: Awaitable[Any], _seconds: float) -> Any:
    return await awaitable
