"""A folder for an embedded server, with a check that no process remains."""

from __future__ import annotations

import fcntl
import os
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from lockwork.runtime.embedded import places
from runtime.embedded.users import Watched


@pytest.fixture
def home() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="lw") as made:
        folder = Path(made) / "home"
        others = set(places._owners)
        yield folder
        assert not places._members
        assert places._owners <= others
        for place in (folder, *folder.glob("*/")):  # some tests use a folder one level deeper
            nothing_runs(place)


@pytest.fixture
def watch() -> Iterator[type[Watched]]:
    with ExitStack() as stack:

        class Closed(Watched):
            def __init__(self, pid: int) -> None:
                super().__init__(pid)
                stack.callback(os.close, self.descriptor)

        yield Closed


def nothing_runs(folder: Path) -> None:
    """Wait until no guardian and no server runs in `folder`; the test's timeout limits this."""
    for name in ("guardian", "server"):
        if (folder / name).exists():
            with (folder / name).open("r+") as file:
                fcntl.flock(file, fcntl.LOCK_EX)
