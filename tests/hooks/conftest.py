"""Apps with hooks, dependencies and lifespans, and workers that record events in a file."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from app_modules import Load
from history import History
from processes import Started, worker


@pytest.fixture
def app(
    own_url: str, apps: Path, load: Load, history: History, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[[str], Any]]:
    """Loads an app module in this process, and closes it at the end."""
    monkeypatch.syspath_prepend(apps)  # they import from each other
    with contextlib.ExitStack() as stack:

        def loaded(name: str) -> Any:
            module: Any = load(own_url, name)
            stack.enter_context(module.lw)
            return module

        yield loaded


@pytest.fixture
def work(own_url: str, apps: Path, history: History) -> Callable[..., contextlib.AbstractContextManager[Started]]:
    """Starts a worker of an app, for the length of a `with` block."""

    def start(name: str, *options: str) -> contextlib.AbstractContextManager[Started]:
        return worker(f"{name}:lw", "--lease", "5", *options, url=own_url, folder=apps)

    return start
