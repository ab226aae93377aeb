"""The app that a module names, and the modules `tasks` that `--discover` imports."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lockwork import ConfigError
from lockwork.worker.loading import NotImported, find
from processes import worker

Write = Callable[[dict[str, str]], None]
MAKE = "from lockwork import Lockwork\n"
TASK = "from shelf.app import lw\n@lw.task\ndef {name}() -> str: return {name!r}\n"
SHELF = {
    "shelf/__init__.py": "",
    "shelf/app.py": f"{MAKE}lw = Lockwork()\n",
    "shelf/tasks.py": TASK.format(name="first"),
    "shelf/orders/tasks.py": TASK.format(name="second"),  # without __init__.py
    "shelf/mails/__init__.py": "",
    "shelf/mails/tasks/__init__.py": TASK.format(name="third"),
    "shelf/mails/views.py": "raise RuntimeError('nobody imports this')\n",
}


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Write]:
    """Write files to the current folder; their modules are forgotten after the test."""
    before = set(sys.modules)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))

    def write(files: dict[str, str]) -> None:
        for name, text in files.items():
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_text(text)

    yield write
    for name in set(sys.modules) - before:
        if str(getattr(sys.modules[name], "__file__", None) or "").startswith(str(tmp_path)):
            del sys.modules[name]


@pytest.mark.parametrize(
    ("code", "name"),
    [
        ("lw = Lockwork()\n", "lw"),
        ("queue = Lockwork()\n", "queue"),
        ("lw = Lockwork()\nother = Lockwork()\n", "lw"),
        ("queue = Lockwork()\nsame = queue\n", "queue"),
        ("def __getattr__(name):\n    if name == 'lw': return Lockwork()\n    raise AttributeError(name)\n", "lw"),
    ],
)
def test_module_names_its_app(write: Write, code: str, name: str) -> None:
    write({"shelf_app.py": MAKE + code})
    assert find("shelf_app")[0] == f"shelf_app:{name}"


@pytest.mark.parametrize(
    ("app", "message"),
    [
        ("shelf.several", "several Lockwork objects, mails, orders: write shelf.several:mails, for instance"),
        ("shelf.none", "module 'shelf.none' has no Lockwork object: did you mean shelf.app:lw?"),
        ("shelf", "module 'shelf' has no Lockwork object: did you mean shelf.app:lw?"),
        ("alone.none", "module 'alone.none' has no Lockwork object: add lw = Lockwork() to it"),
    ],
)
def test_module_without_one_app_is_reported_with_suggestion(write: Write, app: str, message: str) -> None:
    write(SHELF | {"alone/none.py": "", "shelf/none.py": ""})
    write({"shelf/several.py": f"{MAKE}orders, mails = Lockwork(), Lockwork()\n"})
    with pytest.raises(ConfigError) as caught:
        find(app)
    assert message in str(caught.value)


def test_tasks_of_a_package_are_discovered(write: Write) -> None:
    write(SHELF)
    reference, app = find("shelf.app", ["shelf"])
    assert reference == "shelf.app:lw"
    assert [task.name for task in app.registry.of(["default"])] == ["first", "third", "second"]


@pytest.mark.parametrize(
    ("package", "message"),
    [
        ("shelf.app", "--discover shelf.app: it is a module, not a package"),
        ("shlef", "--discover shlef: there is no package 'shlef'"),
        ("shelf.app.deep", "there is no package 'shelf.app.deep'"),
        ("shelf.", "there is no package 'shelf.'"),
        ("empty", "package 'empty' has no module named 'tasks'"),
    ],
)
def test_package_without_tasks_is_reported(write: Write, package: str, message: str) -> None:
    write(SHELF | {"empty/__init__.py": ""})
    with pytest.raises(ConfigError) as caught:
        find("shelf.app", [package])
    assert message in str(caught.value)


@pytest.mark.parametrize("file", ["shelf/orders/tasks.py", "shelf/__init__.py"])
def test_broken_module_is_named(write: Write, file: str) -> None:
    write(SHELF | {"main_app.py": f"{MAKE}lw = Lockwork()\n", file: "1 / 0\n"})
    with pytest.raises(NotImported) as caught:
        find("main_app", ["shelf"])
    assert "ZeroDivisionError" in str(caught.value)
    assert f"{file}, line 1" in str(caught.value)


def test_tasks_of_another_app_are_reported(write: Write, caplog: pytest.LogCaptureFixture) -> None:
    write(SHELF | {"shelf/mails/tasks/__init__.py": f"{MAKE}lw = Lockwork()\n"})
    find("shelf.app", ["shelf"])
    assert "shelf.mails.tasks:lw is not shelf.app:lw, whose tasks are used here" in caplog.text


def test_worker_runs_discovered_tasks_in_all_its_processes(
    own_url: str, write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOCKWORK_URL", own_url)
    in_process = TASK.replace("@lw.task", "@lw.task(executor='process')").format(name="second")
    write(SHELF | {"shelf/orders/tasks.py": in_process})
    _, app = find("shelf.app", ["shelf"])
    with app, worker("shelf.app", "--discover", "shelf", url=own_url, folder=tmp_path) as process:
        jobs = [task.enqueue() for task in app.registry.of(["default"])]
        assert [job.result(60) for job in jobs] == ["first", "third", "second"]
        assert "runs shelf.app:lw on" in process.errors
