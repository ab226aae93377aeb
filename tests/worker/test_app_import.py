"""Worker processes import the app outside of an event loop, as the supervisor does."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from app_modules import Load
from processes import until, worker
from sleeping import sleepers


@pytest.fixture
def blocking(own_url: str, load: Load) -> Iterator[Any]:
    module: Any = load(own_url, "blocking_import")
    with module.lw:
        yield module


@pytest.fixture
def imports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """File with a line for each import; the app fails while a file named `broken` is beside it."""
    monkeypatch.setenv("IMPORTS", str(tmp_path / "imports"))
    monkeypatch.setenv("BROKEN", str(tmp_path / "broken"))
    return tmp_path / "imports"


def test_import_and_def_lifespan_may_block(blocking: Any, own_url: str, apps: Path, imports: Path) -> None:
    assert blocking.lw.queue("mail").limits().concurrency == 7
    with worker("blocking_import:lw", url=own_url, folder=apps) as process:
        assert blocking.send.enqueue().result(30) == ["configuration", "eu", "held"]
        process.send(signal.SIGTERM)
        assert process.wait() == 0
    assert not blocking.lw.locks().locks
    assert imports.with_suffix(".released").exists()


def test_runner_imports_outside_of_its_loop(blocking: Any, own_url: str, apps: Path) -> None:
    job = blocking.crunch.enqueue()
    with worker("blocking_import:lw", "--runners", "1", url=own_url, folder=apps):
        assert job.result(30) == ["configuration", "eu"]


def test_first_process_that_cannot_import_ends_the_worker(
    blocking: Any, own_url: str, apps: Path, imports: Path
) -> None:
    imports.with_name("broken").touch()
    with worker("blocking_import:lw", url=own_url, folder=apps) as process:
        assert process.wait() == 1
        assert "RuntimeError: half deployed" in process.errors
        assert "blocking_import.py" in process.errors


def test_replacement_that_cannot_import_is_tried_again_while_others_run(
    blocking: Any, own_url: str, apps: Path, imports: Path
) -> None:
    with worker("blocking_import:lw", "--processes", "2", "-c", "1", url=own_url, folder=apps) as process:
        sleepers(own_url, "mail", 2)
        imports.with_name("broken").touch()
        os.kill(process.children()[0], signal.SIGKILL)
        until(lambda: process.errors.count("RuntimeError: half deployed") >= 2, "it is tried again")
        assert blocking.send.enqueue().result(30) == ["configuration", "eu", "held"]
        imports.with_name("broken").unlink()
        sleepers(own_url, "mail", 2)
