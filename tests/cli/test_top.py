"""`lockwork top`, driven without a terminal."""

from __future__ import annotations

import asyncio
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from textual.pilot import Pilot
from textual.widgets import DataTable, Static

from cli.conftest import Office
from clients import client_of
from deadlocked import deadlock
from lockwork import Lockwork
from lockwork.cli import top, top_watcher
from lockwork.cli.commands import cli
from lockwork.cli.top_screen import Top
from lockwork.cli.top_watcher import Watcher
from lockwork.jobs.current import slot
from lockwork.protocol.keys import QueueKeys
from lockwork.protocol.queue import leases
from lockwork.protocol.queue.leases import Outcome
from lockwork.version import install_command
from processes import PATIENCE, until
from running_jobs import running
from server_steps import stepping
from terminals import typist


def rows(app: Top, name: str) -> list[list[str]]:
    """Return the cells of a table."""
    table = app.query_one(f"#{name}", DataTable)
    return [[str(cell) for cell in table.get_row_at(at)] for at in range(table.row_count)]


async def shown(app: Top, name: str, text: str) -> list[str]:
    """Wait for a row with this text, and return its cells."""
    while True:
        await app.animator.wait_for_idle()
        await app.workers.wait_for_complete()
        for row in rows(app, name):
            if text in row:
                return row


@pytest.fixture
def resting(office: Office) -> Iterator[str]:
    """Hold a lock, run a job, and yield the job's id."""
    job = office.app.rest.enqueue()
    until(lambda: job.state() == "running", "it runs")
    with office.lw.lock("catalog"):
        yield job.id
    assert job.cancel()


async def test_screen_shows_the_state_of_the_server(office: Office, resting: str, tmp_path: Path) -> None:
    app = Top(Watcher(office.lw), 0.2)
    async with app.run_test(size=(100, 32)) as pilot:
        assert (await shown(app, "locks", "catalog"))[2] == "0"
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
    watcher.read()
    for _ in range(3):
        office.app.send.enqueue(1).result(30)
    found = watcher.read()
    assert found.rates[-1] > 0
    assert {line.name: line.done > 0 for line in found.queues}["mail"]
    assert found.total("running") == sum(worker.running for worker in found.workers)


def test_rates_begin_with_the_metrics_of_the_server(lw: Lockwork, office: Office) -> None:
    office.app.send.enqueue(1).result(30)
    found = Watcher(office.lw).read()
    assert {line.name: line.done > 0 for line in found.queues}["mail"]
    assert found.rates[-1] > 0


def test_minutes_before_the_first_look_are_drawn(own_url: str) -> None:
    with Lockwork(own_url) as lw, client_of(own_url) as admin, stepping(admin) as clock:
        settle(lw, 120)
        clock.step(60)
        watcher = Watcher(lw, every=10)
        assert watcher.read().rates[:6] == (2.0,) * 6
        assert len(watcher.read().rates) == 8


def settle(lw: Lockwork, count: int) -> None:
    """Let jobs of a queue succeed, without a worker."""
    lw.task(queue="mail", name="send")(print).enqueue_many([()] * count)
    keys, session = QueueKeys("lw", "mail"), "host/1/abc"
    lw.runtime.run(leases.beat(keys, {session: True}, 600_000, 1.0))
    jobs = lw.runtime.run(leases.reserve(keys, session, count, "a", "")).jobs
    lw.runtime.run(leases.settle(keys, session, [Outcome(job.id, job.token, "s") for job in jobs], 600_000))


def test_locks_that_take_long_to_read_are_read_seldom(own_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with Lockwork(own_url) as lw:
        monkeypatch.setattr(top_watcher, "_CHEAP", 10.0)
        watcher = Watcher(lw)
        watcher.read()
        with lw.lock("a"):
            monkeypatch.setattr(watcher._reader._all_locks, "cheap", -1.0)
            seen = watcher.read().locks
        assert seen is not None
        assert [lock.name for lock in seen.locks] == ["a"]
        assert watcher.read().locks is seen


async def test_unreachable_server_is_reported_on_the_screen() -> None:
    app = Top(Watcher(Lockwork("redis://127.0.0.1:1", patience=0.1)), 0.2)
    async with app.run_test(size=(80, 24)):
        await app.workers.wait_for_complete()
        assert "the figures below are old" in str(app.query_one("#head", Static).render())


@pytest.mark.parametrize("away", [False, True])
async def test_look_that_ends_after_the_screen_is_closed_shows_nothing(url: str, away: bool) -> None:
    with Lockwork("redis://127.0.0.1:1" if away else url, patience=0.1 if away else 10) as lw:
        app = Top(Watcher(lw), 60)
        async with app.run_test(size=(80, 24)) as pilot:
            await app.workers.wait_for_complete()
            await pilot.press("q")
        await asyncio.to_thread(app._read)
    assert app._exception is None
    assert app.return_code == 0


def test_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(top, "find_spec", lambda _: None)
    found = CliRunner().invoke(cli, ["top"])
    assert found.exit_code == 1
    assert install_command("top") in str(found.exception)


@pytest.fixture
def long_names(own_url: str) -> Iterator[Lockwork]:
    """Jobs in a queue with a long name, and two locks with long names in a deadlock, one held by a job."""

    def become_a_job(name: str) -> None:
        if name == "A":
            slot.set(running("P7RSMfoiXM2K9_cYUq", "orders.import_everything"))

    with Lockwork(own_url) as lw:
        count = lw.task(queue="a.rather.long.name.of.a.queue.of.the.warehouse", name="count")(print)
        count.enqueue()
        count.options(delay="1h").enqueue_many([()] * 12_345)
        with deadlock(lw, become_a_job, lambda name: lw.lock(f"{name}-rather-long-name-of-a-lock")):
            yield lw


async def screen_with(app: Top, pilot: Pilot[None], *texts: str) -> str:
    """Wait until the screen shows these texts, and return its lines."""
    while True:
        screen = "\n".join(strip.text for strip in app.screen._compositor.render_strips())
        if all(text in screen for text in texts):
            return screen
        await pilot.pause(0.05)


@pytest.mark.parametrize("size", [(60, 24), (80, 24), (120, 40)])
async def test_counts_are_seen_beside_long_names(size: tuple[int, int], long_names: Lockwork) -> None:
    app = Top(Watcher(long_names), 0.2)
    async with app.run_test(size=size) as pilot:
        screen = await screen_with(app, pilot, "a.rather.", "a-ra", "none", "serious Deadlock: ")
    ready = re.search(r"a\.rather\.\S+ +1 +0 +12,345 +0 +none ", screen)
    assert ready, screen
    waiters = re.findall(r"[ab]-ra\S+ +P?\S+.* 1 ", screen)
    assert len(waiters) == 2, screen
    if size[0] >= 80:
        for text in ("done/s", "failed/s", "P7RSMfoiXM2K9_cYUq"):
            assert text in screen, screen


async def test_columns_shrink_when_long_names_are_gone(own_url: str) -> None:
    async with Lockwork(own_url) as lw:
        app = Top(Watcher(lw), 0.2)
        async with app.run_test(size=(120, 40)) as pilot:
            async with lw.lock("a-rather-long-name-of-a-lock"):
                await screen_with(app, pilot, "a-rather-long-name-of-a-lock")
            async with lw.lock("b"):
                screen = await screen_with(app, pilot, "b     ")
    line = next(line for line in screen.splitlines() if " holder" in line)
    assert "lock  holder" in line, screen


async def test_columns_fit_a_terminal_that_becomes_narrower(long_names: Lockwork) -> None:
    app = Top(Watcher(long_names), 3600)
    async with app.run_test(size=(120, 40)) as pilot:
        await screen_with(app, pilot, "a-rather-long-n")
        await pilot.resize_terminal(80, 24)
        screen = await screen_with(app, pilot, "a-rather-…", " 12,345 ")
    assert re.search(r"a\.rather\.\S+ +1 +0 +12,345 ", screen), screen


@pytest.mark.parametrize("key", ["q", "\x1b", "\x03"])
def test_key_ends_top_and_restores_the_terminal(key: str, own_url: str, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "lockwork", "top"]
    with typist(command, tmp_path, own_url, environment={"TERM": "xterm-256color"}) as somebody:
        somebody.sees("\x1b[?1049h")
        somebody.sees("Pause")
        somebody.types(key)
        assert somebody.process.wait(PATIENCE) == 0
        left = somebody.rest()
    assert "\x1b[?1049l" in left
    assert "\x1b[?25h" in left
