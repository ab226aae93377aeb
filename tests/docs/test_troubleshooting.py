"""Reproduces each case of docs/troubleshooting.md on a real server, and compares the output with the page."""

from __future__ import annotations

import contextlib
import os
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import redis

import zygote
from configured_servers import configured
from docs.test_cli_page import Shell, same
from docs.test_cli_page import steps as commands
from lockwork import Lockwork
from processes import Started, script, until, worker

PAGE = Path(__file__).parents[2] / "docs" / "troubleshooting.md"
TEXT = PAGE.read_text()
COLUMNS = 100
SECTIONS = {
    section.partition("\n")[0]: re.findall(r"^```console\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)
    for section in TEXT.split("\n## ")[1:]
}
"""The blocks with commands, by heading."""


class Stage:
    """A folder with the app of the page, and a server of its own."""

    def __init__(self, url: str, folder: Path) -> None:
        self.url, self.folder = url, folder
        code = re.search(r"^```python\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
        assert code is not None
        (folder / "shop.py").write_text(code[1])

    @contextlib.contextmanager
    def worker(self, app: str = "shop:lw", *options: str) -> Iterator[Started]:
        """Run a worker, and wait until it fetches jobs."""
        with worker(app, *options, url=self.url, folder=self.folder) as process:
            if "--burst" not in options:
                with Lockwork(self.url) as lw:
                    until(lambda: lw.apps() and lw.workers(), "the worker is announced")
            yield process

    def announce(self) -> None:
        """Announce the app to the server, as its last worker did."""
        with self.worker("shop:lw", "--queues", "mail", "--burst") as process:
            assert process.wait() == 0

    def run(self, code: str) -> None:
        """Run code of the app."""
        with script(f"from shop import *\n{code}", url=self.url, folder=self.folder) as process:
            assert process.wait() == 0, process.errors


Scene = Callable[[Stage, Lockwork], contextlib.AbstractContextManager[object]]


@contextlib.contextmanager
def without_worker(stage: Stage, lw: Lockwork) -> Iterator[None]:
    stage.announce()
    yield


@contextlib.contextmanager
def paused(stage: Stage, lw: Lockwork) -> Iterator[None]:
    lw.queue("mail").pause()
    with stage.worker("shop:lw", "--queues", "mail"):
        yield


@contextlib.contextmanager
def quiet(stage: Stage, lw: Lockwork) -> Iterator[None]:
    with stage.worker("shop:lw", "--queues", "mail"):
        (running,) = lw.workers()
        lw.worker(running.name).quiet()
        until(lambda: lw.workers()[0].state == "quiet", "the worker is quiet")
        yield


@contextlib.contextmanager
def waiting_for_results(stage: Stage, lw: Lockwork) -> Iterator[None]:
    with stage.worker("shop:lw", "--queues", "sums", "-c", "2"):
        stage.run("total.enqueue_many([(2,), (2,)])")
        yield


@contextlib.contextmanager
def one_slot(stage: Stage, lw: Lockwork) -> Iterator[None]:
    with stage.worker("shop:lw", "--queues", "reports", "-c", "1"):
        yield


@contextlib.contextmanager
def all_queues(stage: Stage, lw: Lockwork) -> Iterator[None]:
    with stage.worker():
        yield


@contextlib.contextmanager
def limited(stage: Stage, lw: Lockwork) -> Iterator[None]:
    lw.queue("mail").limit(rate="1/m")
    with stage.worker("shop:lw", "--queues", "mail"):
        stage.run("send.enqueue_many([(1,), (2,), (3,)])[0].result(timeout=30)")
        yield


@contextlib.contextmanager
def other_app(stage: Stage, lw: Lockwork) -> Iterator[None]:
    stage.announce()
    (stage.folder / "other.py").write_text(
        "from lockwork import Lockwork\nlw = Lockwork()\n@lw.task(queue='mail')\ndef newsletter(): ...\n"
    )
    with stage.worker("other:lw"):
        yield


@contextlib.contextmanager
def dead(stage: Stage, lw: Lockwork) -> Iterator[None]:
    with stage.worker():
        stage.run("job = send.options(retries=0).enqueue(7)\nuntil = job.state\nwhile until() != 'dead': pass")
        yield


@contextlib.contextmanager
def other_prefix(stage: Stage, lw: Lockwork) -> Iterator[None]:
    with stage.worker():
        code = "import os\nos.environ['LOCKWORK_PREFIX'] = 'stage'\nfrom shop import send\nsend.enqueue(42)"
        with script(code, url=stage.url, folder=stage.folder) as process:
            assert process.wait() == 0, process.errors
        yield


@contextlib.contextmanager
def broken_modules(stage: Stage, lw: Lockwork) -> Iterator[None]:
    (stage.folder / "broken.py").write_text("import nothing\n")
    yield


@contextlib.contextmanager
def held(stage: Stage, lw: Lockwork) -> Iterator[None]:
    code = (
        "from lockwork import Lockwork\n"
        "with Lockwork() as lw, lw.lock('order:42', tags=['import']):\n    print('held', flush=True)\n    input()\n"
    )
    with script(code, url=stage.url, folder=stage.folder) as holder:
        assert holder.line() == "held"
        with script(code, url=stage.url, folder=stage.folder):
            yield


SCENES: dict[str, Scene] = {
    "No worker": without_worker,
    "Paused queue": paused,
    "Quiet workers": quiet,
    "Jobs that wait for results": waiting_for_results,
    "Busy workers": one_slot,
    "Another job has the key": all_queues,
    "A limit of the queue": limited,
    "No worker has the task": other_app,
    "The job waits for its time": all_queues,
    "A failed attempt": all_queues,
    "The job runs for too long": all_queues,
    "The job is dead": dead,
    "The job is unknown": other_prefix,
    "My worker does not start": broken_modules,
    "My lock is not granted": held,
}


def test_sections_with_commands_are_reproduced() -> None:
    assert [title for title, blocks in SECTIONS.items() if blocks] == list(SCENES)


def failed_start(stage: Stage, command: str) -> str:
    """Return the last line of a worker that does not start."""
    words = [sys.executable, "-m", "lockwork", *command.split()[1:]]
    environment = os.environ | {"LOCKWORK_URL": stage.url, "PYTHONPATH": ":".join(sys.path)}
    ran = zygote.run(words, cwd=stage.folder, env=environment, text=True, timeout=60)
    assert ran.returncode == 1
    return f"{ran.stderr.splitlines()[-1]}\n"


@pytest.fixture(scope="module")
def durable_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server that saves its data, so that the doctor has no finding about it."""
    with configured(tmp_path_factory.mktemp("server")) as server:
        yield server.url


@pytest.fixture
def server(durable_url: str) -> str:
    with redis.Redis.from_url(durable_url) as client:
        client.flushall()
    return durable_url


@pytest.mark.parametrize("title", SCENES)
def test_case_prints_what_the_page_shows(
    server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, title: str
) -> None:
    stage, shell = Stage(server, tmp_path), Shell(server, tmp_path)
    with Lockwork(server) as lw, SCENES[title](stage, lw):
        for block in SECTIONS[title]:
            for command, shown in commands(block):
                # narrower than a list with the workers' lag, which is known after some seconds
                monkeypatch.setenv("COLUMNS", str(COLUMNS - command.startswith("lockwork workers")))
                if command.startswith("lockwork worker "):
                    printed = failed_start(stage, command).replace(str(tmp_path), "/srv/shop")
                else:
                    _, printed = shell.run(command, shown)
                assert same(command, printed, shown), f"{command}\n{printed}"
