"""Runs the examples of these pages and the README's first program as printed."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import app_modules
import zygote
from docs.snippets import Reader, steps
from lockwork import Lockwork
from processes import until, worker

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("page", "names"),
    [
        ("cluster.md", {}),
        ("compat.md", {}),
        ("dashboard.md", {}),
        ("dead.md", {}),
        ("encryption.md", {}),
        ("delay-queue.md", {}),
        ("errors.md", {}),
        ("fencing.md", {}),
        ("flows.md", {}),
        ("history.md", {}),
        ("install.md", {}),
        ("jobs.md", {}),
        ("middleware.md", {}),
        ("observability.md", {}),
        ("own-ids.md", {}),
        ("queues.md", {}),
        ("schedules.md", {}),
        ("sentinel.md", {}),
        ("synchronizers.md", {"make_report": str.upper}),
        ("unique.md", {}),
        ("worker.md", {}),
    ],
)
def test_page_runs_as_printed(
    own_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, page: str, names: dict[str, Any]
) -> None:
    monkeypatch.setenv("LOCKWORK_URL", own_url)
    reader = Reader(tmp_path, lambda _: None)
    reader.names.update(names, url=own_url)
    page_steps = steps(ROOT / "docs" / page)
    assert page_steps
    for step in page_steps:
        try:
            reader.run(step)
        finally:
            # a page may create an app in each block; apps in use open again
            for made in [value for value in reader.names.values() if isinstance(value, Lockwork)]:
                made.close()


def program(page: str, at: int) -> str:
    """The Python block of a page at this position."""
    text = (ROOT / page).read_text()
    blocks: list[str] = re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return blocks[at]


def run(folder: Path, url: str, name: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"LOCKWORK_URL": url, "PYTHONPATH": ":".join(sys.path)}
    return zygote.run([sys.executable, name], cwd=folder, env=environment, text=True, timeout=60)


def test_readme_program_runs_as_printed(own_url: str, tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(program("README.md", 0))
    with worker("shop:lw", url=own_url, folder=tmp_path):
        ran, again = (run(tmp_path, own_url, "shop.py") for _ in range(2))
    first, second = ran.stdout.splitlines()
    assert "LimitReached" in again.stderr
    assert first.startswith("changing the catalogue under fence ")
    assert second.startswith("order of ada StockStatus(")
    assert "available=9" in second


def run_tests(folder: Path, **environment: str) -> str:
    """Run pytest in a folder, without the options and plugins of the current run; return its output."""
    options = ("-q", "--rootdir", str(folder), "-p", "no:cacheprovider", "-o", "asyncio_mode=auto")
    environment |= {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", *options],
        cwd=folder, env=environment, text=True, capture_output=True, check=False,
    )  # fmt: skip
    return ran.stdout + ran.stderr


def test_tests_of_the_fastapi_page_pass_as_printed(own_url: str, tmp_path: Path) -> None:
    for at in (0, 1):
        text = program("docs/fastapi.md", at)
        (tmp_path / text.split()[1]).write_text(text)
    said = run_tests(tmp_path, LOCKWORK_URL=own_url, LOCKWORK_EMBEDDED="off")
    assert "1 passed" in said, said


def test_tests_of_the_testing_page_pass_as_printed(tmp_path: Path) -> None:
    """All blocks but Django's are one file."""
    blocks = [step.code for step in steps(ROOT / "docs/testing.md") if "django" not in step.code]
    (tmp_path / "test_shop.py").write_text("\n\n".join(blocks))
    said = run_tests(tmp_path)
    assert "11 passed" in said, said


def test_quick_start_programs_run_as_printed(own_url: str, tmp_path: Path) -> None:
    first, more, stock = (program("docs/quick-start.md", at) for at in (2, 3, 4))
    (tmp_path / "mails.py").write_text(first)
    (tmp_path / "more.py").write_text(f"from mails import lw, send\n\n{more}\n{stock}")
    with worker("mails:lw", url=own_url, folder=tmp_path):
        ran = run(tmp_path, own_url, "mails.py")
        assert (ran.stdout, ran.stderr) == ("sent to user 42\n", "")
        ran = run(tmp_path, own_url, "more.py")
        assert (ran.returncode, ran.stderr) == (0, "")


PRINTER = """
from lockwork import Lockwork

lw = Lockwork()


@lw.task(name="receipts.print", queue="printer")
def print_receipt(order: int, copies: int = 1) -> int:
    return copies


@lw.task(name="archive.store", queue="printer")
def store(copies: int) -> int:
    return copies
"""


def test_page_about_remote_tasks_runs_as_printed(own_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOCKWORK_URL", own_url)
    (tmp_path / "printer.py").write_text(PRINTER)
    reader = Reader(tmp_path, lambda _: None)
    with worker("printer:lw", url=own_url, folder=tmp_path):
        with Lockwork(own_url) as app:
            until(app.apps, "the worker announces its app")
        for step in steps(ROOT / "docs" / "remote.md"):
            reader.run(step)
        lw = reader.names["lw"]
        assert reader.names["flow"].enqueue().result(timeout=30) == 1
        with pytest.raises(TypeError, match="copies"):
            reader.names["receipt"].enqueue(42, copy=2)
    assert lw.queue("urgent").status().ready == 1
    lw.close()


SEARCH = """
from dataclasses import dataclass


class Service:
    async def add(self, pages):
        return [len(page) for page in pages]

    async def send(self, mails):
        return [Answer(mail.to != "nobody", "no such address") for mail in mails]


@dataclass
class Answer:
    ok: bool
    text: str


@dataclass
class Mail:
    to: str


class InvalidAddress(Exception): ...


class Refused(Exception): ...


search = provider = Service()
"""


def test_page_about_batch_tasks_runs_as_printed(own_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tasks, calls, more, inside = (step.code for step in steps(ROOT / "docs" / "batch.md"))
    (tmp_path / "shop.py").write_text(f"{SEARCH}\n\n{tasks}\n\n{more}\n\n{inside}")
    with worker("shop:lw", url=own_url, folder=tmp_path):
        shop = app_modules.load_app(tmp_path, "shop", own_url)
        exec(calls, vars(shop))
        assert shop.index.enqueue("https://example.org/3").result(timeout=30) == 21
        sent, refused = shop.send.enqueue_many((shop.Mail(to),) for to in ("ada", "nobody"))
        assert sent.result(timeout=30) is None
        until(lambda: refused.state() == "scheduled", "the refused mail waits for its retry")
        reminder = shop.remind.enqueue(shop.Mail("ada"))
        reminder.result(timeout=30)
        assert reminder.progress() == "sent"
        shop.lw.close()


POOL = """
from contextlib import asynccontextmanager, nullcontext


class Pool:
    @asynccontextmanager
    async def acquire(self):
        yield self

    def transaction(self):
        return nullcontext()

    async def close(self): ...


async def create_pool():
    return Pool()


class Db:
    def __init__(self, connection):
        self.connection = connection


class FakeDb: ...
"""


def test_page_about_injection_runs_as_printed(own_url: str, tmp_path: Path) -> None:
    tasks, calls, test = (step.code for step in steps(ROOT / "docs" / "injection.md"))
    (tmp_path / "shop.py").write_text(f"{POOL}\n\n{tasks}")
    with worker("shop:lw", url=own_url, folder=tmp_path):
        shop = app_modules.load_app(tmp_path, "shop", own_url)
        exec(f"{calls}\n\n{test}", vars(shop))
        asyncio.run(shop.test_send())
        assert shop.send.enqueue(43).result(timeout=30) is None
        shop.lw.close()


def test_program_of_the_flask_page_runs_as_printed(own_url: str, tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(program("docs/flask.md", 0))
    shop = app_modules.load_app(tmp_path, "shop", own_url)
    with shop.lw:
        answer = shop.create_app().test_client().post("/mails/42")
        assert (answer.status_code, shop.lw.job(answer.text).state()) == (202, "ready")
