"""Tests of tasks, and of code that enqueues; without a server, or with an embedded one. See docs/testing.md."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lockwork.testing.clocks import MovableClock
    from lockwork.testing.draining import Drained, TooManyRuns
    from lockwork.testing.fakes import FakeJob, fake_job
    from lockwork.testing.fixtures import LockworkFixture
    from lockwork.testing.recorded import RecordedJob
    from lockwork.testing.recorder import (
        NoServer,
        Recording,
        arun_all,
        assert_enqueued,
        assert_not_enqueued,
        enqueued,
        inline,
        record,
        run_all,
    )
    from lockwork.testing.servers import LocalServer, aflush, flush, server
    from lockwork.testing.workers import worker

__all__ = [
    "Drained",
    "FakeJob",
    "LocalServer",
    "LockworkFixture",
    "MovableClock",
    "NoServer",
    "RecordedJob",
    "Recording",
    "TooManyRuns",
    "aflush",
    "arun_all",
    "assert_enqueued",
    "assert_not_enqueued",
    "enqueued",
    "fake_job",
    "flush",
    "inline",
    "record",
    "run_all",
    "server",
    "worker",
]

_ELSEWHERE = {
    "MovableClock": "clocks",
    "Drained": "draining",
    "FakeJob": "fakes",
    "TooManyRuns": "draining",
    "worker": "workers",
    "fake_job": "fakes",
    "LockworkFixture": "fixtures",
    "RecordedJob": "recorded",
    **dict.fromkeys(("LocalServer", "aflush", "flush", "server"), "servers"),
    **dict.fromkeys(
        (
            "NoServer",
            "Recording",
            "arun_all",
            "assert_enqueued",
            "assert_not_enqueued",
            "enqueued",
            "inline",
            "record",
            "run_all",
        ),
        "recorder",
    ),
}
"""The module of each public name."""


def __getattr__(name: str) -> object:
    # Loaded when first used: pytest imports this package for its plugin in each run, also of other projects.
    if name not in _ELSEWHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_ELSEWHERE[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
