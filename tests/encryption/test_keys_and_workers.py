"""Rotation, missing keys, mixed fleets, and jobs that others have put into a queue."""

from __future__ import annotations

import time
from typing import Any

import pytest

from clients import client_of
from encryption.codecs_of_tests import KEYS, NEW, OLD, SECRET, aes, everything, hmac, record, served
from lockwork import JobFailed, Lockwork
from lockwork.contrib.cryptography import AesGcmCodec
from lockwork.testing import worker
from processes import until

CODECS: dict[str, Any] = {"encrypted": aes, "signed": hmac}
codecs = pytest.mark.parametrize("codec", CODECS.values(), ids=CODECS)


def echo(card: str) -> str:
    return card


def app(url: str, codec: Any = None, **settings: Any) -> Lockwork:
    lw = Lockwork(url, codec=codec, app_name="shop", **settings)
    lw.task(name="echo")(echo)
    return lw


def task(lw: Lockwork) -> Any:
    return lw.registry.get("echo")


@codecs
def test_new_key_is_used_and_old_jobs_still_run(codec: Any, own_url: str) -> None:
    with app(own_url, codec(**OLD)) as before:
        waiting = task(before).enqueue("waiting")
    with served(app(own_url, codec(**NEW, **OLD))) as lw:
        assert lw.job(waiting.id).result(30) == "waiting"
        new = task(lw).options(delay="1h").enqueue("new")
        assert b"~new." in record(own_url, new.id)
        assert lw.jobs(text="~new.").jobs[0].id == new.id
        assert not lw.jobs(text="~old.", state="scheduled").jobs


@codecs
def test_job_with_unknown_key_waits_for_a_worker_that_has_it(codec: Any, own_url: str, caplog: Any) -> None:
    with app(own_url, codec(**NEW, **OLD)) as producer, app(own_url, codec(**OLD)) as without:
        job = task(producer).enqueue(SECRET)
        with worker(without, grace=0):
            until(lambda: "returns to queue default, uncounted" in caplog.text, "the job is returned")
            assert "with key 'new'" in caplog.text
            until(lambda: job.state() == "scheduled", "it waits for another worker")
            with worker(producer, grace=0):
                assert job.result(30) == SECRET
    assert job.id not in everything(own_url).decode(errors="replace").split(KEYS.parked)[0].partition("parked")[2]


def test_worker_without_codec_returns_encrypted_jobs(own_url: str, caplog: Any) -> None:
    with app(own_url, aes()) as producer, app(own_url) as plain:
        ours, theirs = task(producer).enqueue(SECRET), task(plain).enqueue("plain")
        with worker(plain, grace=0):
            assert theirs.result(30) == "plain"
            until(lambda: "this app has no codec" in caplog.text, "the job is returned")
            assert (ours.state(), plain.queue().status().dead) == ("scheduled", 0)
        plain_again = task(plain).options(delay="1h").enqueue("x")
        plain_again.delete()
        with worker(producer, grace=0):
            assert ours.result(30) == SECRET


@codecs
def test_job_whose_key_nobody_has_is_dead_after_a_time_and_can_be_saved(codec: Any, own_url: str) -> None:
    with app(own_url, codec(**NEW)) as producer:
        job = task(producer).enqueue(SECRET)
    with app(own_url, codec(**OLD), unknown_task_ttl=0) as without:
        # the producer has announced its version of the task: it may have a worker
        with client_of(own_url) as client:
            client.delete("lw:{apps}", *client.keys("lw:*apps*"))
        with worker(without, grace=0):
            until(lambda: without.queue().status().dead == 1, "the job is dead")
        error = without.job(job.id).error()
        assert error is not None
        assert error.type == "PayloadKeyUnknown"
        assert "with key 'new'" in error.text
    with served(app(own_url, codec(**OLD, **NEW))) as lw:
        assert lw.job(job.id).retry()
        assert lw.job(job.id).result(30) == SECRET


@codecs
def test_plain_job_is_dead_with_a_clear_reason(codec: Any, own_url: str) -> None:
    ran: list[str] = []
    with Lockwork(own_url) as stranger:
        job = stranger.task(name="echo", retries=5)(echo).enqueue("rm -rf")
    lw = Lockwork(own_url, codec=codec())
    lw.task(name="echo", retries=5)(ran.append)
    with served(lw):
        found = lw.job(job.id)
        with pytest.raises(JobFailed, match="is not (encrypted|signed), and this app requires that"):
            found.result(30)
        assert found.state() == "dead"
        error = found.error()
        assert error is not None
        assert error.type == "PayloadRejected"
    assert not ran


@codecs
def test_job_copied_to_another_id_task_or_queue_does_not_run(codec: Any, own_url: str) -> None:
    ran: list[str] = []
    lw = Lockwork(own_url, codec=codec())
    pay = lw.task(name="pay")(ran.append)
    lw.task(name="refund")(ran.append)
    lw.task(name="other", queue="other")(ran.append)
    with lw:
        job = pay.options(delay="1h").enqueue(SECRET)
        stored = record(own_url, job.id)
        with client_of(own_url) as client:
            other = KEYS.base.replace("q:default", "q:other")
            client.hset(f"{other}:jobs", job.id, stored)
            client.rpush(f"{other}:ready:1", job.id)
            for id, forged in (("A" * 16, stored), (job.id[:-1] + "z", stored.replace(b'"pay"', b'"refund"'))):
                client.hset(KEYS.jobs, id, forged)
                client.rpush(KEYS.ready[1], id)
        with worker(lw, grace=0):
            until(lambda: lw.queue().status().dead == 2, "both are dead")
            until(lambda: lw.queue("other").status().dead == 1, "the copy is dead")
        assert not ran
        assert job.state() == "scheduled"


@codecs
def test_introduction_in_three_steps(codec: Any, own_url: str) -> None:
    """Old processes know no codec; then all read, then all write, then plain payloads are refused."""
    with app(own_url) as old, app(own_url, codec(), codec_rollout="read") as reads:
        plain = task(reads).enqueue("plain")
        assert b"plain" in record(own_url, plain.id)
        with worker(old, grace=0):
            assert reads.job(plain.id).result(30) == "plain"
        with app(own_url, codec(), codec_rollout="write") as writes:
            sealed, plain = task(writes).enqueue(SECRET), task(reads).enqueue("plain")
            with worker(reads, grace=0):
                assert (sealed.result(30), plain.result(30)) == (SECRET, "plain")
                assert writes.job(plain.id).result(0) == "plain"
            sealed, plain = task(writes).enqueue(SECRET), task(reads).enqueue("plain")
            with worker(writes, grace=0):
                assert (sealed.result(30), plain.result(30)) == (SECRET, "plain")
            last = task(writes).enqueue(SECRET)
            with app(own_url, codec()) as strict, worker(strict, grace=0):
                assert strict.job(last.id).result(30) == SECRET


def test_signed_jobs_become_encrypted_jobs(own_url: str) -> None:
    with app(own_url, hmac()) as before:
        signed = task(before).enqueue("signed")
    with served(app(own_url, aes(), codec_rollout="write")) as lw:
        assert lw.job(signed.id).result(30) == "signed"


def test_signed_job_runs_in_a_worker_without_codec(own_url: str) -> None:
    with app(own_url, hmac()) as signing, served(app(own_url)) as plain:
        job = task(signing).options(tags=["x"]).enqueue("signed")
        assert plain.job(job.id).result(30) == "signed"


def test_codec_of_one_queue(own_url: str) -> None:
    lw = Lockwork(own_url, codec={"partners": hmac()})
    ours, theirs = lw.task(name="ours")(echo), lw.task(name="theirs", queue="partners")(echo)
    with Lockwork(own_url) as stranger:
        forged = stranger.task(name="theirs", queue="partners")(echo).enqueue("forged")
        plain = stranger.task(name="ours")(echo).enqueue("plain")
    with served(lw, "default", "partners"):
        assert ours.enqueue("a").result(30) == "a"
        assert theirs.enqueue("b").result(30) == "b"
        assert lw.job(plain.id, "default").result(30) == "plain"
        with pytest.raises(JobFailed, match="is not signed"):
            lw.job(forged.id, "partners").result(30)


class KeyServer:
    """A codec whose key server is away at first."""

    key_ids = ("a",)

    def __init__(self) -> None:
        self.away = True
        self.asked = 0

    def encode(self, payload: bytes, context: bytes) -> bytes:
        return payload[::-1]

    def decode(self, data: bytes, context: bytes, key_id: str) -> bytes:
        self.asked += 1
        if self.away:
            raise OSError("the key server is away")
        return data[::-1]


def test_job_waits_while_its_codec_fails(own_url: str, caplog: Any) -> None:
    codec = KeyServer()
    with served(app(own_url, codec)) as lw:
        job = task(lw).enqueue(SECRET)
        until(lambda: codec.asked > 1, "the job was tried twice")
        assert job.state() in ("scheduled", "ready", "running")
        codec.away = False
        assert job.result(30) == SECRET
        assert job.inspect().timeline[-1].number == 1
    assert "the codec failed: OSError" in caplog.text


def test_redelivered_job_is_readable(own_url: str) -> None:
    """A delivery ends with its worker; the next one reads the same record."""
    lw = Lockwork(own_url, codec=aes())
    starts: list[float] = []

    async def slow(card: str) -> str:
        import asyncio

        starts.append(time.monotonic())
        if len(starts) == 1:
            await asyncio.sleep(60)
        return card

    slow_task = lw.task(name="slow")(slow)
    with lw:
        job = slow_task.enqueue(SECRET)
        with worker(lw, grace=0):
            until(lambda: starts, "the job has started")
        with worker(lw, grace=0):
            assert job.result(30) == SECRET
    assert len(starts) == 2


def test_forked_processes_use_different_nonces() -> None:
    import os

    codec = AesGcmCodec(OLD)
    codec.encode(b"x", b"")
    read, write = os.pipe()
    if (pid := os.fork()) == 0:
        os.write(write, codec.encode(b"x", b""))
        os._exit(0)
    ours = codec.encode(b"x", b"")
    os.waitpid(pid, 0)
    theirs = os.read(read, 100)
    os.close(read)
    os.close(write)
    assert ours[:12] != theirs[:12]
