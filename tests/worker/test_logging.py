"""Log records of a worker: at its start and for each job, and the app's own logging configuration."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable
from datetime import datetime, timedelta
from importlib.metadata import version
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from app_modules import load_app
from processes import until, worker

TASKS = """
import logging

from lockwork import Lockwork

lw = Lockwork()
# configuration


@lw.task
async def greet(name: str) -> None:
    logging.getLogger("shop").info("hello %s", name)


@lw.task(executor="process")
def render(page: int) -> int:
    return page


@lw.task(retries=0)
def refuse() -> None:
    raise ValueError("not today")


@lw.task(queue="mail")
async def send() -> None: ...
"""

APP_CONFIGURES = """
import logging.config

logging.config.dictConfig({
    "version": 1,
    "formatters": {"app": {"format": "APP %(levelname)s %(name)s | %(message)s"}},
    "handlers": {"console": {"class": "logging.StreamHandler", "formatter": "app"}},
    "root": {"handlers": ["console"]},
})
"""

VERSION = version("lockwork")
Run = Callable[..., str]


@pytest.fixture
def run(tmp_path: Path, own_url: str) -> Run:
    """Run one job of each kind in a worker whose app begins with `code`; return the worker's output."""

    def run(code: str, *options: str) -> str:
        shop: Any = load_app(
            _written(tmp_path, TASKS), "shop", own_url
        )  # without the configuration, which is a worker's
        _written(tmp_path, TASKS.replace("# configuration", code))
        with shop.lw:
            jobs = [shop.greet.enqueue("ada"), shop.render.enqueue(7), shop.refuse.enqueue()]
            with worker("shop:lw", "--burst", *options, url=own_url, folder=tmp_path) as process:
                assert process.wait() == 0
                errors = process.errors
            assert [job.state() for job in jobs] == ["succeeded", "succeeded", "dead"]
        return errors

    return run


def _written(folder: Path, code: str) -> Path:
    (folder / "shop.py").write_text(code)
    return folder


def lines(text: str, *parts: str) -> list[str]:
    return [line for line in text.splitlines() if all(part in line for part in parts)]


def test_default_format_without_app_configuration(run: Run) -> None:
    text = run("")
    for level, name, expected in (
        ("INFO", "lockwork.jobs", "task 'greet' succeeded, attempt 1, in 0."),
        ("INFO", "lockwork.jobs", "task 'render' succeeded, attempt 1, in "),
        ("INFO", "shop", "hello ada"),
        ("ERROR", "lockwork.jobs", "task 'refuse' failed for good, attempt 1 of 1: ValueError: not today"),
    ):
        assert len(lines(text, f" {level} [", f"] {name}: ", expected)) == 1, expected
    assert len(lines(text, "raise ValueError(")) == 1, "the failure comes with its traceback"
    assert not [line for line, count in Counter(text.splitlines()).items() if count > 1]


def test_app_that_disables_existing_loggers_still_logs_jobs(run: Run) -> None:
    """`disable_existing_loggers` defaults to true."""
    text = run(APP_CONFIGURES)
    for expected in (
        f"APP INFO lockwork.worker | lockwork {VERSION} runs shop:lw on ",
        "APP INFO shop | hello ada",
        "task 'greet' succeeded",
        "task 'render' succeeded",
        "task 'refuse' failed for good",
    ):
        assert len(lines(text, "APP ", expected)) == 1, expected
    assert not lines(text, "] lockwork."), "nothing is printed in a format that the app did not ask for"


def test_lifespan_that_disables_existing_loggers_still_logs_jobs(run: Run) -> None:
    text = run("@lw.lifespan\ndef configured():\n" + _indented(APP_CONFIGURES) + "    yield\n")
    assert lines(text, "APP INFO lockwork.jobs | job ", "task 'greet' succeeded")
    assert len(lines(text, "task 'refuse' failed for good")) == 1


def _indented(code: str) -> str:
    return "".join(f"    {line}\n" for line in code.splitlines())


@pytest.mark.parametrize(
    ("code", "shown"),
    [
        ("logging.basicConfig(format='APP %(message)s', level='INFO')\n", True),
        ("logging.basicConfig(format='APP %(message)s')\n", True),
        ("logging.basicConfig(format='APP %(message)s', level='WARNING')\n", False),
        ("logging.basicConfig(format='APP %(message)s')\nlogging.getLogger('lockwork').setLevel('ERROR')\n", False),
    ],
)
def test_app_configures_format_and_level(run: Run, code: str, shown: bool) -> None:
    text = run(code)
    assert len(lines(text, "APP job ", "task 'greet' succeeded")) == shown
    assert len(lines(text, "APP job ", "task 'refuse' failed for good")) == 1
    assert not lines(text, "] lockwork.")


def test_logging_during_an_import_does_not_configure_logging(run: Run) -> None:
    """`logging.warning` gives the root logger a handler with Python's default format."""
    text = run("logging.warning('careful')\n")
    assert len(lines(text, "] lockwork.jobs: ", "task 'greet' succeeded")) == 1
    assert not lines(text, "INFO:lockwork")


@pytest.mark.parametrize("name", ["shop", "lockwork"])
def test_records_printed_by_the_app_are_not_printed_again(run: Run, name: str) -> None:
    text = run(
        "handler = logging.StreamHandler()\n"
        "handler.setFormatter(logging.Formatter('APP %(message)s'))\n"
        f"logging.getLogger({name!r}).addHandler(handler)\n"
    )
    for logger, expected in (("shop", "hello ada"), ("lockwork", "task 'greet' succeeded")):
        (line,) = lines(text, expected)
        assert line.startswith("APP ") == (logger == name)


def test_log_level_option_sets_level(run: Run) -> None:
    text = run("", "--log-level", "warning")
    assert len(lines(text, "task 'refuse' failed for good")) == 1
    assert not lines(text, " INFO ")
    text = run("logging.basicConfig(level='ERROR', format='APP %(message)s')\n", "--log-level", "info")
    assert len(lines(text, "APP job ", "task 'greet' succeeded")) == 1
    assert not lines(text, "hello ada"), "the level of the app's own loggers is the app's"


def test_json_format_has_fields_of_jobs(run: Run) -> None:
    records = [json.loads(line) for line in run("", "--log-format", "json").splitlines()]
    of_job = [record for record in records if record.get("task") == "greet"]
    (own,) = [record for record in of_job if record["logger"] != "lockwork.jobs"]
    (done,) = [record for record in of_job if record["logger"] == "lockwork.jobs"]
    assert (own["message"], own["job"], own["attempt"]) == ("hello ada", done["job"], 1)
    assert (done["level"], done["logger"], done["queue"], done["attempt"]) == ("INFO", "lockwork.jobs", "default", 1)
    assert done["message"].startswith(f"job {done['job']} of task 'greet' succeeded")
    assert 0 < done["seconds"] < 30
    (failed,) = [record for record in records if record.get("task") == "refuse"]
    assert failed["exception"].startswith("Traceback")
    assert "ValueError: not today" in failed["exception"]
    assert failed["time"].endswith("Z")


def test_log_format_is_ignored_with_warning_when_app_configures_logging(run: Run) -> None:
    text = run(APP_CONFIGURES, "--log-format", "json")
    assert len(lines(text, "APP WARNING ", "--log-format json has no effect: shop:lw configures logging itself")) == 1
    assert len(lines(text, "APP INFO lockwork.jobs | job ", "task 'greet' succeeded")) == 1


def test_startup_lines_name_app_server_tasks_and_queues(tmp_path: Path, own_url: str) -> None:
    _written(tmp_path, TASKS)
    url = own_url.replace("://", "://default:s3cret@", 1)
    with worker("shop:lw", "--burst", "-c", "7", "-p", "2", url=url, folder=tmp_path) as process:
        assert process.wait() == 0
        text = process.errors
    hosts = re.search(r"\+\w+://([^/]+)", own_url)
    place = hosts[1] if hosts else own_url.partition("?")[0]
    assert len(lines(text, f"lockwork {VERSION} runs shop:lw on the ", f" at {place}")) == 1
    assert len(lines(text, "tasks: greet, refuse, render, send")) == 1
    assert len(lines(text, "queues: default, mail; 2 processes, concurrency 7 each")) == 1
    assert "s3cret" not in text
    assert "not set" not in text


def test_startup_line_names_embedded_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOCKWORK_HOME", str(tmp_path / "home"))
    _written(tmp_path, TASKS)
    with worker("shop:lw", "--burst", url=None, folder=tmp_path) as process:  # type: ignore[arg-type]
        assert process.wait() == 0
        assert len(lines(process.errors, "an embedded server (LOCKWORK_URL is not set) at unix://")) == 1


def test_busy_task_is_logged_once_a_second(tmp_path: Path, own_url: str) -> None:
    shop: Any = load_app(_written(tmp_path, TASKS), "shop", own_url)
    with shop.lw, worker("shop:lw", url=own_url, folder=tmp_path) as process:
        shop.send.enqueue_many([()] * 3000)
        shop.greet.enqueue("ada")
        until(lambda: shop.lw.queue("mail").status().succeeded == 3000, "they are done")
        until(lambda: _jobs_in(process.errors) == 3000, "they are summed up")
        text = process.errors
    assert len(lines(text, "of task 'greet' succeeded, attempt 1")) == 1, "a task that is not busy has its lines"
    single = lines(text, " job ", " of task 'send' succeeded, attempt 1")
    summed = lines(text, "jobs of task 'send' succeeded")
    assert len(single) <= 50 * len(summed)
    at = [datetime.fromisoformat(line[:23].replace(",", ".")) for line in summed]
    assert all(later - earlier >= timedelta(seconds=0.9) for earlier, later in pairwise(at))


def _jobs_in(text: str) -> int:
    """Count the jobs of task "send" in a log, including summary lines."""
    summed = lines(text, "jobs of task 'send' succeeded")
    counts = [int(line.split(" jobs of ")[0].split()[-1].replace(",", "")) for line in summed]
    return sum(counts) + len(lines(text, " job ", " of task 'send' succeeded, attempt 1"))
