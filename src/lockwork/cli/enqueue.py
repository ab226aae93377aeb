"""`lockwork enqueue`."""

from __future__ import annotations

import json
from typing import Any, Literal

import click
from msgspec.structs import replace

from lockwork.cli.announced import Announced, register
from lockwork.cli.completion import task_names
from lockwork.cli.help import Command
from lockwork.cli.names import unknown
from lockwork.cli.options import Scope, duration, queue_option, scoped
from lockwork.cli.report import Output, Report, prints_json
from lockwork.cli.text import printable
from lockwork.errors import ConfigError
from lockwork.protocol.keys import PRIORITIES, base_queue
from lockwork.tasks.options import CallSettings
from lockwork.workers import AnnouncedTask


@click.command(
    cls=Command,
    examples={
        "lockwork enqueue send --args '[42]'": "One job; prints its id.",
        """lockwork enqueue report --kwargs '{"day": "2026-11-01"}' --delay 10m""": "Ten minutes from now.",
        "lockwork enqueue send --queue mail --create": "A task that no app has announced yet.",
    },
)
@click.option("--args", "positional", default="[]", metavar="JSON", help="Positional arguments, a JSON array.")
@click.option("--kwargs", "named", default="{}", metavar="JSON", help="Keyword arguments, a JSON object.")
@click.option("--delay", help="Run the job after this time, such as 10m.")
@click.option("--key", help="Jobs with the same key run one at a time, in order. [default: the task's]")
@click.option("--priority", type=click.Choice(PRIORITIES), help="Priority, in strict order. [default: the task's]")
@click.option(
    "--retries", type=click.IntRange(0), help="How often the job runs again if it fails. [default: the task's]"
)
@click.option("--create", is_flag=True, help="Accept a queue or task that no app has announced.")
@click.argument("task", shell_complete=task_names)
@click.argument("extra", nargs=-1, metavar="")
@scoped(queue_option("The queue. [default: the task's]"))
@prints_json
def enqueue(
    *,
    scope: Scope,
    output: Output,
    positional: str,
    named: str,
    delay: str | None,
    key: str | None,
    priority: Literal["high", "normal", "low"] | None,
    retries: int | None,
    create: bool,
    task: str,
    extra: tuple[str, ...],
) -> None:
    """Enqueue a job of TASK, and print its id.

    The job gets the queue, retries, priority, key, group and tags that the app has announced for the task. The task's
    `unique`, `debounce` and `expires` do not apply.
    """
    if extra:
        raise click.UsageError(f"arguments of the task are JSON: --args '{_as_json(extra)}'")
    args, kwargs = _json(positional, "--args", list), _json(named, "--kwargs", dict)
    options: CallSettings = {}
    if delay is not None:
        options["delay"] = duration(delay, "--delay")
    if key is not None:
        options["key"] = key
    if priority is not None:
        options["priority"] = priority
    if retries is not None:
        options["retries"] = retries
    with scope.open(read_only=False, create=create) as lw:
        task_handle = register(lw, _found(Announced.read(lw), task, scope.queue, create=create))
        try:
            job = task_handle.options(**options).enqueue(*args, **kwargs)
        except TypeError as error:
            raise ConfigError(f"{error}: see --args and --kwargs") from None
        in_force = task_handle.options(**options).options_in_force
        document = {"job": job.id, "queue": job.queue, "task": task, "retries": in_force.retries}
        summary = f"task {printable(task)}, queue {printable(job.queue)}, retries {in_force.retries}"
        if not lw.queue(job.queue).workers():
            summary += ": no worker serves it now"
        output.show(lambda: Report(document, [job.id]))
        if not output.as_json:
            click.echo(summary, err=True)  # the id alone is for programs


def _found(announced: Announced, name: str, queue: str | None, *, create: bool) -> AnnouncedTask:
    """Return the task of that name; raises ConfigError if none was announced, or several queues have one."""
    tasks = [task for task in announced.tasks.values() if task.name == name]
    there = [task for task in tasks if queue is None or task.queue == base_queue(queue)]
    if len(there) == 1:
        return there[0] if queue is None else replace(there[0], queue=queue)
    if len(there) > 1:
        queues = ", ".join(sorted(printable(task.queue) for task in there))
        raise ConfigError(f"task {printable(name)} is in several queues ({queues}): pass its --queue")
    if tasks and queue is not None:
        return replace(tasks[0], queue=queue)
    names = {task.name for task in announced.tasks.values()}
    if queue is None and not (names or create):
        raise ConfigError(f"no app has announced task {printable(name)}: pass its --queue")
    if names and not create:
        raise ConfigError(f"{unknown('task', name, names)} Add --create to use it anyway.")
    if queue is None:
        raise click.UsageError("--create needs the --queue of the task")
    return AnnouncedTask(name, queue, "thread", None, 3, parameters=["*args", "**kwargs"])


def _as_json(words: tuple[str, ...]) -> str:
    """Return the array that these words seem to mean."""
    values: list[Any] = []
    for word in words:
        try:
            values.append(json.loads(word))
        except ValueError:
            values.append(word)
    return json.dumps(values, ensure_ascii=False)


def _json(text: str, option: str, kind: type[Any]) -> Any:
    try:
        value = json.loads(text)
    except ValueError as error:
        raise click.UsageError(f"{option} is not JSON: {error}") from None
    if not isinstance(value, kind):
        shape = "an array, such as '[42]'" if kind is list else """an object, such as '{"day": 1}'"""
        raise click.UsageError(f"{option} must be {shape}, not {text!r:.80}")
    return value
