"""Users without channel permissions, as by default since Redis 7: calls work, but send no wake-ups."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing

import pytest
import redis

from lockwork import Lockwork
from lockwork.protocol.keys import QueueKeys, channel
from lockwork.protocol.queue import enqueue, leases
from lockwork.protocol.queue import limits as queue_limits
from lockwork.protocol.queue.enqueue import NewJob
from lockwork.protocol.queue.leases import Outcome
from lockwork.runtime.embedded import Embedded
from processes import until

_KEYS = QueueKeys("lw", "default")
_WORKER = "host/1/a"
_CHANNEL = channel("lw", _WORKER)
_RECORD = b'1,4,,;["work",[1]]'
_WINDOW_MS = 600_000


@pytest.fixture
def app(spoiled: Embedded) -> Iterator[Lockwork]:
    """An app of a user with all rights."""
    with Lockwork(spoiled.url) as made:
        yield made


@pytest.fixture
def mute(spoiled: Embedded, spoil: redis.Redis) -> Iterator[Lockwork]:
    """An app of a user without channels."""
    spoil.acl_setuser(
        "mute", enabled=True, passwords=["+secret"], keys=["*"], categories=["+@all"], reset_channels=True
    )
    with Lockwork(spoiled.url.replace("://", "://mute:secret@", 1)) as made:
        yield made


@pytest.fixture
def asleep(app: Lockwork, spoil: redis.Redis) -> Iterator[None]:
    """Let a worker sleep, subscribed to its channel."""
    with closing(spoil.pubsub()) as ear:  # type: ignore[no-untyped-call]
        ear.subscribe(_CHANNEL)
        assert ear.get_message(timeout=20)
        app.runtime.run(leases.beat(_KEYS, {_WORKER: True}, 600_000, 1.0))
        assert not app.runtime.run(leases.reserve(_KEYS, _WORKER, 1, "r1", _CHANNEL)).jobs
        yield


@pytest.mark.usefixtures("asleep")
@pytest.mark.parametrize("guess", ["", _CHANNEL], ids=["a wake-up", "handed over"])
def test_enqueued_job_waits_without_a_wake_up(mute: Lockwork, app: Lockwork, spoil: redis.Redis, guess: str) -> None:
    keys = QueueKeys("lw", "default")
    keys.sleeper = guess
    assert mute.runtime.run(enqueue.push(keys, [NewJob("j1", _RECORD)])) == 1
    assert spoil.lrange(_KEYS.ready[1], 0, -1) == [b"j1"]
    assert spoil.hget(_KEYS.stats, "enqueued") == b"1"
    assert app.runtime.run(leases.reserve(_KEYS, _WORKER, 1, "r2", _CHANNEL)).jobs[0].id == "j1"


@pytest.mark.usefixtures("asleep")
def test_awaited_job_ends_once(mute: Lockwork, app: Lockwork, spoil: redis.Redis) -> None:
    """The script stopped between lease and outcome: the job was in no place, and a repeated call was refused."""
    app.runtime.run(enqueue.push(_KEYS, [NewJob("j1", _RECORD)]))
    (job,) = app.runtime.run(leases.reserve(_KEYS, _WORKER, 1, "r2", "")).jobs
    app.runtime.run(leases.job_state(_KEYS, "j1", channel("lw", "host/2/b")))
    drained = threading.Thread(target=app.queue("default").drain, args=(20,))
    drained.start()
    try:
        until(lambda: spoil.hget(_KEYS.stats, "drain"), "somebody waits until the queue is empty")
        settled = mute.runtime.run(leases.settle(_KEYS, _WORKER, [Outcome("j1", job.token, "s", b"null")], _WINDOW_MS))
    finally:
        drained.join()
    assert settled == [True]
    assert spoil.hget(_KEYS.results[0], "j1") == b"snull"
    assert not spoil.exists(_KEYS.jobs, _KEYS.run(_WORKER), _KEYS.watch)


@pytest.mark.usefixtures("asleep")
def test_queue_is_resumed_without_a_wake_up(mute: Lockwork) -> None:
    assert mute.runtime.run(queue_limits.change(_KEYS, {"paused": 1})).paused
    assert mute.runtime.run(queue_limits.change(_KEYS, {"paused": ""})).paused is None


def test_released_lock_goes_to_waiter(mute: Lockwork, app: Lockwork, spoil: redis.Redis) -> None:
    """The release published nothing; waiters poll."""
    first = mute.lock("a").acquire()
    fences = list[int]()
    waiting = threading.Thread(target=lambda: fences.append(app.lock("a").acquire(wait=30).fence))
    waiting.start()
    until(lambda: spoil.hget("lw:{lock:a}", "t"), "a caller waits")
    first.release()
    waiting.join()
    assert fences
    assert fences[0] > first.fence


def test_missing_channel_permission_warning_names_the_acl_rule(
    mute: Lockwork, caplog: pytest.LogCaptureFixture
) -> None:
    mute.runtime.engine.listen()
    told = until(lambda: [text for text in caplog.messages if "wake-ups" in text], "it says that it hears nothing")
    assert "let this user use the channels &lw:wake:*" in told[0]
