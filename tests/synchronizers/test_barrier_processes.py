"""Barriers and latches of real processes: killed, interrupted and forked."""

from __future__ import annotations

import contextlib
import signal
from concurrent.futures import ThreadPoolExecutor

import pytest
import redis

from lockwork import Lockwork
from processes import script, until

PARTY = """
import sys
from lockwork import Lockwork
with Lockwork() as lw:
    phase = lw.barrier("phase", 3)
    print("ready", flush=True)
    for turn in range(int(sys.argv[1])):
        print(phase.wait(40), flush=True)
"""


def test_processes(lw: Lockwork, url: str) -> None:
    with contextlib.ExitStack() as stack:
        parties = [stack.enter_context(script(PARTY, 20, url=url)) for _ in range(3)]
        assert [party.line() for party in parties] == ["ready"] * 3
        for _ in range(20):
            assert sorted(int(party.line()) for party in parties) == [0, 1, 2]


def test_killed_party_stops_counting(lw: Lockwork, url: str) -> None:
    """Redisson #2045: permits of a crashed holder were lost for ever; here a dead party's place lapses after 15 s."""
    phase = lw.barrier("phase", 3)
    with script(PARTY, 1, url=url) as party, ThreadPoolExecutor(2) as pool:
        until(lambda: phase.inspect().arrived == 1, "it has come")
        party.send(signal.SIGKILL)
        party.wait()
        others = [pool.submit(phase.wait, 40)]
        until(lambda: phase.inspect().arrived == 2, "another one has come")
        until(lambda: phase.inspect().arrived == 1, "the dead one's place has lapsed")
        others.append(pool.submit(phase.wait, 40))
        until(lambda: phase.inspect().arrived == 2, "a third one has come")
        assert phase.wait(0) == 2
        assert [other.result(10) for other in others] == [0, 1]


INTERRUPTED = """
import sys
from lockwork import Lockwork
with Lockwork() as lw:
    wait = {
        "barrier": lw.barrier("phase", 2).wait,
        "latch": lw.latch("boot", 1).wait,
        "limiter": lw.limiter("api", "1/h").acquire,
    }[sys.argv[1]]
    wait()
"""


@pytest.mark.parametrize("kind", ["barrier", "latch", "limiter"])
def test_ctrl_c_ends_a_wait_and_leaves_no_keys(lw: Lockwork, admin: redis.Redis, url: str, kind: str) -> None:
    api = lw.limiter("api", "1/h")
    api.acquire()
    rest = api.inspect().full_in
    with script(INTERRUPTED, kind, url=url) as waiter:
        if kind == "limiter":
            until(lambda: api.inspect().full_in > rest + 1000, "it waits")
        else:
            key = {"barrier": "lw:{barrier:phase}", "latch": "lw:{latch:boot}"}[kind]
            until(lambda: admin.exists(key), "it waits")
        waiter.send(signal.SIGINT)
        assert waiter.wait() != 0
        assert "KeyboardInterrupt" in waiter.errors
    assert lw.barrier("phase", 2).inspect().arrived == 0
    assert api.inspect().full_in <= rest


FORKS = """
import os
from lockwork import Lockwork
lw = Lockwork()
phase, boot, api = lw.barrier("phase", 2), lw.latch("boot", 2), lw.limiter("api", "5/h")
boot.count_down()
boot.wait(0.01)
child = os.fork()
passed = phase.wait(20)
api.acquire()
if not child:
    boot.count_down()
    os._exit(passed)
opened = boot.wait(20)
print(sorted([passed, os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])]), opened, api.inspect().available, flush=True)
lw.close()
"""


def test_forked_child_is_a_separate_party(lw: Lockwork, url: str) -> None:
    with script(FORKS, url=url) as process:
        assert process.line() == "[0, 1] True 3"
