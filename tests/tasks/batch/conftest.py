"""An app with batch tasks, and workers that record each call in a file."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from app_modules import Load
from history import History
from processes import Started, worker


@pytest.fixture
def batched(own_url: str, history: History, load: Load) -> Iterator[Any]:
    """The app, without a worker."""
    module: Any = load(own_url, "batched")
    with module.lw:
        yield module


@pytest.fixture
def work(own_url: str, apps: Path, history: History) -> Callable[..., AbstractContextManager[Started]]:
    """Starts a worker of the app, for the length of a `with` block."""

    def start(*options: str) -> AbstractContextManager[Started]:
        return worker("batched:lw", "--lease", "5", *options, url=own_url, folder=apps)

    return start
