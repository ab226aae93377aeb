"""Tests of tasks, and of code that enqueues; without a server, or with an embedded one. See docs/testing.md."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lockwork.testing.fakes import FakeJob, fake_job
    from lockwork.testing.fixtures import LockworkFixture
    from lockwork.testing.recorded import RecordedJob
    from lockwork.testing.recorder import (
        NoServer,
        Recording,
        assert_enqueued,
        assert_not_enqueued,
        enqueued,
        inline,
        record,
    )
    from lockwork.testing.servers import LocalServer, aflush, flush, server

__all__ = [
    "FakeJob",
    "LocalServer",
    "LockworkFixture",
    "NoServer",
    "RecordedJob",
    "Recording",
    "aflush",
    "assert_enqueued",
    "assert_not_enqueued",
    "enqueued",
    "fake_job",
    "flush",
    "inline",
    "record",
    "server",
]

_ELSEWHERE = {
    "FakeJob": "fakes",
    "fake_job": "fakes",
    "LockworkFixture": "fixtures",
    "RecordedJob": "recorded",
    **dict.fromkeys(("LocalServer", "aflush", "flush", "server"), "servers"),
    **dict.fromkeys(
        ("NoServer", "Recording", "assert_enqueued", "assert_not_enqueued", "enqueued", "inline", "record"), "recorder"
    ),
}
"""The module of each public name."""


def __getattr__(name: str) -> object:
    # Loaded when first used: pytest imports this package for its plugin in each run, also of other projects.
    if name not in _ELSEWHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(import_module(f"{__name__}.{_ELSEWHERE[name]}"), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
