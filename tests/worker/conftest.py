"""The worker tests' app, on a database of its own that workers may leave in any state."""

from __future__ import annotations

import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from app_modules import Load


@pytest.fixture
def shift(own_url: str, load: Load) -> Iterator[Any]:
    """The app's tasks; nobody works there yet."""
    module: Any = load(own_url, "shift")
    with module.lw:
        yield module


@pytest.fixture
def ask() -> Callable[[int, str], tuple[int, str]]:
    """Ask a health port; status 0 when nobody answers."""

    def answer(port: int, path: str) -> tuple[int, str]:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=10) as reply:
                return int(reply.status), reply.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()
        except (urllib.error.URLError, OSError):
            return 0, ""

    return answer
