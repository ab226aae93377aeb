"""Tasks of Django, for the tests of the backend."""

import asyncio
import os
import signal
import time
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import django

from lockwork import current_job

from . import received  # noqa: F401 - connects the receivers of signals

if TYPE_CHECKING:
    from django.tasks import task
else:
    task = import_module("django.tasks" if django.VERSION >= (6,) else "django_tasks").task


def die_once(at: str) -> None:
    """Kill the first worker process before it settles an outcome, or after it."""
    from lockwork.worker.execution.hook_runner import HookRunner
    from lockwork.worker.execution.settler import Settler

    file = Path(os.environ["REPORTS_SIGNALS"]).with_name("died")

    def kill(*_: Any) -> Any:
        if not file.exists():
            file.touch()
            os.kill(os.getpid(), signal.SIGKILL)

    chosen: Any = Settler if at == "before" else HookRunner
    name = "add" if at == "before" else "report_end"
    original = getattr(chosen, name)

    def patched(self: Any, *args: Any) -> Any:
        kill()
        return original(self, *args)

    setattr(chosen, name, patched)


if "REPORTS_DIES" in os.environ:
    die_once(os.environ["REPORTS_DIES"])


class ReportError(Exception):
    """An error of this project."""

    class Nested(Exception):
        """A class that `import_string` does not find."""


@task
def echo(*args: Any, **kwargs: Any) -> list[Any]:
    """Return the arguments."""
    return [list(args), kwargs]


@task
async def aecho(value: Any) -> Any:
    """Return the argument, from the event loop."""
    await asyncio.sleep(0)
    return value


@task
def annotated(number: int, day: "Missing" = None) -> str:  # type: ignore[name-defined]  # noqa: F821
    """Return the type of the argument, which is not the annotated one."""
    return type(number).__name__


@task(takes_context=True)
def in_context(context: Any, fail: int = 0) -> list[Any]:
    """Return the facts in the context."""
    result = context.task_result
    if context.attempt <= fail:
        raise ReportError(f"attempt {context.attempt}")
    return [context.attempt, result.id, str(result.status), len(result.worker_ids), len(result.errors)]


@task(takes_context=True)
async def ain_context(context: Any) -> int:
    """Return the attempt, from the event loop."""
    return int(context.attempt)


@task
def fail(kind: str = "ReportError") -> None:
    """Raise an error."""
    if kind == "nested":
        raise ReportError.Nested("inner")
    if kind == "local":

        class Local(KeyError):
            pass

        raise Local("here")
    if kind == "exit":
        raise SystemExit(3)
    if kind == "chain":
        try:
            raise ValueError("the first")
        except ValueError as error:
            raise ReportError("the second") from error
    raise ReportError(f"for a {kind}")


@task
async def afail() -> None:
    """Raise an error on the event loop."""
    raise ReportError("on the loop")


@task
def returns_object() -> object:
    """Return what JSON cannot hold."""
    return object()


@task(priority=-5, queue_name="slow")
def in_slow() -> str:
    """Return the queue that ran it."""
    return current_job().queue


@task
def where() -> str:
    """Return the queue that ran it."""
    return current_job().queue


@task
def kill(times: int) -> int:
    """Kill the worker process in the first attempts."""
    job = current_job()
    if job.attempt <= times:
        os.kill(os.getpid(), signal.SIGKILL)
    return job.attempt


@task
def sleep(seconds: float) -> None:
    """Sleep."""
    time.sleep(seconds)


@task
async def asleep(seconds: float) -> None:
    """Sleep on the event loop."""
    await asyncio.sleep(seconds)


@task(backend="immediate")
def immediate(number: int) -> int:
    """Return a number; its own backend is another."""
    return 2 * number


@task
def changes_arguments(numbers: list[int], names: dict[str, int]) -> list[Any]:
    """Change the arguments, and return them."""
    numbers.append(2)
    names.clear()
    return [numbers, names]


@task
def fail_with(text: str) -> None:
    """Raise an error with this text."""
    raise ReportError(text.encode().decode("unicode_escape") if text.endswith("udc80") else text)


with_options: Any = task  # the stubs do not know `task_class`


@with_options(executor="process", max_deliveries=1)  # type: ignore[untyped-decorator]
def pid(kill: bool = False) -> int:
    """Return the process, or kill it."""
    if kill:
        os.kill(os.getpid(), signal.SIGKILL)
    return os.getpid()


@with_options(hard_timeout=0.3)  # type: ignore[untyped-decorator]
def stuck() -> None:
    """Never end."""
    while True:
        time.sleep(0.1)
