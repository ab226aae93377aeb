"""Deadlocks in the list of findings: every reader of the list shows them, and reads locks seldom."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest
import redis
from click.testing import CliRunner

from clients import client_of
from commandstats import command_calls
from dashboard.browsing import serving
from deadlocked import deadlock
from lockwork import Lockwork, ServerUnavailable
from lockwork.acl import ROLES, rules
from lockwork.cli.commands import cli
from lockwork.cli.top_watcher import Watcher
from lockwork.doctor.finding import Finding
from lockwork.doctor.findings import CHECKED_PARTS, findings, findings_of
from lockwork.inspection import lock_cache
from lockwork.inspection.lock_cache import LockCache
from lockwork.inspection.overview import OverviewReader
from lockwork.jobs.current import slot
from lockwork.protocol.effects import Clock
from lockwork.protocol.locks.overview import read_locks
from processes import started, until
from running_jobs import running


@pytest.fixture
def shop(own_url: str) -> Iterator[Lockwork]:
    with Lockwork(own_url) as lw:
        yield lw


def printed(url: str, *words: str) -> str:
    return CliRunner(env={"COLUMNS": "500"}).invoke(cli, [*words, "--url", url]).output


def listed(url: str, command: str) -> list[Finding]:
    """The findings about locks in a command's document."""
    document = json.loads(printed(url, command, "--json"))
    return [Finding(**each) for each in document["findings"] if each["subject"].startswith("Deadlock")]


def overview_page(url: str) -> str:
    with serving(url) as address:
        return httpx.get(address, headers={"Accept": "text/html"}).text


def test_deadlock_is_in_status_doctor_overview_and_top(shop: Lockwork, own_url: str) -> None:
    assert "nothing is wrong" in printed(own_url, "status")
    with deadlock(shop):
        (found,) = findings(shop)
        assert (found.level, found.subject, found.link) == ("serious", "Deadlock", "locks")
        assert "A holds lock a and waits for lock b" in found.text
        assert found.fix.removesuffix("`.") in [
            f"Release one of the locks: `lockwork locks release {name}" for name in "ab"
        ]
        assert listed(own_url, "status") == listed(own_url, "doctor") == Watcher(shop).read().findings == [found]
        status = printed(own_url, "status")
        assert "nothing is wrong" not in status
        assert found.text in status
        page = overview_page(own_url)
        assert "Nothing needs attention" not in page
        assert found.text in page
    assert findings(shop) == []


def test_fix_of_a_deadlock_of_jobs_is_to_cancel_one(shop: Lockwork) -> None:
    with deadlock(shop, lambda name: slot.set(running(f"job-{name}", "import"))):
        (found,) = findings(shop)
    assert "job job-A (import) holds lock a and waits for lock b" in found.text
    assert found.fix == (
        "Cancel one of the jobs: `lockwork job cancel job-A`. Or release one of the locks: `lockwork locks release a`."
    )


@pytest.fixture
def without_locks(own_url: str, admin: redis.Redis) -> Iterator[str]:
    """The URL for a user who may do everything but read locks."""
    commands = sorted(ROLES["operator"].commands)
    allowed = [*rules(["worker"]), *(f"+{command}" for command in commands), ">secret"]
    admin.execute_command("ACL", "SETUSER", "nolocks", *allowed)  # type: ignore[no-untyped-call]
    yield own_url.replace("://", "://nolocks:secret@", 1)
    admin.acl_deluser("nolocks")


def test_user_without_rights_sees_that_locks_are_not_checked(shop: Lockwork, without_locks: str) -> None:
    with shop.lock("a"):
        (found,) = listed(without_locks, "status")
        assert (found.level, found.subject, found.text) == (
            "info", "Deadlocks", "Locks not checked: this user may not read them."
        )  # fmt: skip
        assert "nothing is wrong" not in printed(without_locks, "status")
        assert found in listed(without_locks, "doctor")
        assert "Locks not checked" in overview_page(without_locks)
        with Lockwork(without_locks) as limited:
            seen = Watcher(limited).read()
        assert (seen.locks, seen.findings) == (None, [found])


def test_findings_read_locks_with_waiters_alone(shop: Lockwork) -> None:
    queue = shop.queue("mail")
    free: list[Any] = [shop.lock("l"), shop.rwlock("r").read(), shop.semaphore("s", 2), queue.lock("q")]
    with ExitStack() as stack:
        for lock in free:
            stack.enter_context(lock)
        with deadlock(shop):
            seen = shop.runtime.run(read_locks("lw", contended=True))
            assert [lock.name for lock in seen.locks] == ["a", "b"]
            assert len(seen.deadlocks) == 1
            assert len(shop.locks().locks) == 6


@pytest.mark.parametrize("kind", ["rwlock", "semaphore", "queuelock"])
def test_deadlock_is_found_among_locks_of_every_kind(shop: Lockwork, kind: str) -> None:
    locks = {
        "rwlock": lambda name: shop.rwlock(name).write(),
        "semaphore": lambda name: shop.semaphore(name, 1),
        "queuelock": lambda name: shop.queue("mail").lock(name),
    }
    with deadlock(shop, make=locks[kind]):
        (found,) = findings(shop)
        assert f"holds {kind} " in found.text


def read_findings(reader: OverviewReader, lw: Lockwork) -> list[Finding]:
    return findings_of(reader.read(lw.runtime, CHECKED_PARTS))


def test_deadlocks_are_searched_every_15_seconds(shop: Lockwork, monkeypatch: pytest.MonkeyPatch) -> None:
    reader = OverviewReader()
    assert read_findings(reader, shop) == []
    with deadlock(shop):
        assert read_findings(reader, shop) == [], "it was searched less than 15 s ago"
        assert len(findings(shop)) == 1
        monkeypatch.setattr(lock_cache, "LOCKS_EVERY", 0.0)
        reader = OverviewReader()
        assert [len(read_findings(reader, shop)) for _ in range(2)] == [1, 1]
    assert read_findings(reader, shop) == []


def test_failed_search_is_repeated_by_the_next_reading() -> None:
    cache = LockCache(contended=True)
    for _ in range(2):
        steps = cache.read("lw")
        assert isinstance(next(steps), Clock)
        assert steps.send(100.0) is not None
        with pytest.raises(ServerUnavailable):
            steps.throw(ServerUnavailable("away"))


def test_watched_status_searches_once_in_15_seconds(shop: Lockwork, own_url: str) -> None:
    command = [sys.executable, "-m", "lockwork", "status", "--json", "--watch", "0.1"]
    with client_of(own_url) as admin, deadlock(shop):
        before = command_calls(admin, "type")
        findings(shop)
        once = command_calls(admin, "type") - before
        assert once > 0
        until(lambda: admin.zcard("lw:{lockwork}:index:locks") >= 2, "other processes find the locks")
        with started(command, folder=Path(__file__).parent, url=own_url) as process:
            before = command_calls(admin, "type")
            shown: list[Any] = [json.loads(process.line()) for _ in range(5)]
            # this process may know a lock of an earlier test as well
            assert 0 < command_calls(admin, "type") - before <= once
    assert all(each["findings"][0]["subject"] == "Deadlock" for each in shown)


async def test_async_version_finds_the_same(own_url: str) -> None:
    async with Lockwork(own_url) as lw:
        overview = await OverviewReader().aread(lw.runtime, CHECKED_PARTS)
    assert [found for found in findings_of(overview) if found.level == "serious"] == []
