"""Lists and rights: nothing fails without the right to be listed, and a viewer writes nothing."""

from __future__ import annotations

import redis

from lockwork import Lockwork
from lockwork.acl import rules
from lockwork.protocol.index.index import QUEUES
from processes import until
from roles import load_functions


def test_user_without_the_right_to_an_index_enqueues(own_url: str) -> None:
    with redis.Redis.from_url(own_url) as admin:
        admin.execute_command(
            "ACL", "SETUSER", "old", ">secret", *[r for r in rules(["producer"]) if ":index:" not in r]
        )
        host, path = own_url.split("://")
        with Lockwork(f"{host}://old:secret@{path}") as lw:

            @lw.task
            def send() -> None: ...

            send.enqueue()
            until(lambda: any("index" in each["object"] for each in admin.acl_log()), "the server refuses it")
            send.enqueue()
        assert admin.zcard(QUEUES.index_key("lw")) == 0
        admin.execute_command("ACL", "DELUSER", "old")


def test_viewer_reads_all_lists_and_writes_nothing(own_url: str) -> None:
    with redis.Redis.from_url(own_url) as admin, Lockwork(own_url) as lw:
        admin.execute_command("ACL", "LOG", "RESET")
        admin.execute_command("ACL", "SETUSER", "eye", ">secret", *rules(["viewer"], by_eval=not load_functions(admin)))
        admin.zadd(QUEUES.index_key("lw"), {"gone": 1})
        host, path = own_url.split("://")
        with Lockwork(f"{host}://eye:secret@{path}") as viewer, lw.lock("a"):
            lw.limiter("api", "5/s").acquire()
            assert (viewer.queues(), viewer.stocks(), len(viewer.flows().flows)) == ([], [], 0)
            assert [each.name for each in viewer.locks().locks] == ["a"]
            until(lambda: [each.name for each in viewer.limiters().limiters] == ["api"], "listed")
        # the first read tries a script
        assert {each["object"] for each in admin.acl_log()} <= {"client|setinfo", "evalsha"}
        admin.execute_command("ACL", "DELUSER", "eye")
