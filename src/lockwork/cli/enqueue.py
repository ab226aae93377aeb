"""`lockwork enqueue`."""

from __future__ import annotations

import json
from typing import Any, Literal

import click

from lockwork.cli.completion import queue_names
from lockwork.cli.help import Command
from lockwork.cli.options import duration, names_the_app, opened, partitions_option
from lockwork.cli.report import Output, Report, reports
from lockwork.protocol.keys import PRIORITIES
from lockwork.tasks.options import CallSettings


@click.command(
    cls=Command,
    examples={
        "lockwork enqueue send_mail --queue mail --args '[42]'": "One job; prints its id.",
        """lockwork enqueue report -q default --kwargs '{"day": "2026-11-01"}' --delay 10m""": "Ten minutes from now.",
    },
)
@click.option("--queue", "-q", required=True, shell_complete=queue_names, help="The queue of the task.")
@partitions_option
@reports
@names_the_app
@click.option("--args", "positional", default="[]", metavar="JSON", help="Positional arguments, a JSON array.")
@click.option("--kwargs", "named", default="{}", metavar="JSON", help="Keyword arguments, a JSON object.")
@click.option("--delay", help="Not before this time has passed, such as 10m.")
@click.option("--key", help="Jobs with the same key run one at a time, in order.")
@click.option("--priority", type=click.Choice(PRIORITIES), help="Strictly in this order. [default: normal]")
@click.option("--create", is_flag=True, help="The queue need not exist yet.")
@click.argument("task")
def enqueue(
    *,
    queue: str,
    partitions: int | None,
    output: Output,
    url: str | None,
    prefix: str,
    positional: str,
    named: str,
    delay: str | None,
    key: str | None,
    priority: Literal["high", "normal", "low"] | None,
    create: bool,
    task: str,
) -> None:
    """Enqueue a job of TASK, and print its id.

    The worker checks the arguments against the function. The options of the task in the code, such as `retries`, apply
    only as far as the worker decides them: what the enqueuing program decides is given here.
    """
    if output.watch is not None:
        raise click.UsageError("a job is enqueued once: leave --watch out")
    args, kwargs = _json(positional, "--args", list), _json(named, "--kwargs", dict)
    options: CallSettings = {}
    if delay is not None:
        options["delay"] = duration(delay)
    if key is not None:
        options["key"] = key
    if priority is not None:
        options["priority"] = priority
    with opened(url, prefix, queue, partitions, looks=False, create=create) as lw:
        made = lw.task(name=task, queue=queue)(_anything)
        job = made.options(**options).enqueue(*args, **kwargs)
        document = {"job": job.id, "queue": job.queue, "task": task}
        output.show(lambda: Report(document, [job.id]))


def _anything(*args: Any, **kwargs: Any) -> None:
    """Stand for the function, which only the workers have."""


def _json(text: str, option: str, kind: type[Any]) -> Any:
    try:
        found = json.loads(text)
    except ValueError as error:
        raise click.UsageError(f"{option} is no JSON: {error}") from None
    if not isinstance(found, kind):
        shape = "an array, such as '[42]'" if kind is list else """an object, such as '{"day": 1}'"""
        raise click.UsageError(f"{option} must be {shape}, not {text!r:.80}")
    return found
