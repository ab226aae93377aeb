"""A job for an idle worker is sent with its wake-up: the worker does not fetch it, and the record arrives unchanged."""

from __future__ import annotations

import signal
from contextlib import closing
from pathlib import Path
from typing import Any

import redis

from clients import client_of
from history import History
from lockwork.protocol import messages
from lockwork.protocol.keys import QueueKeys, channel
from lockwork.protocol.queue import enqueue, leases, record_header, sessions
from lockwork.protocol.queue.enqueue import NewJob
from lockwork.protocol.queue.leases import Batch, Leased
from processes import until, worker

KEYS = QueueKeys("lw", "default")


def _asleep(admin: redis.Redis, count: int) -> None:
    until(lambda: admin.zcount(KEYS.idle_workers, 0, "+inf") == count, f"{count} workers sleep")


def _tokens(admin: redis.Redis) -> dict[str, str]:
    """Return the token of each running job."""
    runs: list[Any] = [admin.hgetall(key) for key in admin.scan_iter(KEYS.run("*"))]
    return {id.decode(): token.decode() for run in runs for id, token in run.items()}


def test_idle_worker_is_offered_its_job(own: Any, own_url: str, apps: Path, history: History, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    with client_of(own_url) as admin, worker("chores:lw", url=own_url, folder=apps):
        _asleep(admin, 1)
        assert own.add.enqueue(1, 2).result(30) == 3  # from now on, the app offers jobs to the idle worker
        _asleep(admin, 1)
        job = own.gated.enqueue(history.path, str(gate))
        (began,) = history.wait(1)
        assert _tokens(admin) == {job.id: f"1 {began['fence']} ~"}
        assert own.lw.queue().status().running == 1
        _asleep(admin, 1)  # it has free slots
        gate.touch()
        assert job.result(30) == 1
        assert own.lw.queue().status().running == 0


def test_worker_without_free_slot_gets_no_job(
    own: Any, own_url: str, apps: Path, history: History, tmp_path: Path
) -> None:
    """The worker runs the offered job and is not idle, so the second job goes to another worker."""
    gate = tmp_path / "gate"
    options = ("--concurrency", "1")
    with client_of(own_url) as admin, worker("chores:lw", *options, url=own_url, folder=apps) as one:
        _asleep(admin, 1)
        assert own.add.enqueue(1, 2).result(30) == 3
        _asleep(admin, 1)
        first = own.gated.enqueue(history.path, str(gate))
        history.wait(1)
        second = own.gated.enqueue(history.path, str(gate))
        assert own.lw.queue().status().ready == 1
        with worker("chores:lw", *options, url=own_url, folder=apps) as two:
            history.wait(2)
            assert _tokens(admin).keys() == {first.id, second.id}
            gate.touch()
            assert (first.result(30), second.result(30)) == (1, 1)
            for process in (one, two):
                process.send(signal.SIGTERM)
            assert (one.wait(), two.wait()) == (0, 0)
        assert not admin.exists(KEYS.idle_workers), "no idle worker remains on the list"


def _offered(text: str, fence: int) -> Leased | None:
    """Return the job that a worker reads from a message after an empty fetch with this next fence."""
    return leases.offered(KEYS, Batch([], None, fence, "secret"), text)


def test_offered_record_arrives_unchanged() -> None:
    """A record may contain any bytes."""
    record = b"1,4,,;" + bytes(range(256)) + b" \xff\xfe "
    words = b"1 1800000000000007 ~ j1 " + record
    mark = messages.seal("secret", KEYS.jobs, words.decode(errors="surrogateescape"))
    ticket, text = messages.split(f"{KEYS.jobs} {mark} ".encode() + words)
    assert ticket == KEYS.jobs
    assert _offered(text, 1800000000000007) == Leased("j1", b"1 1800000000000007 ~", record, 1, 1800000000000007)
    assert _offered(text, 1800000000000008) is None, "the worker's fetch has already covered it"
    assert _offered("", 0) is None, "a wake-up may come without a job"


def test_cancelled_offered_job_ends_when_it_is_forwarded(own: Any, own_url: str) -> None:
    """The job was leased again, although its cancellation was requested."""
    run, session = own.lw.runtime.run, "host/1/a"
    keys, its = QueueKeys("lw", "default"), channel("lw", session)
    with client_of(own_url) as admin, closing(admin.pubsub()) as ear:
        ear.subscribe(its)
        assert ear.get_message(timeout=20)
        run(leases.beat(KEYS, {session: True}, 600_000, 1.0))
        asleep = run(leases.reserve(KEYS, session, 1, "r1", its))
        keys.sleeper = its
        run(enqueue.push(keys, [NewJob("j1", record_header.head(1, 4) + b'["work",[1]]')]))
        job = own.lw.job("j1")
        assert _tokens(admin).keys() == {"j1"}, "it is offered"
        assert job.cancel()
        run(sessions.forward_wakeup(KEYS, session, its, asleep.fence, 600_000))
        assert job.state() == "cancelled"
        assert own.lw.queue().status().running == 0
        assert not admin.exists(KEYS.jobs, KEYS.job_notes, KEYS.ready[1], KEYS.run(session))
        assert not run(leases.reserve(KEYS, session, 1, "r2", "")).jobs
