"""Events and transactions of Sentry, as its SDK would send them, from a real server and a real worker."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from app_modules import load_app
from history import History
from lockwork import JobFailed, Lockwork
from processes import until, worker

APP = """
import asyncio
import json
import logging
import os
from pathlib import Path

import sentry_sdk
from sentry_sdk.transport import Transport

from lockwork import Lockwork, current_job
from lockwork.contrib.cryptography import AesGcmCodec
from lockwork.contrib.sentry import instrument


class ToFile(Transport):
    def capture_envelope(self, envelope):
        for item in envelope.items:
            with Path(os.environ["HISTORY"]).open("a") as file:
                file.write(json.dumps({"event": item.type, **item.payload.json}) + "\\n")


if "WITH_SENTRY" in os.environ:  # in the worker: what it patches in this process would stay
    sentry_sdk.init(
        "http://key@localhost:1/1",
        transport=ToFile,
        traces_sample_rate=1.0,
        send_default_pii=True,
        auto_enabling_integrations=False,  # it would import every installed framework
    )
codec = AesGcmCodec({"k1": b"k" * 32}) if "WITH_KEYS" in os.environ else None
lw = Lockwork(partitions={"split": 2}, codec=codec)
instrument(lw)


@lw.task(retries=2, backoff=0.01)
async def refuse(number: int) -> None:
    logging.getLogger("shop").info("charging %d", number)
    raise ValueError(f"attempt {current_job().attempt}")


@lw.task(retries=1, backoff=0.01)
async def overtakes(number: int) -> None:
    logging.getLogger("shop").info("charging %d", number)
    raise ValueError(f"attempt {current_job().attempt}")


@lw.hooks.failure
async def slow(event) -> None:
    if event.task == "overtakes":
        # the next attempt fails before the hook of the first one's retry is called
        await asyncio.sleep(event.attempt)


@lw.task(queue="split", retries=0)
def in_thread(number: int) -> None:
    sentry_sdk.set_tag("shop", "here")
    raise ValueError("in a thread")


@lw.task(executor="process", retries=0)
def elsewhere(number: int) -> None:
    raise ValueError("elsewhere")


@lw.task(retries=1, backoff=0.01)
async def second_time() -> str:
    if current_job().attempt == 1:
        raise ValueError("not yet")
    return "done"


@lw.task
async def orders() -> str:
    return await (await second_time.aenqueue()).aresult(30)


@lw.task(retries=0)
async def snoozes() -> None:
    if current_job().checkpoints:
        raise ValueError("after the snooze")
    await current_job().acheckpoint("once")
    current_job().snooze(0.01)


@lw.task(batch=2, linger=1, retries=0)
async def batched(items: list[int]) -> list[int | Exception]:
    return [item if item else KeyError("none") for item in items]
"""


class Reported:
    """The app here and in a worker, and what both sent."""

    def __init__(self, app: Any, history: History) -> None:
        self.app = app
        self._history = history

    def events(self, count: int = 1) -> list[dict[str, Any]]:
        """Wait for `count` errors."""
        return self._items("event", count)

    def transactions(self, count: int) -> list[dict[str, Any]]:
        """Wait for `count` transactions."""
        return self._items("transaction", count)

    def _items(self, kind: str, count: int) -> list[dict[str, Any]]:
        def complete() -> list[dict[str, Any]]:
            # an item has its kind under "event", unless it brings a field of that name
            items = self._history.lines(kind)
            return items if len(items) >= count else []

        items = until(complete, f"{count} items of kind {kind!r}") if count else self._history.lines(kind)
        assert len(items) == count
        return items


@pytest.fixture
def reported(
    request: pytest.FixtureRequest,
    own_url: str,
    tmp_path: Path,
    history: History,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Reported]:
    if getattr(request, "param", "") == "encrypted":
        monkeypatch.setenv("WITH_KEYS", "1")
    (tmp_path / "reported.py").write_text(APP)
    app: Any = load_app(tmp_path, "reported", own_url)
    monkeypatch.setenv("WITH_SENTRY", "1")
    with app.lw, worker("reported:lw", "-c", "4", url=own_url, folder=tmp_path):
        yield Reported(app, history)


def _error(event: dict[str, Any]) -> tuple[str, str]:
    found = event["exception"]["values"][-1]
    return found["type"], found["value"]


@pytest.mark.parametrize("reported", ["plain", "encrypted"], indirect=True)
def test_job_that_failed_for_good_is_one_event(reported: Reported) -> None:
    job = reported.app.refuse.enqueue(7)
    (event,) = reported.events()
    assert _error(event) == ("ValueError", "attempt 3")
    assert event["transaction"] == "refuse"
    assert event["tags"] == {
        "lockwork.job": job.id,
        "lockwork.task": "refuse",
        "lockwork.queue": "default",
        "lockwork.attempt": "3",
    }
    assert event["contexts"]["lockwork job"]["args"] == [7]
    crumbs = [(crumb["category"], crumb["message"]) for crumb in event["breadcrumbs"]["values"]]
    assert crumbs == [
        ("lockwork.attempt", "attempt 1 failed: ValueError: attempt 1"),
        ("lockwork.attempt", "attempt 2 failed: ValueError: attempt 2"),
        ("shop", "charging 7"),
    ]
    frames = event["exception"]["values"][-1]["stacktrace"]["frames"]
    assert frames[-1]["function"] == "refuse"


def test_event_has_the_data_of_an_attempt_that_overtook_a_retry(reported: Reported) -> None:
    """The hooks of a retry may be called after the next attempt has failed."""
    reported.app.overtakes.enqueue(7)
    (event,) = reported.events()
    assert _error(event) == ("ValueError", "attempt 2")
    assert [crumb["message"] for crumb in event["breadcrumbs"]["values"]] == [
        "attempt 1 failed: ValueError: attempt 1",
        "charging 7",
    ]


def test_attempts_belong_to_the_trace_of_the_enqueue(reported: Reported) -> None:
    assert reported.app.orders.enqueue().result(30) == "done"
    transactions = reported.transactions(3)
    (orders,) = [each for each in transactions if each["transaction"] == "orders"]
    attempts = [each for each in transactions if each["transaction"] == "second_time"]
    (publish,) = orders["spans"]
    assert publish["op"] == "queue.publish"
    for attempt in attempts:
        trace = attempt["contexts"]["trace"]
        assert (trace["trace_id"], trace["parent_span_id"]) == (publish["trace_id"], publish["span_id"])
        assert trace["op"] == "queue.process"
    assert [each["contexts"]["trace"]["status"] for each in attempts] == ["internal_error", "ok"]
    assert [each["contexts"]["trace"]["data"]["messaging.message.retry.count"] for each in attempts] == [0, 1]
    assert reported.events(0) == []


@pytest.mark.parametrize(("task", "text"), [("in_thread", "in a thread"), ("elsewhere", "elsewhere")])
def test_threads_and_processes(reported: Reported, task: str, text: str) -> None:
    job = getattr(reported.app, task).enqueue(7)
    (event,) = reported.events()
    assert _error(event) == ("ValueError", text)
    assert event["tags"]["lockwork.job"] == job.id
    assert event["tags"].get("shop") == ("here" if task == "in_thread" else None)
    (transaction,) = [each for each in reported.transactions(1) if each["transaction"] == task]
    assert event["contexts"]["trace"]["trace_id"] == transaction["contexts"]["trace"]["trace_id"]


def test_snooze_leaves_nothing_behind(reported: Reported) -> None:
    reported.app.snoozes.enqueue()
    (event,) = reported.events()
    assert _error(event) == ("ValueError", "after the snooze")
    assert [each["contexts"]["trace"]["status"] for each in reported.transactions(2)] == ["cancelled", "internal_error"]


def test_failed_job_of_a_batch_is_one_event(reported: Reported) -> None:
    _good, bad = (reported.app.batched.enqueue(item) for item in (1, 0))
    (event,) = reported.events()
    assert _error(event)[0] == "KeyError"
    assert event["tags"]["lockwork.job"] == bad.id


BUFFERED = """
import json
import os
from pathlib import Path

import sentry_sdk
from sentry_sdk.transport import Transport

from lockwork import Lockwork
from lockwork.contrib.sentry import instrument


class Buffered(Transport):
    gathered = []

    def capture_envelope(self, envelope):
        self.gathered += [item.payload.json["exception"]["values"][0]["value"] for item in envelope.items]

    def flush(self, timeout, callback=None):
        for text in self.gathered:
            with Path(os.environ["HISTORY"]).open("a") as file:
                file.write(json.dumps({"event": "sent", "text": text, "timeout": timeout}) + "\\n")


if "WITH_SENTRY" in os.environ:
    sentry_sdk.init("http://key@localhost:1/1", transport=Buffered, auto_enabling_integrations=False)
lw = Lockwork()
instrument(lw)


@lw.task(retries=0)
async def here() -> None:
    raise ValueError("here")


@lw.task(retries=0, executor="process")
def there() -> None:
    raise ValueError("there")
"""


def test_events_are_sent_when_a_worker_stops(
    tmp_path: Path, own_url: str, history: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "buffered.py").write_text(BUFFERED)
    monkeypatch.setenv("WITH_SENTRY", "1")
    with Lockwork(own_url) as lw, worker("buffered:lw", url=own_url, folder=tmp_path) as one:
        for name in ("here", "there"):
            with pytest.raises(JobFailed):
                lw.task(name=name)(lambda: None).enqueue().result(30)
        one.send(signal.SIGTERM)
        assert one.wait() == 0
    sent = history.lines("sent")
    assert sorted(line["text"] for line in sent) == ["here", "there"]
    assert all(0 < line["timeout"] <= 2 for line in sent)
