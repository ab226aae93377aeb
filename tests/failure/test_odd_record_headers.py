"""Records with malformed headers:

half a key, odd limits, or invalid names. They end as dead jobs, or run if they can. They delay no other job, and the
worker continues.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from lockwork import Lockwork
from lockwork.protocol.keys import QueueKeys
from lockwork.runtime.embedded import start_private
from processes import until, worker

KEYS = QueueKeys("lw", "default")
HEADS = [
    b"1,4,k;",
    b"1,4,k,;",
    b"1,4,,g;",
    b"1,4,k,g,;",
    b"1,4,k,g,x/y/z;",
    b"1,4,k,g,0/5/0;",
    b"1,4,k,g,99999999999999999999/1/1;",
    b"1,4,k,g,1/2;",
    b"1,4,two words,g h,1/1/1;",
    b"1,4,k\nx,g\ny;",
    b"1,4,k\x00,\xff\xfe;",
    b"1,4,%s,%d;",
    b"7,4,k,g;",
    b"1,9999999999999999999999,k,g;",
    b"1,-4,k,g;",
    b",,,,;",
    b"1,4,k,g,1/1/1,more,and,more;",
    b"1,4," + b"k" * 100_000 + b",g;",
]


@pytest.fixture(scope="module")
def odd_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server and a worker that these tests may spoil."""
    with start_private(tmp_path_factory.mktemp("odd")) as server:
        with worker("good:lw", "--lease", "5s", url=server.url, folder=Path(__file__).parent / "apps"):
            yield server.url


@pytest.mark.parametrize("body", [b'["add",[1]]', b"\xff"], ids=["a call", "no call"])
@pytest.mark.parametrize("head", HEADS, ids=lambda head: repr(head[:24]))
def test_malformed_record_header_delays_no_job(odd_url: str, head: bytes, body: bytes) -> None:
    with Lockwork(odd_url) as lw, redis.Redis.from_url(odd_url) as client:

        @lw.task
        def add(a: int, b: int = 1) -> int:
            return a + b

        before = lw.queue().status()
        client.hset(KEYS.jobs, "odd", head + body)
        client.zadd(KEYS.due, {"odd": 1})
        client.publish(f"{KEYS.base}:nobody", "")
        assert add.enqueue(1).result(30) == 2
        assert add.options(key="k", group="g").enqueue(2).result(30) == 3
        until(lambda: lw.queue().status().running == 0 and not client.zscore(KEYS.due, "odd"), "it was taken", 10)
        until(lambda: lw.job("odd").state() in ("succeeded", "dead", "unknown"), "it has ended", 10)
        status = lw.queue().status()
        assert (status.ready, status.scheduled, status.running) == (before.ready, 0, 0)
        for key in (KEYS.results[0], KEYS.results[1], KEYS.errors, KEYS.tries, KEYS.jobs):
            client.hdel(key, "odd")
        client.zrem(KEYS.dead, "odd")
