"""Tasks of one name: an equal definition is accepted again, a different definition is refused."""

from __future__ import annotations

import importlib
import runpy
import sys
from collections.abc import Callable, Iterator
from copy import copy
from functools import wraps
from pathlib import Path
from typing import Any

import pytest

import zygote
from lockwork import ConfigError, Lockwork
from lockwork.errors import UnknownTask


@pytest.fixture
def app() -> Iterator[Lockwork]:
    with Lockwork("redis://127.0.0.1:1", patience=0) as lw:
        yield lw


def test_loop_cannot_make_two_tasks_of_one_name(app: Lockwork) -> None:
    with pytest.raises(ConfigError, match="task 'sync' is registered for queue 'eu' and for queue 'us'.*name="):
        for region in ("eu", "us"):

            @app.task(queue=region)
            def sync() -> None: ...

    assert app.registry.get("sync").options_in_force.queue == "eu", "the first is still what it was"


def test_function_has_one_queue(app: Lockwork) -> None:
    def sync() -> None: ...

    app.task(queue="eu")(sync)
    app.task(queue="eu", retries=1)(sync)
    with pytest.raises(ConfigError, match="for queue 'eu' and for queue 'us'"):
        app.task(queue="us")(sync)
    app.task(queue="us", name="sync-us")(sync)
    assert app.registry.queues() == ["eu", "us"]


def test_functions_that_enclose_different_values_are_two(app: Lockwork) -> None:
    def make(rate: object) -> Any:
        @app.task
        def convert(amount: int) -> object:
            return amount, rate

        return convert

    make(2)
    make(2)  # an equal definition: an app may be assembled twice
    with pytest.raises(ConfigError, match="task 'convert' is made of two functions .*name="):
        make(3)

    class Odd:
        def __eq__(self, other: object) -> bool:
            raise ValueError("ask each element")

        __hash__ = None  # type: ignore[assignment]

    with pytest.raises(ConfigError, match="two functions"):
        make(Odd())


def test_defaults_that_differ_make_two(app: Lockwork) -> None:
    with pytest.raises(ConfigError, match="two functions"):
        for number in (1, 2):

            @app.task
            def count(number: int = number) -> int:
                return number


def test_methods_of_two_objects_are_two(app: Lockwork) -> None:
    class Mailer:
        def send(self) -> None: ...

    one, other = Mailer(), Mailer()
    app.task(one.send)
    app.task(one.send)
    with pytest.raises(ConfigError, match="two functions"):
        app.task(other.send)


def test_decorator_that_hides_names_is_detected(app: Lockwork) -> None:
    def hiding(function: Callable[[], None]) -> Callable[[], None]:
        def wrapper() -> None:
            function()

        return wrapper

    def telling(function: Callable[[], None]) -> Callable[[], None]:
        @wraps(function)
        def wrapper() -> None:
            function()

        return wrapper

    def one() -> None: ...

    def two() -> None: ...

    app.task(telling(one))
    app.task(telling(two))
    app.task(telling(one))
    app.task(hiding(one))
    with pytest.raises(ConfigError, match="task 'wrapper' is made of two functions"):
        app.task(hiding(two))


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder on the path, with an app in a module."""
    (tmp_path / "defined_app.py").write_text("from lockwork import Lockwork\nlw = Lockwork('redis://127.0.0.1:1')\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)  # a file that changes twice in a second is read each time
    yield tmp_path
    for name in ("defined_app", "defined_tasks"):
        sys.modules.pop(name, None)


_TASKS = """
from defined_app import lw

@lw.error_type
class Odd(Exception): ...

@lw.task(queue={queue!r})
def send(): return {queue!r}
"""


def test_module_may_be_reloaded(shop: Path) -> None:
    tasks = shop / "defined_tasks.py"
    tasks.write_text(_TASKS.format(queue="mail"))
    module = importlib.import_module("defined_tasks")
    first = module.send
    importlib.reload(module)
    tasks.write_text(_TASKS.format(queue="post"))
    importlib.reload(module)
    assert module.lw.registry.get("send").function() == "post"
    assert first() == "mail"
    del sys.modules["defined_tasks"]
    assert importlib.import_module("defined_tasks").lw.registry.get("send").function() == "post"


_SCHEDULED = """
from defined_app import lw

@lw.task(queue={queue!r}{options})
def sweep(): return {queue!r}
"""


def test_reloaded_module_may_change_its_schedule(shop: Path) -> None:
    """The schedule may also move to another queue, or disappear."""
    tasks = shop / "defined_tasks.py"

    def loaded(queue: str, options: str = "") -> Lockwork:
        tasks.write_text(_SCHEDULED.format(queue=queue, options=options))
        module = sys.modules.get("defined_tasks")
        app: Lockwork = (importlib.reload(module) if module else importlib.import_module("defined_tasks")).lw
        return app

    def timings(app: Lockwork) -> list[tuple[str, str]]:
        return [(queue, plan.timing) for queue, plans in app.plans.items() for plan in plans.values()]

    assert timings(loaded("mail", ", cron='0 * * * *'")) == [("mail", "cron 0 * * * * in UTC")]
    assert timings(loaded("mail", ", cron='0 * * * *', retries=5")) == [("mail", "cron 0 * * * * in UTC")]
    assert timings(loaded("mail", ", every='5m'")) == [("mail", "every 300000 ms")]
    assert timings(loaded("post", ", every='5m'")) == [("post", "every 300000 ms")]
    app = loaded("post")
    assert timings(app) == []
    app.schedule(app.registry.get("sweep").call(), name="sweep", every="1h")
    assert timings(loaded("post")) == [("post", "every 3600000 ms")], "it does not belong to the task"
    with pytest.raises(ConfigError, match="two schedules of queue 'post' are named 'sweep'"):
        loaded("post", ", every='5m'")


def test_task_with_a_refused_schedule_is_not_registered(app: Lockwork) -> None:
    def sweep(days: int = 1) -> None: ...

    first = app.task(every="5m")(sweep)
    with pytest.raises(ConfigError, match="two schedules"):
        app.task(every="6m")(sweep)
    assert app.registry.get("sweep") is first
    with pytest.raises(ConfigError, match="needs arguments"):
        app.task(name="add", every="5m")(lambda number: number)
    with pytest.raises(UnknownTask):
        app.registry.get("add")


def test_repeated_name_in_one_module_is_refused(shop: Path) -> None:
    twice = _TASKS.format(queue="mail") + "\n@lw.task(queue='mail')\ndef send(): return 'copied'\n"
    (shop / "defined_tasks.py").write_text(twice)
    with pytest.raises(ConfigError, match="task 'send' is made of two functions defined_tasks.send"):
        importlib.import_module("defined_tasks")


_SCRIPT = """
from lockwork import Lockwork
lw = Lockwork("redis://127.0.0.1:1")

@lw.task
def send(): return "first"

@lw.task
def send(): return "second"

print("both are defined")
"""


@pytest.mark.parametrize("how", [["script.py"], ["-m", "script"], ["-c", "import script"], ["-c", _SCRIPT]])
def test_second_task_of_a_name_in_a_script_is_refused(tmp_path: Path, how: list[str]) -> None:
    (tmp_path / "script.py").write_text(_SCRIPT)
    done = zygote.run([sys.executable, *how], cwd=tmp_path, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (1, "")
    assert "task 'send' is made of two functions" in done.stderr


_CELL = """
@lw.task
def ask(): return {answer}
"""
_INTERACTIVE = """
import code, sys
from lockwork import Lockwork
lw = Lockwork("redis://127.0.0.1:1")
names = dict(__name__="__main__", lw=lw, __spec__=sys.modules[__name__].__spec__)
console = code.InteractiveInterpreter(names)
for answer in (1, 2, 2):
    console.runsource("@lw.task\\ndef ask(): return {}\\n".format(answer), symbol="exec")
    assert lw.registry.get("ask").function() == answer
twice = "@lw.task\\ndef ask(): return 3\\n@lw.task\\ndef ask(): return 4\\n"
console.runsource(twice, symbol="exec")
assert lw.registry.get("ask").function() == 3
"""


@pytest.mark.parametrize("how", [["script.py"], ["-m", "script"]])
def test_cell_or_prompt_may_define_a_task_again(tmp_path: Path, how: list[str]) -> None:
    """In a notebook, with `python -i`, or with `python -m asyncio`, whose names include a module's `__spec__`."""
    (tmp_path / "script.py").write_text(_INTERACTIVE)
    done = zygote.run([sys.executable, *how], cwd=tmp_path, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("task 'ask' is made of two functions") == 1


def test_rerun_script_may_define_its_tasks_again(app: Lockwork, tmp_path: Path) -> None:
    """`%run` in a notebook does this."""
    for answer in (1, 2):
        (tmp_path / "script.py").write_text("\n" * answer + _CELL.format(answer=answer))
        runpy.run_path(str(tmp_path / "script.py"), {"lw": app})
        assert app.registry.get("ask").function() == answer


def test_second_function_in_a_thread_is_refused(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(
        "import threading\nfrom lockwork import Lockwork\nlw = Lockwork('redis://127.0.0.1:1')\n"
        "def make(answer):\n    @lw.task\n    def send(): return answer\n"
        "def again():\n    try:\n        make(2)\n    except Exception as error:\n        print(error)\n"
        "make(1)\nother = threading.Thread(target=again)\nother.start()\nother.join()\n"
    )
    how = [sys.executable, "script.py"]
    done = zygote.run(how, cwd=tmp_path, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert "two functions" in done.stdout


def test_executed_module_may_be_imported_too(shop: Path) -> None:
    """Python then loads the file twice: as the script, and for the import."""
    app, tasks = shop / "defined_app.py", shop / "defined_tasks.py"
    app.write_text(f"{app.read_text()}import defined_tasks\n")
    tasks.write_text(_TASKS.format(queue="mail") + "print(lw.registry.get('send').function())\n")
    for how in ([str(tasks)], ["-m", "defined_tasks"]):
        done = zygote.run([sys.executable, *how], cwd=shop, text=True, timeout=60)
        assert (done.returncode, done.stdout) == (0, "mail\nmail\n"), done.stderr


def test_redefined_task_replaces_the_old_one(app: Lockwork) -> None:
    typed: dict[str, Any] = {"__name__": "__main__", "lw": app}
    for answer in (1, 2):
        exec(f"@lw.task\ndef ask():\n    return {answer}\n", typed)
    assert app.registry.get("ask").function() == 2


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("delay", "mail.enqueue(...), or await mail.aenqueue(...)"),
        ("send", "mail.enqueue(...), or await mail.aenqueue(...)"),
        ("apply_async", 'mail.options(delay="10m").enqueue(...)'),
        ("s", "mail.call(...)"),
        ("starmap", "mail.enqueue_many([(...), (...)])"),
        ("AsyncResult", "mail.job(id)"),
    ],
)
def test_option_names_of_other_queues_get_a_hint(app: Lockwork, name: str, meant: str) -> None:
    def mail(words: list[str]) -> None: ...

    for task in (app.task(mail), app.task(batch=5, name="many")(mail)):
        with pytest.raises(AttributeError, match=f"Task' object has no attribute '{name}': use ") as raised:
            getattr(task, name)
        assert str(raised.value).endswith(meant)
        assert not hasattr(task, name)
        assert getattr(task, name, None) is None
        assert name not in dir(task)
        assert copy(task).name == task.name
    with pytest.raises(AttributeError, match="^'Task' object has no attribute 'nothing'$"):
        app.task(mail).nothing  # type: ignore[attr-defined]  # noqa: B018
