"""Notes each signal as a line of REPORTS_SIGNALS."""

import os
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import django

signals: Any = import_module("django.tasks.signals" if django.VERSION >= (6,) else "django_tasks.signals")


def note(signal: str, task_result: Any) -> None:
    """Write one line."""
    if "REPORTS_SIGNALS" in os.environ:
        error = sys.exc_info()[0]
        words = (
            signal,
            task_result.id,
            str(task_result.status),
            len(task_result.errors),
            getattr(error, "__name__", "-"),
        )
        with Path(os.environ["REPORTS_SIGNALS"]).open("a") as file:
            file.write(" ".join(map(str, words)) + "\n")


def enqueued(sender: type, task_result: Any, **_: Any) -> None:
    """Note an enqueue."""
    note("enqueued", task_result)


def started(sender: type, task_result: Any, **_: Any) -> None:
    """Note a start."""
    note("started", task_result)


def finished(sender: type, task_result: Any, **_: Any) -> None:
    """Note an end."""
    note("finished", task_result)


signals.task_enqueued.connect(enqueued)
signals.task_started.connect(started)
signals.task_finished.connect(finished)
