"""Apps with hooks, dependencies and lifespans, which record events in a file."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from app_modules import Load
from history import History


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
