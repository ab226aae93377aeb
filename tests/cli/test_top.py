"""`lockwork top`, driven without a terminal."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from textual.widgets import DataTable, Static

from cli.conftest import Office
from lockwork import Lockwork
from lockwork.cli import top as command
from lockwork.cli.commands import cli
from lockwork.cli.top import Watcher
from lockwork.cli.top_screen import Top
from processes import PATIENCE, until
from terminals import typist


def rows(app: Top, name: str) -> list[list[str]]:
    """The cells of a table."""
    table = app.query_one(f"#{name}", DataTable)
    return [[str(cell) for cell in table.get_row_at(at)] for at in range(table.row_count)]


async def shown(app: Top, name: str, text: str) -> list[str]:
    """Wait for a row that has this text, and return its cells."""
    while True:
        await app.animator.wait_for_idle()
        await app.workers.wait_for_complete()
        for row in rows(app, name):
            if text in row:
                return row


@pytest.fixture
def resting(office: Office) -> Iterator[str]:
    """The id of a job that runs; a lock is held as well."""
    job = office.app.rest.enqueue()
    until(lambda: job.state() == "running", "it runs")
    with office.lw.lock("catalog"):
        yield job.id
    assert job.cancel()


async def test_the_screen_shows_what_the_server_does(office: Office, resting: str, tmp_path: Path) -> None:
    app = Top(Watcher(office.lw), 0.2)
    async with app.run_test(size=(100, 32)) as pilot:
        assert (await shown(app, "locks", "catalog"))[3] == "0"
        assert (await shown(app, "running", resting))[1:3] == ["slow", "rest"]
        assert (await shown(app, "queues", "slow"))[2] >= "1"
        assert rows(app, "workers")
        picture = app.export_screenshot(title="lockwork top")
        assert "running" in picture
        folder = Path(os.environ.get("LOCKWORK_PICTURES", tmp_path))
        (folder / "top.svg").write_text(picture)
        await pilot.press("p")
        await pilot.pause()
        assert "paused: p resumes" in str(app.query_one("#head", Static).render())
        await pilot.press("p")
        await pilot.press("q")
    assert app.return_code == 0


def test_rates_are_counted_from_one_look_to_the_next(lw: Lockwork, office: Office) -> None:
    watcher = Watcher(office.lw)
    assert watcher.look().rates == (0.0,)
    for _ in range(3):
        office.app.send.enqueue(1).result(30)
    found = watcher.look()
    assert found.rates[-1] > 0
    assert {line.name: line.done > 0 for line in found.queues}["mail"]
    assert found.total("running") == sum(worker.running for worker in found.workers)


async def test_a_server_that_is_away_is_said_on_the_screen() -> None:
    app = Top(Watcher(Lockwork("redis://127.0.0.1:1", patience=0.1)), 0.2)
    async with app.run_test(size=(80, 24)):
        await app.workers.wait_for_complete()
        assert "the figures below are old" in str(app.query_one("#head", Static).render())


def test_the_extra_is_named_when_it_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "find_spec", lambda _: None)
    found = CliRunner().invoke(cli, ["top"])
    assert found.exit_code == 1
    assert 'pip install "lockwork[top]"' in str(found.exception)


@pytest.fixture
def long_names(own_url: str) -> Iterator[Lockwork]:
    """A job waits in a queue of a long name, and a lock of a long name is held."""
    with Lockwork(own_url) as lw:
        lw.task(queue="a.rather.long.name.of.a.queue.of.the.warehouse", name="count")(print).enqueue()
        with lw.lock("a-rather-long-name-of-a-lock"):
            yield lw


@pytest.mark.parametrize("size", [(80, 24), (120, 32)])
async def test_long_names_are_cut_so_that_counts_are_seen(size: tuple[int, int], long_names: Lockwork) -> None:
    app = Top(Watcher(long_names), 0.2)
    async with app.run_test(size=size) as pilot:
        await shown(app, "queues", "none")
        screen = ""
        while "a.rather." not in screen:  # the first look may come before the layout
            await pilot.pause(0.05)
            screen = "\n".join(strip.text for strip in app.screen._compositor.render_strips())
    for text in ("a.rather.", "ready 1", "workers", "none", "done/s", "failed/s", "a-rather-", "waiters"):
        assert text in screen, screen


@pytest.mark.parametrize("key", ["q", "\x1b", "\x03"])
def test_a_key_ends_it_and_the_terminal_is_restored(key: str, own_url: str, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "lockwork", "top"]
    with typist(command, tmp_path, own_url, environment={"TERM": "xterm-256color"}) as somebody:
        somebody.sees("\x1b[?1049h")
        somebody.sees("Pause")
        somebody.types(key)
        assert somebody.process.wait(PATIENCE) == 0
        left = somebody.rest()
    assert "\x1b[?1049l" in left
    assert "\x1b[?25h" in left
