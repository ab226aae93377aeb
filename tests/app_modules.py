"""The apps that workers of the tests run, loaded here for the tests to enqueue with."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

Load = Callable[[str, str], ModuleType]
"""Takes a server's URL and a module's name."""


def load_app(folder: Path, name: str, url: str) -> ModuleType:
    """Return a fresh copy of an app's module, bound to the server at `url`."""
    spec = importlib.util.spec_from_file_location(f"{name}_here", folder / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LOCKWORK_URL", url)
        spec.loader.exec_module(module)
    return module


def own_app(name: str) -> Any:
    """Make a fixture: an app's module on a database of the test's own. No worker runs there yet."""

    @pytest.fixture
    def own(own_url: str, load: Load) -> Iterator[Any]:
        module: Any = load(own_url, name)
        with module.lw:
            yield module

    return own


def shared_app(name: str) -> tuple[Any, Any, Any]:
    """Make three fixtures: the URL of a server where a worker runs for many tests, and the app's module on it.

    The third is the module for asyncio tests.
    """

    @pytest.fixture(scope="module")
    def busy_url(at_work: Callable[[Path, str], str], apps: Path) -> str:
        return at_work(apps, name)

    @pytest.fixture
    def shared(busy_url: str, load: Load) -> Iterator[Any]:
        module: Any = load(busy_url, name)
        with module.lw:
            yield module

    @pytest.fixture
    async def ashared(busy_url: str, load: Load) -> AsyncIterator[Any]:
        module: Any = load(busy_url, name)
        async with module.lw:
            yield module

    return busy_url, shared, ashared
