"""The apps that workers of the tests run, loaded here for the tests to enqueue with."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

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
