"""`lockwork enqueue`."""

from __future__ import annotations

import json
from typing import Any

import click

from lockwork.app.lockwork import Lockwork
from lockwork.cli.announced import Announced
from lockwork.cli.completion import task_names
from lockwork.cli.help import Command
from lockwork.cli.names import unknown
from lockwork.cli.options import Scope, duration, queue_option, scoped
from lockwork.cli.report import Output, Report, prints_json
from lockwork.cli.text import printable
from lockwork.errors import ConfigError
from lockwork.payloads.payloads import Payloads
from lockwork.protocol.keys import PRIORITIES, base_queue
from lockwork.tasks.remote import found
from lockwork.worker.loading import load


@click.command(
    cls=Command,
    examples={
        "lockwork enqueue send --args '[42]'": "One job; prints its id.",
        """lockwork enqueue report --kwargs '{"day": "2026-11-01"}' --delay 10m""": "Ten minutes from now.",
        "lockwork enqueue send --args '[42]' --id order-42": "A job with its own id; lockwork job :order-42 shows it.",
        "lockwork enqueue send --queue mail --create": "A task that no app has announced yet.",
    },
)
@click.option("--args", "positional", default="[]", metavar="JSON", help="Positional arguments, a JSON array.")
@click.option("--kwargs", "named", default="{}", metavar="JSON", help="Keyword arguments, a JSON object.")
@click.option("--delay", help="Run the job after this time, such as 10m.")
@click.option("--key", help="Jobs with the same key run one at a time, in order. [default: the task's]")
@click.option(
    "--priority",
    type=click.Choice([*PRIORITIES, *map(str, range(10))]),
    metavar="PRIORITY",
    help="high, normal or low; in a queue with ten priorities also 0 (first) to 9. [default: the task's]",
)
@click.option(
    "--retries", type=click.IntRange(0), help="How often the job runs again if it fails. [default: the task's]"
)
@click.option("--id", "own_id", help="The job's own id: if a job has it, nothing is enqueued.")
@click.option(
    "--app",
    metavar="MODULE:OBJECT",
    help="The app, such as shop.tasks:lw, whose codec encrypts or signs the job. Only for tasks of apps with a codec.",
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
    priority: str | None,
    retries: int | None,
    own_id: str | None,
    app: str | None,
    create: bool,
    task: str,
    extra: tuple[str, ...],
) -> None:
    """Enqueue a job of TASK, and print its id.

    The job gets the options that the app has announced for the task, such as queue, retries, key and unique name. The
    arguments must fit its parameters.
    """
    if extra:
        raise click.UsageError(f"arguments of the task are JSON: --args '{_as_json(extra)}'")
    args, kwargs = json_option(positional, "--args", list), json_option(named, "--kwargs", dict)
    chosen = {
        "delay": None if delay is None else duration(delay, "--delay"),
        "key": key,
        "priority": int(priority) if priority is not None and priority.isdigit() else priority,
        "retries": retries,
        "id": own_id,
    }
    options: Any = {name: value for name, value in chosen.items() if value is not None}
    with scope.open(read_only=False, create=create) as lw:
        announced = Announced.read(lw)
        check_task(announced, task, scope.queue, create=create)
        remote = lw.remote_task(task, queue=scope.queue).options(**options)
        try:
            version = lw.runtime.run(found(remote, [(args, kwargs)]))
            _take_codec(lw, announced, task, version.options_in_force.queue, app)
            job = version.enqueue(*args, **kwargs)
        except TypeError as error:
            raise ConfigError(f"{error}: see --args and --kwargs") from None
        used = version.options_in_force.retries
        document = {"job": job.id, "queue": job.queue, "task": task, "retries": used, "new": job.new}
        summary = f"task {printable(task)}, queue {printable(job.queue)}, retries {used}"
        if not job.new:
            summary += f": {job.arrival}, since this job has the {'unique name' if own_id is None else 'id'}"
        if not lw.queue(job.queue).workers():
            summary += ": no worker serves it now"
        output.show(lambda: Report(document, [job.id]))
        if not output.as_json:
            click.echo(summary, err=True)  # the id alone is for programs


def _take_codec(lw: Lockwork, announced: Announced, task: str, queue: str, app: str | None) -> None:
    """Encrypt or sign with the codec of an app; raises ConfigError if the task's app has one, and none is given."""
    if app is not None:
        config = load(app).config
        if config.codec is None:
            raise ConfigError(f"the app {app} has no codec: omit --app")
        lw.runtime.payloads = Payloads(config.codec, lw.config.prefix, config.codec_rollout)
    elif (kind := announced.codecs.get(base_queue(queue))) is not None:
        raise ConfigError(
            f"jobs of task {printable(task)} in queue {printable(queue)} are {kind}, and this command has no key: "
            "pass --app with the app, such as --app shop.tasks:lw, to use its codec"
        )


def check_task(announced: Announced, name: str, queue: str | None, *, create: bool) -> None:
    """Raise ConfigError if no app has announced the task, unless `create` accepts it, or if several queues have one."""
    queues = {task.queue for task in announced.tasks.values() if name == task.name or name in task.aliases}
    if queue is None and len(queues) > 1:
        named = ", ".join(printable(each) for each in sorted(queues))
        raise ConfigError(f"task {printable(name)} is in several queues ({named}): pass its --queue")
    if queues:
        return
    names = {task.name for task in announced.tasks.values()}
    if queue is None and not (names or create):
        raise ConfigError(f"no app has announced task {printable(name)}: pass its --queue")
    if names and not create:
        raise ConfigError(f"{unknown('task', name, names)} Add --create to use it anyway.")
    if queue is None:
        raise click.UsageError("--create needs the --queue of the task")


def _as_json(words: tuple[str, ...]) -> str:
    """Return the array that these words seem to mean."""
    values: list[Any] = []
    for word in words:
        try:
            values.append(json.loads(word))
        except ValueError:
            values.append(word)
    return json.dumps(values, ensure_ascii=False)


def json_option(text: str, option: str, kind: type[Any]) -> Any:
    try:
        value = json.loads(text)
    except ValueError as error:
        raise click.UsageError(f"{option} is not JSON: {error}") from None
    if not isinstance(value, kind):
        shape = "an array, such as '[42]'" if kind is list else """an object, such as '{"day": 1}'"""
        raise click.UsageError(f"{option} must be {shape}, not {text!r:.80}")
    return value
