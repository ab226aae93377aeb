"""App modules that the workers of the tests run, loaded in the test process to enqueue jobs."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

Load = Callable[[str, str], ModuleType]
"""A function of a server's URL and a module's name."""


def load_app(folder: Path, name: str, url: str) -> ModuleType:
    """Return a fresh copy of an app's module, bound to the server at `url`."""
    spec = importlib.util.spec_from_file_location(f"{name}_here", folder / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses search for their module there
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LOCKWORK_URL", url)
        spec.loader.exec_module(module)
    return module


def own_app(name: str) -> Any:
    """Make a fixture: an app's module on the test's own database, without a worker."""

    @pytest.fixture
    def own(own_url: str, load: Load) -> Iterator[Any]:
        module: Any = load(own_url, name)
        with module.lw:
            yield module

    return own


def shared_app(name: str) -> tuple[Any, Any, Any]:
    """Make three fixtures on a shared server with a worker: its URL, the app's module, and that module for asyncio
    tests.
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
