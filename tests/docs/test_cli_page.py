"""Compares the page of the command line with the commands' output; LOCKWORK_WRITE_PAGE=1 rewrites it."""

from __future__ import annotations

import asyncio
import os
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis
from click.testing import CliRunner
from textual.widgets import DataTable

import zygote
from lockwork import Lockwork
from lockwork.cli.commands import cli
from lockwork.cli.top_screen import Top
from lockwork.cli.top_watcher import Watcher
from processes import until, worker

PAGE = Path(__file__).parents[2] / "docs" / "cli.md"
COLUMNS = 96
_BLOCK = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# an id may end with a hyphen, where \b finds no end
_ID = re.compile(r"(?<![\w-])[\w-]{16}(?:[\w-]{2}|[\w-]{7})?(?![\w-])")
_NAME = re.compile(rf"{_ID.pattern}|[\w.-]+/\d+/[0-9a-f]{{10}}")
"""An id, or a worker's name: others in each run."""
_CHANGES = re.compile(r"enqueue|cancel|reschedule|delete|retry|pause|limit|quiet")
_VARYING = (
    (re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d"), "TIME"),
    (re.compile(r"[\w.-]+/\d+(/[0-9a-f]{10})?"), "WORKER"),
    (re.compile(r'File ".*?"'), "FILE"),
    (re.compile(r"(?:Valkey|Redis) [\d.]+"), "SERVER"),
    (re.compile(r"<?\d[\d.]* (?:[kMG]?B|ms|s|min|h|d)\b(?: \d+ (?:s|min|h)\b)?"), "SIZE"),
    (re.compile(r"\bnow\b|in SIZE"), "SOON"),
    (re.compile(r"SIZE ago"), "AGO"),
    (re.compile(r"[▁▂▃▄▅▆▇█ ]{9,}"), " "),
    (re.compile(r"\b\d[\d,]*\.\d\b"), "RATE"),
    (re.compile(r"\s+"), " "),
)


def steps(text: str) -> Iterator[tuple[str, str]]:
    """Yield the commands of a block, each with its printed output."""
    for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        command, _, printed = part.partition("\n")
        yield command, printed


def plain(text: str) -> str:
    """Replace the parts that vary from run to run."""
    text = _ID.sub("ID", text)
    for pattern, replacement in _VARYING:
        text = pattern.sub(replacement, text)
    return text.strip()


def same(command: str, printed: str, shown: str) -> bool:
    """Return True if the command printed the text of the page; jobs that end at the same time have no order."""
    if command == "lockwork jobs":
        return sorted(map(plain, printed.splitlines())) == sorted(map(plain, shown.splitlines()))
    if command.startswith("lockwork demo"):
        return figures(printed) == figures(shown)
    return plain(printed) == plain(shown)


def figures(text: str) -> list[str]:
    """Return the stable output of a demo: rows of its audit by name, and sentences, without figures and times."""
    lines = [line for line in text.splitlines() if not re.match(r" *[\d.]+ s  ", line)]
    return [re.sub(r"[\d,]+", "N", re.sub(r"^(  \S.*?)  .*", r"\1", line)).rstrip() for line in lines]


async def screen(url: str) -> str:
    """Return the screen of `lockwork top`."""
    with Lockwork(url) as lw:
        app = Top(Watcher(lw), 0.3)
        async with app.run_test(size=(COLUMNS, 22)) as pilot:
            while not app.query_one("#queues", DataTable).row_count:
                await app.workers.wait_for_complete()
            await app.animator.wait_for_idle()
            await pilot.pause()
            return "".join(f"{strip.text.rstrip()}\n" for strip in app.screen._compositor.render_strips())


class Shell:
    """Runs the commands of the page, where ids are others."""

    def __init__(self, url: str, folder: Path) -> None:
        self._url, self._folder = url, folder
        self._ids: dict[str, str] = {}

    def run(self, command: str, shown: str) -> tuple[str, str]:
        """Run a command, repeatedly while it prints something else and changes nothing; return both with local ids."""
        here = _NAME.sub(lambda found: self._ids.get(found[0], found[0]), command)
        if here.startswith("python"):
            words = [sys.executable, *here.split()[1:]]
            ran = zygote.run(words, cwd=self._folder, env=self._environment(), text=True, timeout=60)
            assert ran.returncode == 0, ran.stderr
            return here, ""
        end = time.monotonic() + (15 if os.environ.get("LOCKWORK_WRITE_PAGE") else 30)
        while True:
            printed = self._printed(here)
            if same(here, printed, shown) or _CHANGES.search(here) or time.monotonic() > end:
                break
            time.sleep(0.1)  # leaves the processor to the worker
        self._ids |= dict(zip(_NAME.findall(shown), _NAME.findall(printed), strict=False))
        return here, printed

    def _printed(self, command: str) -> str:
        command, _, most = command.partition(" | head -")
        name, *words = shlex.split(command)[1:]
        if most:
            return "".join(self._printed(command).splitlines(keepends=True)[: int(most)])
        if name == "top":
            return asyncio.run(screen(self._url))
        if name == "demo":
            played = subprocess.run(
                [sys.executable, "-m", "lockwork", name, *words], check=True, capture_output=True, text=True
            )
            return "".join(f"{line.rstrip()}\n" for line in played.stdout.splitlines())
        if name == "doctor":
            with redis.Redis.from_url(self._url) as server:
                server.slowlog_reset()  # other tests use this server, and the machine may be busy
        result = CliRunner(env={"LOCKWORK_URL": self._url}).invoke(cli, [name, *words])
        failed = result.exit_code == 1 and not isinstance(result.exception, SystemExit)
        return result.stdout + (f"lockwork: {result.exception}\n" if failed else "")

    def _environment(self) -> dict[str, str]:
        return os.environ | {"LOCKWORK_URL": self._url, "PYTHONPATH": ":".join(sys.path)}


def test_commands_print_what_the_page_shows(own_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(COLUMNS))
    text = PAGE.read_text()
    code = re.search(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    assert code is not None
    (tmp_path / "shop.py").write_text(code[1])
    shell = Shell(own_url, tmp_path)

    def played(block: re.Match[str]) -> str:
        lines: list[str] = []
        for command, shown in steps(block[1]):
            here, printed = shell.run(command, shown)
            assert all(
                len(line) <= COLUMNS for line in printed.splitlines() if not line.startswith(("lockwork: ", "  File "))
            )
            if not os.environ.get("LOCKWORK_WRITE_PAGE"):
                assert same(here, printed, shown), f"{here}\n{printed}"
            lines.append(f"$ {here}\n{printed.replace(str(tmp_path), '/srv/shop')}")
        return f"```console\n{''.join(lines)}```"

    with worker("shop:lw", url=own_url, folder=tmp_path), Lockwork(own_url) as lw:
        until(lambda: lw.apps() and lw.schedules("reports"), "the app is announced")
        new = _BLOCK.sub(played, text)
    if os.environ.get("LOCKWORK_WRITE_PAGE"):
        PAGE.write_text(new)
