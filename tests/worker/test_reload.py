"""--reload: for development, source changes apply within seconds, and the worker waits while a file is broken."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from watchfiles import Change

from lockwork import Lockwork
from lockwork.errors import ConfigError
from lockwork.version import install_command
from lockwork.worker.supervisor import reload
from lockwork.worker.supervisor.reload import Reloader, Sources
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


def test_source_change_restarts_worker_and_running_jobs(reloading: Started, project: Path, own_url: str) -> None:
    with Lockwork(own_url) as lw:
        task, endless = lw.task(number), lw.task(name="endless")(number)
        assert task.enqueue().result(30) == 1
        job = endless.enqueue()
        until((project / "begun").exists, "it has begun")
        (project / "helpers_of_app.py").write_text("NUMBER = 22\n")
        until(lambda: task.enqueue().result(30) == 22, "the change is in force")
        assert job.result(30) == 22
        assert lw.queue().status().failed == 0
        assert "helpers_of_app.py changed: the worker restarts" in reloading.errors


def test_worker_waits_until_broken_file_is_fixed(reloading: Started, project: Path, own_url: str) -> None:
    with Lockwork(own_url) as lw:
        task = lw.task(number)
        assert task.enqueue().result(30) == 1
        (project / "helpers_of_app.py").write_text("NUMBER = = 1\n")
        until(lambda: "it restarts when a source file changes" in reloading.errors, "it waits")
        assert "SyntaxError" in reloading.errors
        (project / "helpers_of_app.py").write_text("NUMBER = 333\n")
        assert task.enqueue().result(30) == 333


def test_sigint_ends_reloader_and_worker(project: Path, own_url: str) -> None:
    with worker("app:lw", "--reload", url=own_url, folder=project) as process, Lockwork(own_url) as lw:
        assert lw.task(number).enqueue().result(30) == 1
        (supervisor,) = process.children()
        family = [supervisor, *children(supervisor)]
        process.send(signal.SIGINT)
        assert process.wait() == 0
        assert not any(map(alive, family))
        assert lw.queue().workers() == []


def test_file_replaced_by_editor_is_noticed(reloading: Started, project: Path, own_url: str) -> None:
    """Many editors write to another name first, which is no source file."""
    with Lockwork(own_url) as lw:
        task = lw.task(number)
        assert task.enqueue().result(30) == 1
        (project / ".helpers_of_app.py.swp~").write_text("NUMBER = 4444\n")
        (project / ".helpers_of_app.py.swp~").replace(project / "helpers_of_app.py")
        until(lambda: task.enqueue().result(30) == 4444, "the change is in force")
    assert reloading.errors.count("the worker restarts") == 1


def test_files_that_change_together_restart_the_worker_once(reloading: Started, project: Path, own_url: str) -> None:
    with Lockwork(own_url) as lw:
        task = lw.task(number)
        assert task.enqueue().result(30) == 1
        reloading.send(signal.SIGSTOP)  # it reads all changes at once, however long they take
        for number_of_file in range(200):
            (project / f"new_{number_of_file}.py").write_text("")
        (project / "helpers_of_app.py").write_text("NUMBER = 55555\n")
        reloading.send(signal.SIGCONT)
        until(lambda: task.enqueue().result(30) == 55555, "the change is in force")
    assert "helpers_of_app.py and 200 more changed" in reloading.errors


def test_new_files_and_deleted_files_are_noticed(reloading: Started, project: Path, own_url: str) -> None:
    with Lockwork(own_url) as lw:
        assert lw.task(number).enqueue().result(30) == 1
        (project / "package").mkdir()
        (project / "package" / "new.py").write_text("")
        until(lambda: "package" in reloading.errors, "the new file is noticed")
        assert lw.task(number).enqueue().result(30) == 1
        (project / "package").rename(project.parent / "package")
        until(lambda: reloading.errors.count("package changed") >= 1, "the package that is gone is noticed")
        assert lw.task(number).enqueue().result(30) == 1
        (project / "helpers_of_app.py").unlink()
        until(lambda: "ModuleNotFoundError" in reloading.errors, "the deleted file is noticed")


def test_error_without_watchfiles_names_the_extra(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(reload, "find_spec", lambda _: None)
    with pytest.raises(ConfigError, match=re.escape(install_command("reload"))):
        Reloader(["true"], tmp_path)


def test_source_files_of_the_project_are_watched(tmp_path: Path) -> None:
    tmp_path = tmp_path / ".hidden" / "project"  # the names of the project's parent folders do not matter
    watched = ("a.py", "package/b.py", "outer/inner/c.py")
    ignored = ("notes.txt", ".hidden/c.py", "env/pyvenv.cfg", "env/lib/d.py", "__pycache__/e.py", "node_modules/f.py")
    for name in (*watched, *ignored):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")
    sources = Sources(tmp_path)

    def concerned(*names: str, change: Change = Change.deleted) -> list[str]:
        return [name for name in names if sources.concerned(change, str(tmp_path / name))]

    assert concerned(*watched, *ignored) == list(watched)
    assert concerned(*watched, "package", change=Change.modified) == list(watched)
    assert concerned("package", "outer", ".hidden", "env", "env/lib", "__pycache__") == ["package", "outer"]
    (tmp_path / "package").rename(tmp_path / "moved")
    assert concerned("package", "moved") == ["package", "moved"]
    assert concerned("package") == []
