"""--reload: for development, a changed source file is in force soon, and a broken one ends nothing for good."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from lockwork import Lockwork
from lockwork.worker.supervisor.reload import stamps
from processes import Started, alive, children, until, worker

APP = """
from helpers_of_app import NUMBER
from lockwork import Lockwork
lw = Lockwork()

@lw.task
async def number() -> int:
    return NUMBER

@lw.task
async def endless() -> int:
    import asyncio, pathlib
    pathlib.Path("begun").touch()
    if NUMBER < 2:
        await asyncio.sleep(600)
    return NUMBER
"""


async def number() -> int:
    raise NotImplementedError


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "app.py").write_text(APP)
    (folder / "helpers_of_app.py").write_text("NUMBER = 1\n")
    return folder


@pytest.fixture
def reloading(project: Path, own_url: str) -> Iterator[Started]:
    with worker("app:lw", "--reload", "--grace", "1s", url=own_url, folder=project) as process:
        yield process
        process.send(signal.SIGTERM)
        process.wait()


def test_a_change_is_in_force_soon_and_jobs_that_run_begin_again(
    reloading: Started, project: Path, own_url: str
) -> None:
    with Lockwork(own_url) as lw:
        task, endless = lw.task(number), lw.task(name="endless")(number)
        assert task.enqueue().result(30) == 1
        job = endless.enqueue()
        until((project / "begun").exists, "it has begun")
        (project / "helpers_of_app.py").write_text("NUMBER = 22\n")
        until(lambda: task.enqueue().result(30) == 22, "the change is in force")
        assert job.result(30) == 22
        assert lw.queue().status().failed == 0
        assert "helpers_of_app.py changed: the worker starts again" in reloading.errors


def test_a_broken_file_is_waited_for(reloading: Started, project: Path, own_url: str) -> None:
    with Lockwork(own_url) as lw:
        task = lw.task(number)
        assert task.enqueue().result(30) == 1
        (project / "helpers_of_app.py").write_text("NUMBER = = 1\n")
        until(lambda: "it starts again when a source file changes" in reloading.errors, "it waits")
        assert "SyntaxError" in reloading.errors
        (project / "helpers_of_app.py").write_text("NUMBER = 333\n")
        assert task.enqueue().result(30) == 333


def test_its_end_is_the_workers_end(project: Path, own_url: str) -> None:
    with worker("app:lw", "--reload", url=own_url, folder=project) as process, Lockwork(own_url) as lw:
        assert lw.task(number).enqueue().result(30) == 1
        (supervisor,) = process.children()
        family = [supervisor, *children(supervisor)]
        process.send(signal.SIGINT)
        assert process.wait() == 0
        assert not any(map(alive, family))
        assert lw.queue().workers() == []


def test_which_files_are_watched(tmp_path: Path) -> None:
    watched = ("a.py", "package/b.py")
    ignored = ("notes.txt", ".hidden/c.py", "env/pyvenv.cfg", "env/lib/d.py", "__pycache__/e.py")
    for name in (*watched, *ignored):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")
    before = stamps(tmp_path)
    assert sorted(before) == sorted(str(tmp_path / name) for name in watched)
    (tmp_path / "a.py").write_text("changed = True\n")
    (tmp_path / "package" / "b.py").unlink()
    assert stamps(tmp_path).keys() == {str(tmp_path / "a.py")}
    assert stamps(tmp_path) != before
