"""The options that select jobs, and the filter that they make."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar, cast

import click

from lockwork.app.lockwork import Lockwork
from lockwork.cli.announced import Announced
from lockwork.cli.completion import task_names
from lockwork.cli.names import unknown
from lockwork.cli.options import duration
from lockwork.errors import ConfigError
from lockwork.jobs.search import JobFilter, JobState

F = TypeVar("F", bound=Callable[..., object])
_TIME = "Only jobs that ended (or else started, or were enqueued) "


def _state_option(state: JobState) -> Callable[[F], F]:
    ended = "Only jobs that have ended: dead, succeeded, cancelled or expired."
    return click.option(
        f"--{state}", "state", flag_value=state, help=ended if state == "done" else f"Only {state} jobs."
    )


def job_filter(command: F) -> F:
    """Give a command the options that select jobs; it receives them as its argument `wanted`."""

    @_state_option("running")
    @_state_option("ready")
    @_state_option("scheduled")
    @_state_option("blocked")
    @_state_option("dead")
    @_state_option("succeeded")
    @_state_option("cancelled")
    @_state_option("expired")
    @_state_option("done")
    @click.option("--task", shell_complete=task_names, help="Only jobs of this task.")
    @click.option("--tag", help="Only jobs with this tag.")
    @click.option("--key", help="Only jobs with this key.")
    @click.option("--group", help="Only jobs of this group.")
    @click.option("--arg", help="Only jobs with this argument: 42 matches any, n=42 the argument named n.")
    @click.option("--error", help="Only jobs whose error contains this text in its type or message.")
    @click.option("--text", help="Only jobs that contain this text in id, call or error.")
    @click.option("--since", help=f"{_TIME}within this time, such as 2h.")
    @click.option("--until", help=f"{_TIME}at least this long ago.")
    @wraps(command)
    def wrapped(*args: Any, **options: Any) -> object:
        matching: dict[str, Any] = {"state": options.pop("state"), "hide_arguments": True}
        for name in ("task", "tag", "key", "group", "arg", "error", "text"):
            if (text := options.pop(name)) is not None:
                matching[name] = text
        for name in ("since", "until"):
            if (text := options.pop(name)) is not None:
                matching[name] = duration(text, f"--{name}")
        return command(*args, wanted=cast("JobFilter", matching), **options)

    return wrapped  # type: ignore[return-value]  # click calls it by name


def unknown_task(lw: Lockwork, wanted: JobFilter) -> ConfigError | None:
    """Return the error if apps have announced tasks, but not the task of the filter."""
    task = wanted.get("task")
    names = set[str]() if task is None else {each.name for each in Announced.read(lw).tasks.values()}
    return unknown("task", task, names) if task is not None and names and task not in names else None
