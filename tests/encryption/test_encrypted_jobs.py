"""Nothing that an encrypted job stores is readable on the server, and each reader of the app gets it."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from clients import client_of
from encryption.codecs_of_tests import KEYS, NEW, OLD, SECRET, aes, everything, hmac, record, served
from lockwork import JobFailed, Lockwork, PayloadTooLarge, ResultUnavailable, current_job, current_jobs
from lockwork.errors import ConfigError, OnceFailed, PayloadKeyUnknown
from lockwork.ids import node_id
from lockwork.jobs.job import shown_snapshot
from lockwork.protocol.keys import QueueKeys
from lockwork.protocol.queue.envelope import ENCRYPTED
from lockwork.testing import worker
from lockwork.types import JobFailure
from processes import until

CODECS: dict[str, Any] = {"encrypted": aes, "signed": hmac}


class Declined(Exception):
    def __init__(self, card: str) -> None:
        super().__init__(f"declined {card}")
        self.card = card


class Shop:
    """An app with a codec, and a worker."""

    def __init__(self, lw: Lockwork, url: str, *, encrypts: bool) -> None:
        self.lw, self.url, self.encrypts = lw, url, encrypts
        lw.error_type(Declined)
        self.echo = lw.task(name="echo")(echo)
        self.decline = lw.task(name="decline", retries=0)(decline)
        self.noted = lw.task(name="noted", retries=1, backoff=0)(noted)

    def check_secret(self) -> None:
        """Fail if the server has a value, or, with signatures, if it has none."""
        assert (SECRET.encode() in everything(self.url)) is not self.encrypts


def echo(card: str, *, to: str = "") -> str:
    return card + to


def decline(card: str) -> None:
    raise Declined(card)


def noted(card: str) -> str:
    job = current_job()
    job.progress({"card": card})
    job.checkpoint("charged", card)
    if job.attempt == 1:
        raise ValueError(card)
    return str(job.checkpoints["charged"])


@pytest.fixture(params=CODECS)
def shop(request: pytest.FixtureRequest, own_url: str) -> Iterator[Shop]:
    with served(Lockwork(own_url, codec=CODECS[request.param]())) as lw:
        yield Shop(lw, own_url, encrypts=request.param == "encrypted")


def test_arguments_and_result(shop: Shop) -> None:
    job = shop.echo.options(delay="1h", tags=["vip"]).enqueue(SECRET, to="-x")
    shop.check_secret()
    assert b'"tags":["vip"]' in record(shop.url, job.id)
    details = job.inspect()
    assert (details.args, details.kwargs, details.tags) == ((SECRET,), {"to": "-x"}, ("vip",))
    assert details.encrypted is shop.encrypts
    assert details.size == len(record(shop.url, job.id))
    job.reschedule(delay=0)
    assert job.result(30) == SECRET + "-x"
    shop.check_secret()
    assert shop.lw.job(job.id).result(0) == job.inspect().result == SECRET + "-x"


def test_result_without_value(shop: Shop) -> None:
    task = shop.lw.task(name="nothing")(lambda: None)
    assert task.enqueue().result(30) is None


def test_many_jobs(shop: Shop) -> None:
    jobs = shop.echo.enqueue_many([(f"{SECRET}{number}",) for number in range(1200)])
    assert shop.lw.gather(jobs, timeout=60) == [f"{SECRET}{number}" for number in range(1200)]
    shop.check_secret()


async def test_asyncio(own_url: str) -> None:
    with served(Lockwork(own_url, codec=aes())) as lw:
        task = lw.task(name="echo")(echo)
        first, others = await task.aenqueue(SECRET), await task.aenqueue_many([(SECRET,), (SECRET,)])
        assert await first.aresult(30) == SECRET
        assert await lw.agather(others, timeout=30) == [SECRET] * 2
        assert (await first.ainspect()).result == SECRET
    assert SECRET.encode() not in everything(own_url)


def test_error_of_failed_job(shop: Shop, caplog: pytest.LogCaptureFixture) -> None:
    job = shop.decline.enqueue(SECRET)
    with pytest.raises(Declined) as caught:
        job.result(30)
    assert (caught.value.card, str(caught.value)) == (SECRET, f"declined {SECRET}")
    failed = caught.value.__cause__
    assert isinstance(failed, JobFailed)
    assert (failed.type, failed.text) == ("Declined", f"declined {SECRET}")
    assert "in decline" in failed.traceback
    error = job.error()
    assert error is not None
    assert (error.type, error.text) == ("Declined", f"declined {SECRET}")
    shop.check_secret()
    assert (SECRET in caplog.text) is not shop.encrypts
    assert "Declined: (encrypted)" in caplog.text or not shop.encrypts
    assert "in decline" in caplog.text


def test_progress_checkpoints_and_retry(shop: Shop) -> None:
    job = shop.noted.enqueue(SECRET)
    assert job.result(30) == SECRET
    assert job.progress() == {"card": SECRET}
    assert list(job.watch()) == [{"card": SECRET}]
    shop.check_secret()


def test_error_while_a_job_waits_for_its_next_attempt(shop: Shop) -> None:
    again = shop.lw.task(name="again", retries=1, backoff=3600)(decline)
    job = again.enqueue(SECRET)
    until(lambda: job.state() == "scheduled", "the first attempt has failed")
    details = job.inspect()
    assert details.error is not None
    assert details.error.text == f"declined {SECRET}"
    assert details.timeline[0].error == details.error
    with pytest.raises(TimeoutError, match=f"attempt 1 of 2 failed: Declined: declined {SECRET}"):
        job.result(0)
    shop.check_secret()


def test_long_text_of_an_error_is_cut_while_the_job_waits(own_url: str) -> None:
    with served(Lockwork(own_url, codec=aes())) as lw:
        job = lw.task(name="again", retries=1, backoff=3600)(decline).enqueue(SECRET + "é" * 2000)
        until(lambda: job.state() == "scheduled", "the first attempt has failed")
        error = job.inspect().error
        assert error is not None
        assert error.text.startswith(f"declined {SECRET}é")
        assert len(error.text.encode()) in (149, 150)


def test_unique_job_that_replaces_another(shop: Shop) -> None:
    task = shop.lw.task(name="latest", unique="card", on_duplicate="replace")(echo)
    first = task.options(delay="1h").enqueue("first")
    second = task.options(delay="1h").enqueue(SECRET)
    assert (second.id, second.arrival) == (first.id, "moved")
    second.reschedule(delay=0)
    assert second.result(30) == SECRET
    shop.check_secret()


def test_unique_and_keyed_jobs(shop: Shop) -> None:
    task = shop.lw.task(name="keyed", unique=True, key="k", group="g")(echo)
    job = task.options(delay="1h").enqueue(SECRET)
    assert not task.enqueue(SECRET).new
    job.reschedule(delay=0)
    assert job.result(30) == SECRET


def test_flow(shop: Shop) -> None:
    flow = shop.lw.flow()
    first: Any = flow.add(shop.echo.call(SECRET))
    second = flow.add(shop.echo.call(first, to="!"))
    run = flow.returning([second, first]).enqueue()
    assert run.result(30) == [SECRET + "!", SECRET]
    assert run.job(second).result(30) == SECRET + "!"
    assert run.job(2).inspect().args is not None
    shop.check_secret()


def test_error_as_an_argument(own_url: str, shop: Shop) -> None:
    """Also from another queue, whose errors are bound to it."""
    failures: list[JobFailure] = []

    def alert(failure: JobFailure) -> None:
        failures.append(failure)

    with served(Lockwork(own_url, codec=shop.lw.config.codec), "other") as lw:
        task = lw.task(name="alert", queue="other")(alert)
        job = shop.decline.options(on_error=task).enqueue(SECRET)
        there = lw.task(name="declines", queue="other", retries=0)(decline).options(on_error=task).enqueue(SECRET)
        until(lambda: len(failures) == 2, "the alerts have run")
        assert {each.text for each in failures} == {f"declined {SECRET}"}
        assert {(each.id, each.queue) for each in failures} == {(job.id, job.queue), (there.id, "other")}
        shop.check_secret()


def test_compensation_and_failed_flow(shop: Shop) -> None:
    undone: list[str] = []
    undo = shop.lw.task(name="undo")(undone.append)
    flow = shop.lw.flow()
    first: Any = flow.add(shop.echo.call(SECRET), compensate=undo)
    flow.add(shop.decline.call(first), on_failure="compensate")
    run = flow.enqueue()
    with pytest.raises(JobFailed, match=f"declined {SECRET}"):
        run.result(30)
    until(lambda: undone == [SECRET], "the compensation has run")
    shop.check_secret()


def test_flow_across_queues(own_url: str, shop: Shop) -> None:
    undone: list[str] = []
    with served(Lockwork(own_url, codec=shop.lw.config.codec), "other") as lw:
        lw.error_type(Declined)
        here, undo = lw.task(name="echo")(echo), lw.task(name="undo", queue="other")(undone.append)
        there = lw.task(name="other", queue="other")(echo)
        declines = lw.task(name="declines", queue="other", retries=0)(decline)
        flow = lw.flow(on_failure="compensate")
        first: Any = flow.add(here.call(SECRET), compensate=undo)
        second: Any = flow.add(there.call(first, to="!"))
        last = flow.add(here.call(second, to="?"))
        assert flow.returning([last, second]).enqueue().result(30) == [SECRET + "!?", SECRET + "!"]
        flow.add(declines.call(second))
        run = flow.returning(second).enqueue()
        for found in (run, lw.flow(id=run.id, queue="other")):
            with pytest.raises(JobFailed, match=f"declined {SECRET}!"):
                found.result(30)
        assert undone == [SECRET]
        shop.check_secret()


def test_result_of_a_flow_cannot_be_moved_to_another_job(own_url: str) -> None:
    with Lockwork(own_url, codec=aes()) as lw:
        task = lw.task(name="echo", retries=0)(echo)
        flow = lw.flow()
        first, second = flow.add(task.call("one")), flow.add(task.call("two"))
        third = flow.add(task.options(delay="1s").call(first, to=second))  # type: ignore[arg-type]
        run = flow.returning(third).enqueue()
        with served(lw):
            lw.gather([run.job(first), run.job(second)], timeout=30)
            with client_of(own_url) as client:
                field, other = f"{run.id} r1", f"{run.id} r2"
                stored = client.hget(KEYS.flows, other)
                assert isinstance(stored, bytes)
                client.hset(KEYS.flows, field, stored)
            with pytest.raises(JobFailed, match="changed, or moved from another job"):
                run.result(30)
            assert node_id(run.id, 1) in str(run.job(third).error())


def test_schedule_in_code(own_url: str) -> None:
    ran: list[str] = []
    lw = Lockwork(own_url, codec=aes())
    task = lw.task(name="report")(ran.append)
    lw.schedule(task.call(SECRET), name="report", every="1s")
    with served(lw):
        until(lambda: ran, "a slot has fired")
        job = lw.schedule("report").run_now()
        assert job is not None
        assert job.result(30) is None
        assert SECRET.encode() not in everything(own_url)
    assert set(ran) == {SECRET}


def test_schedule_created_at_run_time(shop: Shop) -> None:
    ran: list[str] = []
    task = shop.lw.task(name="later")(ran.append)
    moment = datetime.now(UTC) + timedelta(seconds=1)
    shop.lw.create_schedule(task.call(SECRET), name="later:1", at=moment)
    shop.check_secret()
    handle = shop.lw.create_schedule(task.call("x"), name="later:2", every="1h")
    job = handle.run_now()
    assert job is not None
    assert job.result(30) is None
    until(lambda: sorted(ran) == [SECRET, "x"], "the moment has come")


def test_schedule_is_stored_again_only_if_its_call_or_its_key_changes(own_url: str) -> None:
    stored: list[bytes] = []
    for codec, card in ((aes(), "a"), (aes(), "a"), (aes(), "b"), (aes(**NEW, **OLD), "b"), (None, "b")):
        with Lockwork(own_url, codec=codec) as lw, client_of(own_url) as client:
            lw.create_schedule(lw.task(name="report")(echo).call(card), name="report", every="1h")
            found = client.hget(KEYS.created, "rreport")
            assert isinstance(found, bytes)
            stored.append(found)
    assert stored[0] == stored[1]
    assert len(set(stored)) == 4
    assert [b"~new/schedule." in each for each in stored] == [False, False, False, True, False]
    assert stored[4].endswith(b'["b"]]')


def test_stock_and_lock_with_jobs(shop: Shop) -> None:
    phones = shop.lw.stock("phone", 3)
    reservation = phones.reserve("ann", enqueue=shop.echo.call(SECRET))
    job = shop.lw.job(reservation.id)
    assert job.result(30) == SECRET
    with shop.lw.queue().lock("l") as grant:
        after = grant.release_and_enqueue(shop.echo.call(SECRET, to="2"))
    assert after.result(30) == SECRET + "2"
    shop.check_secret()


def test_once(shop: Shop) -> None:
    once = shop.lw.once("report", "1d")
    assert once.run(lambda: SECRET) == once.run(lambda: "again") == SECRET
    shop.check_secret()
    failing = shop.lw.once("failing", "1d")
    with pytest.raises(Declined):
        failing.run(decline, SECRET)
    with pytest.raises(OnceFailed, match=f"declined {SECRET}"):
        failing.run(decline, SECRET)
    shop.check_secret()


def test_result_of_once_cannot_be_moved_to_another_name(own_url: str) -> None:
    with Lockwork(own_url, codec=aes()) as lw, client_of(own_url) as client:
        lw.once("one", "1d").run(lambda: 1)
        lw.once("two", "1d").run(lambda: 2)
        one, two = sorted(key for key in client.scan_iter() if b"once:" in key)
        client.copy(two, one, replace=True)
        with pytest.raises(ResultUnavailable, match="changed, or moved"):
            lw.once("one", "1d").run(lambda: 3)


def test_batch_task(shop: Shop) -> None:
    @shop.lw.task(name="batch", batch=3, linger="1ms")
    def batch(cards: list[str]) -> list[str]:
        for job, card in zip(current_jobs(), cards, strict=True):
            job.progress(card)
        return [card.upper() for card in cards]

    jobs = batch.enqueue_many([(SECRET + number,) for number in "123"])
    assert shop.lw.gather(jobs, timeout=30) == [(SECRET + number).upper() for number in "123"]
    assert jobs[0].progress() == SECRET + "1"
    if shop.encrypts:
        assert SECRET.upper().encode() not in everything(shop.url)


@pytest.mark.parametrize("codec", CODECS.values())
def test_partitions(codec: Any, own_url: str) -> None:
    with served(Lockwork(own_url, codec=codec(), partitions={"default": 3})) as lw:
        task = lw.task(name="echo")(echo)
        jobs = [*task.enqueue_many([(SECRET,)] * 20), task.options(key="k").enqueue(SECRET)]
        assert lw.gather(jobs, timeout=30) == [SECRET] * 21
        assert lw.job(jobs[5].id).inspect().args == (SECRET,)


def test_job_moved_to_another_partition_is_readable(own_url: str) -> None:
    with Lockwork(own_url, codec=aes(), partitions={"mail": 2}) as lw:
        job = lw.task(name="echo", queue="mail")(echo).enqueue(SECRET)
        payloads = lw.runtime.payloads
        assert payloads is not None
        stored = record(own_url, job.id, QueueKeys("lw", job.queue))
        for name in ("mail", "mail/0", "mail/1"):
            assert SECRET.encode() in payloads.open_call(name, job.id, stored)


def test_dead_job_runs_again_under_its_id(shop: Shop) -> None:
    job = shop.decline.enqueue(SECRET)
    until(lambda: job.state() == "dead", "the job is dead")
    assert job.retry()
    until(lambda: job.state() == "dead" and job.attempts() == 1, "the job is dead again")
    assert job.inspect().args == (SECRET,)
    assert shop.lw.queue().dead.retry(job.id)
    until(lambda: job.state() == "dead", "the job is dead again")
    error = job.error()
    assert error is not None
    assert error.type == "Declined"


def test_late_job_runs_when_it_is_retried(own_url: str) -> None:
    for codec in CODECS.values():
        with Lockwork(own_url, codec=codec()) as lw:
            task = lw.task(name="echo", retries=1)(echo)
            jobs = [task.options(retry_until="1ms").enqueue(SECRET) for _ in range(2)]
            time.sleep(0.01)
            with worker(lw):
                until(lambda jobs=jobs: all(job.state() == "dead" for job in jobs), "they are late")  # type: ignore[misc]
                error = jobs[0].error()
                assert error is not None
                assert error.type == "RetryUntilPassed"
                assert jobs[0].retry()
                assert lw.queue().dead.retry(jobs[1].id)
                assert [job.result(30) for job in jobs] == [SECRET] * 2


def test_compensation_may_have_a_deadline(shop: Shop) -> None:
    undone: list[str] = []
    undo = shop.lw.task(name="undo", retry_until="1h")(undone.append)
    flow = shop.lw.flow()
    first: Any = flow.add(shop.echo.call(SECRET), compensate=undo)
    flow.add(shop.decline.call(first), on_failure="compensate")
    run = flow.enqueue()
    with pytest.raises(JobFailed):
        run.result(30)
    until(lambda: undone == [SECRET], "the compensation has run")


def test_cancelled_job_runs_again(shop: Shop) -> None:
    job = shop.echo.options(delay="1h").enqueue(SECRET)
    assert job.cancel()
    assert job.inspect().args == (SECRET,)
    assert job.retry()
    assert job.result(30) == SECRET
    shop.check_secret()


def test_large_arguments_and_results(shop: Shop) -> None:
    large = SECRET + "x" * ((1 << 20) - 200)
    assert shop.echo.enqueue(large).result(30) == large
    with pytest.raises(PayloadTooLarge):
        shop.echo.enqueue(large + "x" * 200)


def test_middleware_headers_and_hooks(shop: Shop) -> None:
    seen: list[Any] = []

    @shop.lw.enqueue_middleware
    def tracing(outgoing: Any) -> Iterator[None]:
        outgoing.headers["trace"] = "t1"
        yield

    shop.lw.hooks.enqueue(lambda event: seen.append((event.args, event.kwargs)))
    shop.lw.hooks.success(lambda event: seen.append(event.result))
    traced = shop.lw.task(name="traced")(lambda card: current_job().headers["trace"] + card)
    assert traced.enqueue(SECRET).result(30) == "t1" + SECRET
    until(lambda: len(seen) == 2, "both hooks were called")
    # the job may have ended before the hook of its enqueue is called
    assert sorted(seen, key=str) == [([SECRET], {}), "t1" + SECRET]


def test_job_that_waits_for_a_commit(shop: Shop) -> None:
    waiting: list[Any] = []
    job = shop.echo.on_commit(waiting.append).enqueue(SECRET)
    for callback in waiting:
        callback()
    assert job.result(30) == SECRET
    shop.check_secret()


class Fragile:
    """A codec whose key server fails after the first payload."""

    key_ids = ("a",)
    left = 1

    def encode(self, payload: bytes, context: bytes) -> bytes:
        self.left -= 1
        if self.left < 0:
            raise OSError("away")
        return payload[::-1]

    def decode(self, data: bytes, context: bytes, key_id: str) -> bytes:
        return data[::-1]


def test_result_that_cannot_be_encrypted_is_not_stored(own_url: str, caplog: pytest.LogCaptureFixture) -> None:
    with served(Lockwork(own_url, codec=Fragile())) as lw:
        job = lw.task(name="echo")(echo).enqueue(SECRET)
        with pytest.raises(JobFailed, match="the codec failed: OSError"):
            job.result(30)
        assert job.state() == "dead"
        with pytest.raises(ConfigError, match="cannot be encrypted"):
            lw.task(name="other")(echo).enqueue(SECRET)
    stored = everything(own_url)
    assert SECRET.encode() not in stored
    assert "ran, but goes to the dead set" in caplog.text


def test_app_without_codec_says_what_is_missing(own_url: str) -> None:
    with served(Lockwork(own_url, codec=aes())) as lw, Lockwork(own_url) as plain:
        done = lw.task(name="echo")(echo).enqueue(SECRET)
        done.result(30)
        failed = lw.task(name="decline", retries=0)(decline).enqueue(SECRET)
        until(lambda: failed.state() == "dead", "the job is dead")
        with pytest.raises(ResultUnavailable, match="is encrypted, and this app has no codec"):
            plain.job(done.id).result(0)
        with pytest.raises(JobFailed) as caught:
            plain.job(failed.id).result(0)
        assert (caught.value.type, caught.value.text) == ("Declined", "(encrypted)")
        details = plain.job(failed.id).inspect()
        assert (details.args, details.kwargs, details.encrypted, details.task) == (None, None, True, "decline")
        assert details.error is not None
        assert details.error.text == ENCRYPTED
        assert plain.job(done.id).inspect().result == ENCRYPTED
        assert shown_snapshot(failed) == details
        once = lw.once("report", "1d")
        once.run(lambda: SECRET)
        with pytest.raises(ResultUnavailable, match="the result of once"):
            plain.once("report", "1d").run(lambda: "again")


def test_unverified_values_are_not_returned(own_url: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.ERROR)
    with served(Lockwork(own_url, codec=hmac())) as lw, client_of(own_url) as client:
        job = lw.task(name="echo")(echo).enqueue("x")
        assert job.result(30) == "x"
        client.hset(KEYS.results[0], job.id, b's"forged"')
        with pytest.raises(ResultUnavailable, match="is not signed, and this app requires that"):
            job.result(0)
        assert job.inspect().result == ENCRYPTED
        lw.error_type(Declined)
        dead = lw.task(name="decline", retries=0)(decline).enqueue("x")
        until(lambda: dead.state() == "dead", "the job is dead")
        with pytest.raises(Declined):
            dead.result(0)
        for key in (KEYS.errors, KEYS.results[0]):
            stored = client.hget(key, dead.id)
            assert isinstance(stored, bytes)
            client.hset(key, dead.id, stored.replace(b"declined x", b"declined y"))
        with pytest.raises(JobFailed, match="declined y"):  # as text: no class is rebuilt from it
            dead.result(0)


def test_key_error_is_a_lockwork_error() -> None:
    assert issubclass(PayloadKeyUnknown, Exception)
