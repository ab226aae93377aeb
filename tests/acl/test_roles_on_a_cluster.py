"""Users with the rights of one role on the nodes of a Cluster."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from clusters import Cluster, clustered, names_everywhere
from lockwork import Lockwork, ServerRefused
from lockwork.acl import ROLES, rules
from processes import until
from roles import load_functions


def user(cluster: Cluster, role: str, *, sharded: bool = True) -> str:
    """The URL for a user with the rights of a role."""
    for node in cluster.nodes:
        if role == "viewer":
            assert load_functions(node.client)
        node.client.execute_command("ACL", "SETUSER", role, ">secret", *rules([role], cluster=sharded))
    return cluster.url.replace("://", f"://{role}:secret@")


def test_role_reads_the_slots_and_receives_its_messages(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with clustered(tmp_path / "nodes") as cluster:
        urls = {role: user(cluster, role) for role in ROLES}
        with Lockwork(urls["locks"]) as app, Lockwork(urls["locks"]) as other:
            for name in names_everywhere(cluster):
                grant = app.lock(name).acquire()
                waiting = threading.Thread(target=lambda name=name: other.lock(name).acquire().release())
                waiting.start()
                channel = f"{other.runtime.channel}{{lock:{name}}}"
                until(
                    lambda channel=channel: any(  # type: ignore[misc]
                        channel in node.client.execute_command("PUBSUB", "SHARDCHANNELS") for node in cluster.nodes
                    ),
                    "it hears",
                )
                grant.release()
                waiting.join(5)
                assert not waiting.is_alive()
        with Lockwork(urls["producer"], partitions={"mail": 3}) as app:
            send = app.task(queue="mail", name="send")(lambda: None)
            jobs = [send.enqueue() for _ in range(6)]
            assert app.queue("mail").status().enqueued == 6
            assert all(job.cancel() for job in jobs)
        with Lockwork(urls["operator"]) as app, Lockwork(urls["viewer"]) as viewer:
            assert len(app.queues()) == len(viewer.queues()) == 3
        for node in cluster.nodes:
            refused = {(entry["username"], entry["object"]) for entry in node.client.acl_log()}
            refused.discard(("viewer", "evalsha"))  # it learns once per server that it reads by functions
            assert {object for _, object in refused} <= {"client|setinfo"}, "redis-py sends its name, and works without"
    assert "not heard" not in caplog.text


def test_without_the_option_the_slots_cannot_be_read(tmp_path: Path) -> None:
    with clustered(tmp_path / "nodes") as cluster:
        with Lockwork(user(cluster, "locks", sharded=False), patience=0.5) as app:
            with pytest.raises(ServerRefused, match="ask for the slots .*lockwork acl ROLE --cluster"):
                app.lock("x").acquire()
