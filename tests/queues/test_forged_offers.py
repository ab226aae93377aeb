"""Forged messages to a worker: they run no job, stop no queue, and cost a bounded number of calls."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import redis

from clients import client_of
from commandstats import script_calls
from history import History
from lockwork.protocol.keys import QueueKeys
from processes import until, worker

KEYS = QueueKeys("lw", "default")
_WORDS = (
    "",
    "x",
    "look",
    "1 2",
    "1 2 3 4 5",
    "a b c d e",
    "1 99999999999999999999 ~ id 1,4,,;",
    "\x00",
    " ",
    "9" * 5000,
)


@pytest.fixture
def stranger(url: str) -> Iterator[redis.Redis]:
    """A user who may only publish to the wake channels and subscribe to them."""
    with client_of(url) as admin:
        rights = {"commands": ["+publish", "+psubscribe"], "channels": ["lw:wake:*"]}
        admin.acl_setuser("stranger", enabled=True, passwords=["+secret"], **rights)
        with client_of(url, username="stranger", password="secret") as user:
            yield user
        admin.acl_deluser("stranger")


@pytest.fixture
def own_admin(own_url: str) -> Iterator[redis.Redis]:
    with client_of(own_url) as client:
        yield client


def _asleep(admin: redis.Redis) -> str:
    """Wait until the worker is idle; return its channel."""
    found: Any = until(lambda: admin.zrangebyscore(KEYS.idle_workers, 0, "+inf"), "the worker sleeps")
    name: str = found[0].decode()
    return name


def test_forged_offer_runs_no_job(
    own: Any, own_url: str, own_admin: redis.Redis, stranger: redis.Redis, apps: Path, history: History
) -> None:
    with worker("chores:lw", url=own_url, folder=apps), _ear(stranger) as ear:
        channel = _asleep(own_admin)
        assert own.add.enqueue(1, 2).result(30) == 3  # from now on, the app offers jobs to the idle worker
        _asleep(own_admin)
        ear.psubscribe("lw:wake:*")
        until(lambda: ear.get_message(timeout=0.1) is None and ear.subscribed, "the stranger is subscribed")
        real = own.mark.enqueue(history.path)
        offer = until(lambda: _offer(ear), "the job comes along with the wake-up") or b""
        record = offer[offer.index(b"1,") :]
        history.wait(1)
        fence = (int(time.time()) + 3600) * 1_000_000
        forged = [
            f"{KEYS.jobs} 1 {fence} ~ forged ".encode() + record,
            f"{KEYS.jobs} {'0' * 40} 1 {fence} ~ forged ".encode() + record,
            offer,
            _later(offer),
            offer.replace(real.id.encode(), b"forged"),
        ]
        for text in forged:
            _asleep(own_admin)
            stranger.publish(channel, text)
            # effects of the message would precede this job
            assert own.add.enqueue(1, 2).result(30) == 3
        assert [line["id"] for line in history.lines("ran")] == [real.id]


def _ear(client: Any) -> Any:
    """Subscribe with the rights of this user."""
    return closing(client.pubsub(ignore_subscribe_messages=True))


def _offer(ear: Any) -> bytes | None:
    message = ear.get_message(timeout=0.1)
    text: bytes = message["data"] if message else b""
    return text if text.startswith(KEYS.jobs.encode()) and b" ~ " in text else None


def _later(offer: bytes) -> bytes:
    """Return the offer with a future fence."""
    words = offer.split(b" ")
    at = words.index(b"~") - 1
    words[at] = b"%d" % (int(words[at]) + 3_600_000_000)
    return b" ".join(words)


def test_malformed_message_does_not_stop_a_queue(
    own: Any, own_url: str, own_admin: redis.Redis, stranger: redis.Redis, apps: Path
) -> None:
    with worker("chores:lw", url=own_url, folder=apps) as process:
        for words in _WORDS:
            channel = _asleep(own_admin)
            for ticket in (KEYS.jobs, KEYS.job_notes):
                stranger.publish(channel, f"{ticket} {words}")
            assert own.add.enqueue(1, 2).result(30) == 3, words
        assert "Traceback" not in process.errors


def test_flood_of_hints_costs_bounded_calls(
    own: Any, own_url: str, own_admin: redis.Redis, stranger: redis.Redis, apps: Path
) -> None:
    with worker("chores:lw", url=own_url, folder=apps):
        channel = _asleep(own_admin)
        before, began = script_calls(own_admin), time.monotonic()
        for _ in range(100):
            with stranger.pipeline(transaction=False) as pipe:
                for number in range(100):
                    pipe.publish(channel, f"{KEYS.jobs} {number}" if number % 2 else KEYS.jobs)
                    pipe.publish(channel, f"{KEYS.job_notes} {number}")
                pipe.execute()
        asked, took = script_calls(own_admin) - before, time.monotonic() - began
        assert asked <= 130 + 60 * took, f"{asked} calls for 20,000 messages in {took:.1f} s"
        assert own.add.enqueue(1, 2).result(30) == 3
