"""`lockwork run` as a process of its own, for the tests of it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest
import redis

from processes import Started, started

Run = Callable[..., AbstractContextManager[Started]]


@pytest.fixture
def run(url: str, admin: redis.Redis, tmp_path: Path) -> Run:
    """Begin `lockwork run --lock x` with these arguments, on the run's server or another."""

    def begin(*arguments: str, options: tuple[str, ...] = (), server: str = url) -> AbstractContextManager[Started]:
        command = [sys.executable, "-m", "lockwork", "run", "--lock", "x", *options, *arguments]
        return started(command, folder=tmp_path, url=server)

    return begin


@pytest.fixture(autouse=True)
def no_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let output that is no terminal have its own width; xdist sets one."""
    monkeypatch.delenv("COLUMNS", raising=False)
