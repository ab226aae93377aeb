"""Messages on a Cluster: sharded channels, subscribed on the slot's shard, and closed without waiters."""

from __future__ import annotations

import asyncio
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from statistics import median
from typing import Any

import pytest
import redis

from clusters import Cluster, begin_move, clustered, count_calls, end_move, names_everywhere
from forking import in_a_child
from lockwork import Lockwork
from lockwork.errors import JobCancelled
from lockwork.jobs.job import Job
from lockwork.protocol import slots
from lockwork.protocol.keys import QueueKeys, channel
from lockwork.protocol.queue import enqueue, leases, record_header
from lockwork.protocol.queue.enqueue import NewJob
from lockwork.protocol.queue.leases import Outcome
from lockwork.runtime import shard_channels
from lockwork.runtime.cluster import ClusterEndpoint
from lockwork.runtime.cluster_pubsub import ClusterSubscription
from lockwork.runtime.shard_channels import LINGER, ShardChannels
from lockwork.runtime.wakeups import Mailboxes
from processes import until, worker
from sentinels import Node

SOON = 0.1
"""Seconds; maximum for the median of several waits."""
ONCE = 0.5
"""Seconds; maximum for one wait. A waiter without a message polls later than this."""


@pytest.fixture(scope="module")
def still(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Three primaries whose slots do not move."""
    with clustered(tmp_path_factory.mktemp("still")) as found:
        yield found


@pytest.fixture
def moving(tmp_path: Path) -> Iterator[Cluster]:
    """Three primaries with a replica each, for one test only."""
    with clustered(tmp_path / "nodes", replicas=1) as found:
        yield found


def channels(cluster: Cluster) -> list[str]:
    """Return the sharded channels with subscribers, at the primaries."""
    return [name for node in cluster.primaries() for name in node.client.execute_command("PUBSUB", "SHARDCHANNELS")]


def hears(cluster: Cluster, app: Lockwork, tag: str) -> bool:
    """Return True if the app is subscribed at the slot's primary."""
    return f"{app.runtime.channel}{{{tag}}}" in cluster.owner(slots.slot(tag)).client.execute_command(
        "PUBSUB", "SHARDCHANNELS"
    )


class Waiting:
    """A thread that acquires something and records the time."""

    def __init__(self, acquire: Callable[[], object]) -> None:
        self._acquire = acquire
        self.got = 0.0
        self.thread = threading.Thread(target=self._main)
        self.thread.start()

    def _main(self) -> None:
        self._acquire()
        self.got = time.monotonic()

    def late(self, since: float) -> float:
        """Return the seconds from `since` until the acquisition."""
        self.thread.join(20)
        assert not self.thread.is_alive()
        return self.got - since


@pytest.mark.parametrize("kind", ["lock", "sem"])
def test_waiter_of_any_shard_wakes_at_once(still: Cluster, kind: str) -> None:
    with Lockwork(still.url) as holder, Lockwork(still.url) as other:
        late: list[float] = []
        for name in names_everywhere(still, kind) * 3:
            mine, theirs = (app.lock(name) if kind == "lock" else app.semaphore(name, 1) for app in (holder, other))
            mine.acquire()
            waiting = Waiting(theirs.acquire)
            until(lambda name=name: hears(still, other, f"{kind}:{name}"), "it is subscribed")  # type: ignore[misc]
            since = time.monotonic()
            mine.release()
            late.append(waiting.late(since))
            other.release_all()
        assert median(late) < SOON


async def test_coroutine_wakes_at_once(still: Cluster) -> None:
    async with Lockwork(still.url) as holder, Lockwork(still.url) as other:
        late: list[float] = []
        for name in names_everywhere(still, "lock") * 3:
            await holder.lock(name).aacquire()
            waiting = asyncio.create_task(other.lock(name).aacquire())
            await asyncio.to_thread(until, lambda name=name: hears(still, other, f"lock:{name}"), "it is subscribed")
            since = time.monotonic()
            await holder.lock(name).arelease()
            await waiting
            late.append(time.monotonic() - since)
            await other.arelease_all()
        assert median(late) < SOON


def kinds(app: Lockwork, other: Lockwork) -> dict[str, tuple[Callable[[], object], Callable[[], object], str]]:
    """Return, for each kind, the other app's wait, this app's call that ends it, and its hash tag."""
    job = app.task(queue="mail", name="send")(lambda: None).enqueue()
    theirs = other.job(job.id, "mail")
    stock = app.stock("phone", 1)
    reservation = stock.reserve("me", hold="1m")
    latch, entries = app.latch("boot", 1), app.delay_queue("orders")

    return {
        "latch": (other.latch("boot", 1).wait, latch.count_down, "latch:boot"),
        "barrier": (other.barrier("phase", 2).wait, app.barrier("phase", 2).wait, "barrier:phase"),
        "result": (lambda: _cancelled(theirs), job.cancel, "q:mail"),
        "stock": (
            lambda: other.stock("phone", 1).reserve("you", hold="1m", wait=20),
            lambda: stock.release(reservation),
            "q:default",
        ),
        "delay queue": (lambda: other.delay_queue("orders").pop(wait=20), lambda: entries.add("a", 0), "dq:orders"),
        "multilock": (lambda: other.multilock("a", "b").acquire(), app.lock("b").release, "lock:b"),
    }


def _cancelled(job: Job[Any]) -> None:
    with pytest.raises(JobCancelled):
        job.result(20)


@pytest.mark.parametrize("kind", ["latch", "barrier", "result", "stock", "delay queue", "multilock"])
def test_each_kind_of_waiter_wakes_at_once(still: Cluster, kind: str) -> None:
    """Without a wake-up, most kinds poll after seconds."""
    with Lockwork(still.url) as app, Lockwork(still.url) as other:
        app.lock("b").acquire()
        wait, end, tag = kinds(app, other)[kind]
        waiting = Waiting(wait)
        until(lambda: hears(still, other, tag), "it is subscribed")
        time.sleep(0.3)  # the waiter has polled once after its subscription
        since = time.monotonic()
        end()
        assert waiting.late(since) < ONCE
    for node in still.nodes:
        node.client.flushall()


def test_idle_worker_wakes_at_once_and_is_handed_its_job(still: Cluster, apps: Path) -> None:
    keys = QueueKeys("lw", "default")
    with Lockwork(still.url) as app, worker("good:lw", url=still.url, folder=apps):
        home = still.owner(slots.slot("q:default")).client

        @app.task
        async def add(a: int, b: int = 1) -> int: ...  # type: ignore[empty-body]

        late: list[float] = []
        for number in range(7):
            until(lambda: home.zcount(keys.idle_workers, 0, "+inf") == 1, "it sleeps")
            since = time.monotonic()
            assert add.enqueue(number).result(20) == number + 1
            late.append(time.monotonic() - since)
        assert median(late) < SOON
        channel = home.zrange(keys.idle_workers, 0, -1)[0]
        assert f"{channel}{{q:default}}" in home.execute_command("PUBSUB", "SHARDCHANNELS")


def test_job_comes_along_with_the_wake_up(still: Cluster) -> None:
    """The slot's primary offers the job to a session with a subscription, and to no other session."""
    keys, session = QueueKeys("lw", "offers"), "host/1/a"
    wakeups = channel("lw", session)
    home = still.owner(slots.slot("q:offers"))
    with Lockwork(still.url) as app:
        run = app.runtime.run
        run(leases.beat(keys, {session: True}, 60_000, 5))
        run(leases.reserve(keys, session, 1, "r1", wakeups))
        record = record_header.head(1, 4) + b'["work",[]]'
        keys.sleeper = wakeups
        run(enqueue.push(keys, [NewJob("unheard", record)]))
        assert not home.client.exists(keys.run(session)), "nobody listens there"
        (job,) = run(leases.reserve(keys, session, 1, "r2", wakeups)).jobs
        run(leases.settle(keys, session, [Outcome(job.id, job.token, "s")], 60_000))
        with redis.Redis(port=home.port) as client, client.pubsub() as told:
            told.execute_command("SSUBSCRIBE", f"{wakeups}{{q:offers}}")
            until(
                lambda: home.client.execute_command("PUBSUB", "SHARDNUMSUB", f"{wakeups}{{q:offers}}")[1],
                "it is subscribed",
            )
            run(leases.reserve(keys, session, 1, "r3", wakeups, last=job.fence))
            keys.sleeper = wakeups
            run(enqueue.push(keys, [NewJob("offered", record)]))
            assert home.client.hkeys(keys.run(session)) == ["offered"]
    home.client.flushall()


def test_subscriptions_are_closed_after_the_last_waiter(still: Cluster) -> None:
    with Lockwork(still.url) as holder, Lockwork(still.url) as other:
        names = [f"late-{number}" for number in range(60)]
        grants = [holder.lock(name).acquire() for name in names]
        waiting = [Waiting(other.lock(name).acquire) for name in names]
        until(lambda: len(channels(still)) == len(names), "each waits in its slot")
        connections = Counter(line["laddr"] for node in still.nodes for line in node.client.client_list(_type="pubsub"))
        assert len(connections) <= 3
        assert max(connections.values()) == 1, "one connection per shard"
        for grant in grants:
            grant.release()
        for each in waiting:
            each.late(0)
        until(lambda: not channels(still), "the channels are dropped", LINGER + 5)
    until(
        lambda: not any(node.client.client_list(_type="pubsub") for node in still.nodes), "the connections are closed"
    )


def test_forked_child_hears_for_itself(still: Cluster) -> None:
    """The child gets wake-ups even if the parent was reading the slots at the time of the fork."""
    with Lockwork(still.url) as holder, Lockwork(still.url) as app:
        app.lock("parent").acquire()
        holder.lock("fork").acquire()
        endpoint = app.runtime._endpoint()
        assert isinstance(endpoint, ClusterEndpoint)

        def child() -> str:
            endpoint.stale = True
            threading.Timer(1, grant_elsewhere).start()
            since = time.monotonic()
            app.lock("fork").acquire(wait=20)
            app.close()
            return "soon" if time.monotonic() - since < 1 + ONCE else "late"

        def grant_elsewhere() -> None:
            with Lockwork(still.url) as third:
                third.lock("fork").force_release()

        with endpoint._lock:
            assert in_a_child(child) == "soon"


def test_wait_costs_few_calls(still: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first wait in a slot subscribes and polls once more; a second wait soon after needs no wake-up."""
    looks: list[str] = []
    spent: list[tuple[int, int]] = []
    wake, enter = Mailboxes.wake, ShardChannels.enter

    def noted(self: Mailboxes, tickets: Iterable[str]) -> None:
        woken = list(tickets)
        looks.extend(woken)
        wake(self, woken)

    def noted_at_begin(self: ShardChannels, name: str, ticket: str) -> bool:
        """A wait that begins just after the subscription checks again at once, so it needs no wake-up."""
        missed = enter(self, name, ticket)
        if not spent:
            looks.extend([ticket] * missed)
        return missed

    monkeypatch.setattr(Mailboxes, "wake", noted)
    monkeypatch.setattr(ShardChannels, "enter", noted_at_begin)
    monkeypatch.setattr(
        shard_channels, "LINGER", 60.0
    )  # long enough that the second wait is in time even on a slow machine
    with Lockwork(still.url) as holder, Lockwork(still.url) as other:
        for _ in range(2):
            before = count_calls(still, "ssubscribe")
            looks.clear()
            grant = holder.lock("cost").acquire()
            waiting = Waiting(other.lock("cost").acquire)
            until(
                lambda: holder.lock("cost").inspect().waiters == 1 and hears(still, other, "lock:cost"),
                "it is subscribed",
            )
            until(lambda: looks or spent, "the first looks again")
            grant.release()
            waiting.late(0)
            other.release_all()
            spent.append((count_calls(still, "ssubscribe") - before, len(looks)))
        assert spent == [(1, 1), (0, 0)]


@pytest.mark.parametrize("looks_again", [True, False])
def test_message_before_the_subscription_is_made_up_for(
    still: Cluster, monkeypatch: pytest.MonkeyPatch, looks_again: bool
) -> None:
    """The job ends between the first poll and the subscription; without another poll the waiter would wait for
    seconds.
    """
    gate = threading.Event()
    tend = ClusterSubscription.tend

    def held_up(self: ClusterSubscription) -> None:
        if gate.is_set():
            tend(self)
        else:
            self.next_event = 0.0

    monkeypatch.setattr(ClusterSubscription, "tend", held_up)
    if not looks_again:
        monkeypatch.setattr(Mailboxes, "wake", lambda *_: None)
        monkeypatch.setattr(Mailboxes, "wake_all", lambda *_: None)
    with Lockwork(still.url) as app, Lockwork(still.url) as other:
        job = app.task(queue="gap", name="send")(lambda: None).enqueue()
        theirs = other.job(job.id, "gap")
        home = still.owner(slots.slot("q:gap")).client
        waiting = Waiting(lambda: _cancelled(theirs))
        until(lambda: home.exists("lw:{q:gap}:watch"), "it has asked")
        job.cancel()
        since = time.monotonic()
        gate.set()
        assert (waiting.late(since) < 1) == looks_again


def test_waiters_follow_a_slot_that_moves(moving: Cluster) -> None:
    slot = slots.slot("lock:x")
    with Lockwork(moving.url) as holder, Lockwork(moving.url) as other:
        grant = holder.lock("x").acquire()
        waiting = Waiting(other.lock("x").acquire)
        until(lambda: hears(moving, other, "lock:x"), "it is subscribed")
        for to in (moving.nodes[1], moving.nodes[2], moving.nodes[0], moving.nodes[1]):
            moving.move(slot, to)
            until(lambda: hears(moving, other, "lock:x"), "it hears at the new owner", 3)
        since = time.monotonic()
        grant.release()
        assert waiting.late(since) < ONCE


def half_moved(cluster: Cluster, tag: str) -> Callable[[], None]:
    """Move the keys of a slot, but not the slot; return a function that moves the slot."""
    slot = slots.slot(tag)
    source = cluster.owner(slot)
    to = next(node for node in cluster.nodes[:3] if node is not source)
    begin_move(source, to, slot)
    keys = source.client.execute_command("CLUSTER", "GETKEYSINSLOT", slot, 100)
    source.client.execute_command("MIGRATE", "127.0.0.1", to.port, "", 0, 5000, "KEYS", *keys)
    return lambda: end_move(cluster, to, slot)


def test_message_finds_its_waiter_while_the_slot_is_under_way(moving: Cluster) -> None:
    """The script runs on a node without sharded subscribers, so it publishes to the process, on all nodes."""
    gate = threading.Event()
    with Lockwork(moving.url) as app, Lockwork(moving.url) as other:
        runs = Waiting(lambda: app.once("x", every="1h").run(gate.wait))
        until(lambda: app.once("x", every="1h").inspect().state == "running", "it runs")
        waiting = Waiting(lambda: other.once("x", every="1h").run(gate.wait))
        until(lambda: hears(moving, other, "once:x"), "it is subscribed")
        time.sleep(0.3)
        finish = half_moved(moving, "once:x")
        since = time.monotonic()
        gate.set()
        assert waiting.late(since) < ONCE
        runs.late(since)
        finish()


@pytest.mark.parametrize("looks_again", [True, False])
def test_waiters_look_again_when_the_slot_has_moved(
    moving: Cluster, monkeypatch: pytest.MonkeyPatch, looks_again: bool
) -> None:
    """The end is published on the old node only; the waiter sees it at once, not at its next poll in five seconds."""
    gate = threading.Event()
    with Lockwork(moving.url) as app, Lockwork(moving.url) as other:
        other.runtime.engine._own.clear()  # the app is subscribed by slot only
        runs = Waiting(lambda: app.once("x", every="1h").run(gate.wait))
        until(lambda: app.once("x", every="1h").inspect().state == "running", "it runs")
        waiting = Waiting(lambda: other.once("x", every="1h").run(gate.wait))
        until(lambda: hears(moving, other, "once:x"), "it is subscribed")
        time.sleep(3.6)  # the waiter has polled four times; the next poll is after 3.2 s
        if not looks_again:
            monkeypatch.setattr(Mailboxes, "wake", lambda *_: None)
        finish = half_moved(moving, "once:x")
        gate.set()
        runs.late(0)
        since = time.monotonic()
        finish()
        assert (waiting.late(since) < 0.5) == looks_again


@pytest.mark.parametrize("how", ["asked", "killed", "hung"])
def test_waiters_follow_a_failover(moving: Cluster, how: str) -> None:
    primary = moving.owner(slots.slot("lock:x"))
    replica = moving.nodes[moving.nodes.index(primary) + 3]
    with Lockwork(moving.url, patience=30, lock_lease=15) as holder, Lockwork(moving.url, patience=30) as other:
        grant = holder.lock("x").acquire()
        waiting = Waiting(other.lock("x").acquire)
        until(lambda: hears(moving, other, "lock:x"), "it is subscribed")
        primary.client.incr("{lock:x}written")
        assert primary.client.wait(1, 5000) == 1
        if how == "asked":
            replica.client.execute_command("CLUSTER", "FAILOVER")
        else:
            primary.signal(signal.SIGKILL if how == "killed" else signal.SIGSTOP)
        until(lambda: replica.client.role()[0] == "master", "the replica takes over")
        until(lambda: subscribed(replica, other, "lock:x"), "it hears at the new primary", 5)
        since = time.monotonic()
        grant.release()
        assert waiting.late(since) < ONCE
        primary.signal(signal.SIGCONT) if how == "hung" else None


@pytest.mark.parametrize("missing", [("ssubscribe", "spublish"), ("spublish",), ("ssubscribe",), ("pubsub",)])
def test_servers_and_users_without_sharded_channels(tmp_path: Path, missing: tuple[str, ...]) -> None:
    """Without sharded channels, as before Redis 7, messages reach each process's own channel on any node."""
    with clustered(tmp_path / "nodes") as cluster:
        for node in cluster.nodes:
            node.client.execute_command("ACL", "SETUSER", "watcher", "on", "nopass", "~*", "&*", "+@all")
            node.client.execute_command("ACL", "SETUSER", "default", *(f"-{command}" for command in missing))
            node.client.execute_command("AUTH", "watcher", "any")
        with Lockwork(cluster.url) as holder, Lockwork(cluster.url) as other:
            for name in names_everywhere(cluster, "lock"):
                grant = holder.lock(name).acquire()
                waiting = Waiting(other.lock(name).acquire)
                until(lambda name=name: holder.lock(name).inspect().waiters == 1, "it waits")  # type: ignore[misc]
                until(lambda: any(listening(cluster, other.runtime.channel)), "it is subscribed")
                since = time.monotonic()
                grant.release()
                assert waiting.late(since) < 2 * ONCE, "its first check, or the message"


def test_holder_of_a_forced_lock_is_notified(still: Cluster) -> None:
    """Holders do not subscribe by slot: notifications reach their process from any node."""
    lost = threading.Event()
    with Lockwork(still.url) as holder, Lockwork(still.url) as other:
        for name in names_everywhere(still, "lock"):
            lost.clear()
            holder.lock(name, lease="1h", on_lost=lambda _: lost.set()).acquire()
            until(lambda: any(listening(still, holder.runtime.channel)), "it is subscribed")
            assert other.lock(name).force_release()
            assert lost.wait(2)


def listening(cluster: Cluster, channel: str) -> list[int]:
    """Return the number of subscribers of a process's channel, by node."""
    return [node.client.pubsub_numsub(channel)[0][1] for node in cluster.nodes[:3]]


def subscribed(node: Node, app: Lockwork, tag: str) -> bool:
    """Return True if this node has a subscription of the app for the tag."""
    return f"{app.runtime.channel}{{{tag}}}" in node.client.execute_command("PUBSUB", "SHARDCHANNELS")
