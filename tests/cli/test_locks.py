"""`lockwork locks` and `lw.locks()`: holders, waiters and deadlocks."""

from __future__ import annotations

import asyncio
import io
import json
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import redis
from rich.console import Console

from deadlocked import deadlock
from indexed import listed
from lockwork import ConfigError, LockTimeout, Lockwork
from lockwork.cli.locks import report
from lockwork.doctor.findings import findings
from processes import Started, started, until


@contextmanager
def command(url: str, *words: str) -> Iterator[Started]:
    with started([sys.executable, "-m", "lockwork", "locks", *words], folder=Path(__file__).parent, url=url) as process:
        yield process


def output(url: str, *words: str, status: int = 0) -> str:
    with command(url, *words) as process:
        assert process.process.stdout is not None
        text = process.process.stdout.read().decode()
        assert process.wait() == status, process.errors
        return text


def test_released_lock_is_not_listed(lw: Lockwork, url: str) -> None:
    with lw.lock("a"):
        pass
    seen = lw.locks()
    assert (seen.locks, seen.waits, seen.deadlocks) == ((), (), ())
    assert output(url) == "no lock is held or waited for\n"
    assert output(url, "order:*") == "no lock matching order:* is held or waited for\n"
    assert json.loads(output(url, "--json")) == {"locks": [], "waits": [], "deadlocks": []}


def test_holders_of_every_kind(lw: Lockwork) -> None:
    with lw.lock("l", tags=["x", "y"]) as lock, lw.rwlock("r").write(), lw.semaphore("s", 4, units=3) as permit:
        seen = {each.name: each for each in lw.locks().locks}
    assert {name: each.kind for name, each in seen.items()} == {"l": "lock", "r": "rwlock", "s": "semaphore"}
    held = seen["l"].holders[0]
    assert (held.fence, held.holder.tags, held.holder.label) == (lock.fence, ("x", "y"), "MainThread")
    assert 0 < held.expires_in <= 15
    assert 0 <= held.held_for < 30
    assert (seen["s"].capacity, seen["s"].holders[0].units, seen["s"].holders[0].fence) == (4, 3, permit.fence)
    assert seen["r"].holders[0].units == seen["r"].capacity


async def test_waiters_are_listed_in_queue_order(alw: Lockwork) -> None:
    async with alw.lock("l"):
        tasks = []
        for at in range(3):
            tasks.append(asyncio.create_task(alw.lock("l").aacquire(), name=f"waiter-{at}"))
            while len((await alw.alocks()).locks[0].line) <= at:
                await asyncio.sleep(0.005)
        (seen,) = (await alw.alocks()).locks
        assert [each.holder.label for each in seen.line] == ["waiter-0", "waiter-1", "waiter-2"]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def test_doctor_finds_a_deadlock(lw: Lockwork) -> None:
    with deadlock(lw):
        (found,) = (each for each in findings(lw) if each.subject == "Deadlock")
        assert found.level == "serious"
        assert "A holds lock a and waits for lock b; " in found.text
        assert re.search("`lockwork locks release [ab]`", found.fix)
    assert [each for each in findings(lw) if each.subject == "Deadlock"] == []


def test_deadlock_is_named(lw: Lockwork, admin: redis.Redis, url: str) -> None:
    with deadlock(lw):
        listed(admin, "{lock:a}", "{lock:b}")
        (found,) = lw.locks().deadlocks
        a, b = (owner.rpartition(":")[2] for owner in found.members)
        assert {a, b} == {"A", "B"}
        assert str(found).count("holds lock") == 2
        assert len(lw.locks("a").locks) == 1
        assert len(lw.locks("a").deadlocks) == 1
        text = output(url)
        assert "DEADLOCK" in text
        document = json.loads(output(url, "--json"))
        assert len(document["deadlocks"]) == 1
        assert [each["name"] for each in document["locks"]] == ["a", "b"]
    assert lw.locks().deadlocks == ()


@pytest.mark.parametrize("width", [40, 80, 200])
def test_locks_fit_any_terminal_width(lw: Lockwork, width: int) -> None:
    with deadlock(lw):
        out = io.StringIO()
        Console(file=out, width=width, highlight=False).print(*report(lw.locks()).body)
        assert all(len(line) <= width for line in out.getvalue().splitlines())
        assert "DEADLOCK" in out.getvalue()


def test_more_locks_than_one_step_reads(lw: Lockwork, admin: redis.Redis) -> None:
    grants = [lw.semaphore(f"s{at}", 1).acquire() for at in range(600)]
    assert len(lw.locks().locks) == 600
    assert len(lw.locks("s1?").locks) == 10
    for grant in grants:
        grant.release()


def test_other_keys_are_passed_over(lw: Lockwork, admin: redis.Redis) -> None:
    admin.set("lw:{lock:odd}", "no hash", ex=60)
    admin.hset("lw:{latch:odd}", "o", "x")
    admin.expire("lw:{latch:odd}", 60)
    with Lockwork(prefix="l[w]", url=_url(admin)) as other, other.lock("mine"):
        assert lw.locks().locks == ()
        assert [each.name for each in other.locks().locks] == ["mine"]


def _url(admin: redis.Redis) -> str:
    return f"unix://{admin.connection_pool.connection_kwargs['path']}"


def test_pattern_that_is_not_text_is_refused(lw: Lockwork) -> None:
    with pytest.raises(ConfigError, match="a pattern of locks' names must be text, not 5"):
        lw.locks(5)  # type: ignore[arg-type]


def test_release_asks_first(lw: Lockwork, url: str) -> None:
    lock = lw.lock("x", tags=["night"])
    with lw.lock("x*"):  # a name is not a pattern
        lock.acquire()
        with command(url, "release", "x") as process:
            process.tell("n")
            assert process.wait() == 0
            assert "lock 'x' is held by" in process.errors
            assert "MainThread [night]. Release it?" in process.errors
        assert lock.locked()
        with command(url, "release", "x") as process:
            process.tell("y")
            assert process.wait() == 0
        assert not lock.locked()
        assert lw.lock("x*").locked()
    with pytest.raises(Exception, match="ended"):
        lock.release()
    assert output(url, "release", "x", "--yes") == "nobody holds 'x'\n"


def test_release_without_confirmation_keeps_the_lock(lw: Lockwork, url: str) -> None:
    with lw.lock("x") as grant, command(url, "release", "x") as process:
        assert process.process.stdin is not None
        process.process.stdin.close()
        assert process.wait() == 1
        assert "Traceback" not in process.errors
        grant.check()
        assert lw.lock("x").locked()
        with pytest.raises(LockTimeout), lw.lock("x2"), Lockwork(url) as other:
            other.lock("x").acquire(wait=0)


def test_release_of_every_kind(lw: Lockwork, url: str) -> None:
    lw.rwlock("x").write().acquire()
    lw.semaphore("x", 3).acquire()
    lw.semaphore("x", 3).acquire()
    assert output(url, "release", "x", "--yes") == "rwlock 'x': 1 released\nsemaphore 'x': 2 released\n"
    assert lw.locks().locks == ()


def test_new_holder_keeps_the_lock_after_the_question(lw: Lockwork, url: str) -> None:
    first = lw.lock("x").acquire()
    with command(url, "release", "x") as process:
        until(lambda: "Release it?" in process.errors, "it asks")
        first.release()
        with lw.lock("x") as second:
            process.tell("y")
            assert process.wait() == 1
            assert "another holder now" in process.errors
            second.check()
            assert lw.lock("x").locked()


def test_quorum_is_shown_and_not_released(lw: Lockwork, url: str) -> None:
    with Lockwork(url, prefix="b") as b, Lockwork(url, prefix="c") as c, lw.quorum([lw, b, c]) as quorum:
        grant = quorum.lock("x").acquire()
        until(lambda: [each.kind for each in lw.locks().locks] == ["quorum"], "it is shown")
        assert output(url, "release", "x", "--yes") == ""
        grant.release()


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("a", "b"), "pass one name, or an action and a name; the actions are show, release"),
        (("release",), "Missing argument 'NAME'"),
        (("release", "a", "b"), "Got unexpected extra argument (b)"),
    ],
)
def test_missing_and_extra_names_are_refused(url: str, words: tuple[str, ...], text: str) -> None:
    with command(url, *words) as process:
        assert process.wait() == 2
        assert text in process.errors


@pytest.mark.parametrize(
    "address",
    ["redis://:hunter2@127.0.0.1:1/0", "rediss://u:hunter2@[::1", "redis://:hunter2@h:no/0", "hunter2", ""],
)
def test_password_of_the_url_is_not_printed(lw: Lockwork, url: str, address: str) -> None:
    with command(url, "--url", address) as process:
        assert process.wait(30) == 1
        assert "hunter2" not in process.errors
        assert process.errors.startswith("lockwork: ")
        assert process.errors.count("\n") == 1


def test_json_has_modes_units_and_holders(lw: Lockwork, admin: redis.Redis, url: str) -> None:
    with lw.rwlock("r").read(), lw.rwlock("r2").write(), lw.semaphore("s", 4, units=3, tags=["t"]):
        listed(admin, "{rw:r}", "{rw:r2}", "{sem:s}")
        document = json.loads(output(url, "--json", "r*"))
        assert [each["name"] for each in document["locks"]] == ["r", "r2"]
        read, write, permits = json.loads(output(url, "--json"))["locks"]
        assert (read["kind"], read["capacity"]) == ("rwlock", None)
        assert (read["holders"][0]["mode"], write["holders"][0]["mode"]) == ("read", "write")
        assert (write["holders"][0]["units"], permits["holders"][0]["units"]) == (1, 3)
        holder = permits["holders"][0]
        assert sorted(permits) == [
            "capacity", "holders", "kept_for", "kind", "more_holders", "more_waiters", "name", "waiters",
        ]  # fmt: skip
        assert sorted(holder) == [
            "expires_in", "fence", "held_for", "host", "job", "label", "mode", "owner", "pid", "tags", "task", "units",
        ]  # fmt: skip
        assert holder["tags"] == ["t"]
