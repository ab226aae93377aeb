"""Sticky locks among many threads, tasks and processes: no overlap, no lost release, no starvation.

`make chaos` also runs these tests, for longer.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
import redis

from chaos import tiers
from history import History
from lockwork import LockLost, Lockwork, NotHeld
from processes import script

SECONDS = tiers.counts("locks").seconds / 5

pytestmark = pytest.mark.timeout(SECONDS * 2 + 120)

PLAYER = """
import json, os, random, sys, threading, time
from lockwork import Lockwork
path, seconds, threads = sys.argv[1], float(sys.argv[2]), int(sys.argv[3])
file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
def note(event, fence):
    line = {"event": event, "fence": fence, "pid": os.getpid(), "at": time.clock_gettime(time.CLOCK_BOOTTIME)}
    os.write(file, json.dumps(line).encode() + b"\\n")
sys.setswitchinterval(1e-5)
with Lockwork(lock_lease=60) as lw:
    def play(seed):
        draw = random.Random(seed)
        lock = lw.lock("x", sticky=True)
        while time.monotonic() < end:
            began = time.monotonic()
            with lock as grant:
                waited = time.monotonic() - began
                if draw.random() < 0.05 or waited > 0.5:
                    note(f"enter {waited:.3f}", grant.fence)
                    note("exit", grant.fence)
                else:
                    os.pwrite(board, b"x", 0)
            if draw.random() < 0.2:
                time.sleep(draw.uniform(0, 0.004))
    board = os.open(path + ".board", os.O_RDWR | os.O_CREAT, 0o600)
    end = time.monotonic() + seconds
    players = [threading.Thread(target=play, args=(os.getpid() * 100 + n,)) for n in range(threads)]
    for player in players: player.start()
    for player in players: player.join()
print("done", flush=True)
"""


@pytest.fixture
def quick_switches() -> Iterator[None]:
    """Set the shortest switch interval, so that thread switches hit the critical sections."""
    usual = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(usual)


@contextmanager
def spinning(spin: Callable[[int], None], stop: threading.Event) -> Iterator[None]:
    """Run `spin` in three threads, each with a number, until the block ends and sets `stop`."""
    threads = [threading.Thread(target=spin, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def test_processes_with_threads(url: str, admin: redis.Redis, tmp_path: Path) -> None:
    history = History(tmp_path / "history")
    with ExitStack() as stack:
        players = [stack.enter_context(script(PLAYER, history.path, SECONDS, 2, url=url)) for _ in range(4)]
        for player in players:
            assert player.line() == "done"
    lines = sorted(history.lines(), key=lambda line: line["at"])
    assert len(lines) >= 8
    overlaps = sum(
        not (one["event"].startswith("enter") and other["event"] == "exit" and one["fence"] == other["fence"])
        for one, other in zip(lines[::2], lines[1::2], strict=True)
    )
    assert overlaps == 0
    assert len({line["pid"] for line in lines}) == 4, "somebody starved"
    slow = [
        line["event"] for line in lines if line["event"].startswith("enter") and float(line["event"].split()[1]) > 5
    ]
    assert not slow, "a hand-back was lost, and the lock waited for its lease"
    fences = [line["fence"] for line in lines]
    assert fences == sorted(fences)
    print(json.dumps({"lines": len(lines), "hand-overs": len(set(fences))}))


@pytest.mark.usefixtures("quick_switches")
def test_release_races_a_request(url: str, admin: redis.Redis) -> None:
    """Threads release the lock while another process requests it: one thread sends the release, once."""
    with Lockwork(url, lock_lease=60) as keeper, Lockwork(url, lock_lease=60) as asker:
        lock, turns, stop = keeper.lock("x", sticky=True), 0, threading.Event()
        inside: list[int] = []
        problems: list[str] = []

        def spin(_: int) -> None:
            while not stop.is_set():
                with lock as grant:
                    inside.append(grant.fence)
                    if len(inside) != 1:
                        problems.append(f"overlap {inside}")
                    inside.pop()

        slowest = 0.0
        end = time.monotonic() + SECONDS
        with spinning(spin, stop):
            while time.monotonic() < end:
                began = time.monotonic()
                with asker.lock("x", wait=30) as grant:
                    slowest = max(slowest, time.monotonic() - began)
                    inside.append(grant.fence)
                    if len(inside) != 1:
                        problems.append(f"overlap {inside}")
                    inside.pop()
                turns += 1
        assert not problems
        assert turns > 10
        assert slowest < 5, f"{turns} turns, the slowest {slowest:.1f} s: a hand-back was lost"


@pytest.mark.usefixtures("quick_switches")
def test_concurrent_releases_of_one_grant_release_it_once(url: str, admin: redis.Redis) -> None:
    """Two threads may call `grant.release()` at the same time: the lock returns to the cache once."""
    with Lockwork(url, lock_lease=60) as lw:
        lock, inside, problems = lw.lock("x", sticky=True), [], []
        stop = threading.Event()

        def spin(_: int) -> None:
            while not stop.is_set():
                grant = lock.try_acquire()
                if grant is None:
                    continue
                inside.append(grant)
                if len(inside) != 1:
                    problems.append("overlap")
                inside.pop()
                both = threading.Barrier(2)

                def release(grant: object = grant, both: threading.Barrier = both) -> None:
                    both.wait()
                    try:
                        grant.release()  # type: ignore[attr-defined]
                    except (NotHeld, LockLost):
                        pass
                    except Exception as error:  # noqa: BLE001 - the test reports it
                        problems.append(repr(error))

                helper = threading.Thread(target=release)
                helper.start()
                release()
                helper.join()

        with spinning(spin, stop):
            threading.Event().wait(SECONDS)
        assert not problems, problems[:3]
        with lw.lock("x", wait=5):
            pass


@pytest.mark.usefixtures("quick_switches")
def test_requests_arrive_while_threads_acquire_and_release(url: str, admin: redis.Redis) -> None:
    """The real StickyCache under random thread switches: one user at a time, and no lock stays behind."""
    with Lockwork(url, lock_lease=60) as lw, Lockwork(url) as other:
        key, stop, problems = lw.lock("x")._key, threading.Event(), []
        inside: list[object] = []

        def spin(seed: int) -> None:
            draw = random.Random(seed)
            lock = lw.lock("x", sticky=True)
            while not stop.is_set():
                try:
                    with lock as grant:
                        inside.append(grant)
                        if len(inside) != 1:
                            problems.append("overlap")
                        inside.remove(grant)
                        if draw.random() < 0.1:
                            lw.runtime.engine._deliver("!", f"asked {key}")
                            lw.runtime.engine._wake_up()
                except Exception as error:  # noqa: BLE001 - the test reports it
                    problems.append(repr(error))

        with spinning(spin, stop):
            threading.Event().wait(SECONDS)
        assert not problems, problems[:3]
        with other.lock("x", wait=5):
            pass
        assert not lw.runtime.holds
        assert not lw.runtime.sticky_cache.all


async def test_tasks_of_two_apps(url: str, admin: redis.Redis) -> None:
    async with Lockwork(url, lock_lease=60) as one, Lockwork(url, lock_lease=60) as two:
        inside, turns, slowest = 0, {id(one): 0, id(two): 0}, 0.0
        end = time.monotonic() + SECONDS

        async def spin(app: Lockwork) -> None:
            nonlocal inside, slowest
            lock = app.lock("x", sticky=True)
            while time.monotonic() < end:
                began = time.monotonic()
                async with lock:
                    slowest = max(slowest, time.monotonic() - began)
                    inside += 1
                    assert inside == 1
                    await asyncio.sleep(0)
                    inside -= 1
                turns[id(app)] += 1
                await asyncio.sleep(0)

        await asyncio.gather(*(spin(app) for app in (one, two) for _ in range(3)))
        assert min(turns.values()) > 5
        assert slowest < 5
