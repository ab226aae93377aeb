"""Docstrings of factories name every option."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from inspect import get_annotations
from typing import Any

import pytest

from lockwork import Lockwork
from lockwork.config import Settings
from lockwork.schedules.options import ScheduledTaskSettings

FACTORIES = [
    Lockwork.lock, Lockwork.semaphore, Lockwork.rwlock, Lockwork.multilock, Lockwork.quorum, Lockwork.election,
    Lockwork.latch, Lockwork.barrier, Lockwork.limiter, Lockwork.once, Lockwork.stock, Lockwork.delay_queue,
    Lockwork.queue, Lockwork.job, Lockwork.fenced,
]  # fmt: skip


def _listed(docstring: str | None) -> set[str]:
    arguments = (docstring or "").partition("Args:")[2]
    return {line.split(":")[0].strip() for line in arguments.splitlines() if line.startswith(" " * 12) and ":" in line}


@pytest.mark.parametrize("factory", FACTORIES, ids=lambda factory: factory.__name__)
def test_factory_docstring_lists_every_option(factory: Callable[..., Any]) -> None:
    assert set(inspect.signature(factory).parameters) - {"self", "unknown"} <= _listed(factory.__doc__)


def test_task_docstring_lists_every_option() -> None:
    options = {*get_annotations(ScheduledTaskSettings), "batch", "linger"}
    assert options <= _listed(Lockwork.task.__doc__)


def test_app_docstring_lists_every_setting() -> None:
    listed = {line.split(":")[0].strip() for line in (Lockwork.__doc__ or "").partition("Args:")[2].splitlines()}
    assert {"url", "client", *get_annotations(Settings)} <= listed
