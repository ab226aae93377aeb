"""The health port: probes that name the reason, and metrics at a constant cost."""

from __future__ import annotations

import contextlib
import signal
import socket
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from clients import client_of
from commandstats import script_calls
from history import History
from lockwork.ids import made_at, new_id
from lockwork.protocol.queue.ages import Backlog, ReadyAge
from lockwork.protocol.queue.sessions import QueueHead
from lockwork.worker.monitoring import health as serving
from lockwork.worker.monitoring.health import Health
from ports import free_port
from processes import until, worker
from scraping import parsed, scraped


def test_metrics_report_queues_and_worker(
    shift: Any, own_url: str, apps: Path, history: History, tmp_path: Path, ask: Any
) -> None:
    port = free_port()
    gate = tmp_path / "gate"
    shift.mark.options(delay="1h").enqueue(history.path)
    with worker(
        "shift:lw", "-c", "2", "--health-port", str(port), "--queues", "default", url=own_url, folder=apps
    ) as process:
        shift.gated.enqueue_many([(history.path, str(gate))] * 5)
        history.wait(2)

        def look() -> dict[str, float]:
            status, text = ask(port, "/metrics")
            assert status == 200
            return parsed(text)

        found = until(lambda: f if (f := look())['jobs{queue="default",state="running"}'] == 2 else None, "two run")
        assert found is not None
        assert found['jobs{queue="default",state="ready"}'] == 3
        assert found['jobs{queue="default",state="scheduled"}'] == 1
        assert found['jobs{queue="default",state="dead"}'] == 0
        assert found['jobs_enqueued_total{queue="default"}'] == 6
        assert found['jobs_succeeded_total{queue="default"}'] == 0
        assert found['queue_workers{queue="default"}'] == 1
        assert (found["server_up"], found["worker_ready"], found["worker_processes"]) == (1, 1, 1)
        assert found['worker_memory_bytes{process="supervisor"}'] > 5_000_000
        assert found['worker_memory_bytes{process="1"}'] > 5_000_000
        assert 0 <= found["lease_age_seconds"] < found["lease_seconds"] == 15
        assert 0 < found['lease_left_seconds{queue="default"}'] <= 15
        assert 0 < found['oldest_ready_seconds{queue="default"}'] < 60
        gate.touch()
        after = until(lambda: f if (f := look())['jobs_succeeded_total{queue="default"}'] == 5 else None, "all ran")
        assert after is not None
        assert after['oldest_ready_seconds{queue="default"}'] == 0
        assert after['jobs{queue="default",state="running"}'] == 0
        process.send(signal.SIGTERM)
        assert process.wait() == 0


def test_times_by_task_add_up_over_processes(
    shift: Any, own_url: str, apps: Path, history: History, tmp_path: Path, ask: Any
) -> None:
    port, gate = free_port(), tmp_path / "gate"
    with worker("shift:lw", "-p", "2", "-c", "2", "--health-port", str(port), url=own_url, folder=apps):
        shift.gated.enqueue_many([(history.path, str(gate))] * 4)
        assert len({line["pid"] for line in history.wait(4)}) == 2
        gate.touch()
        labels = '{queue="default",task="gated"}'

        def look() -> dict[str, float] | None:
            found = parsed(ask(port, "/metrics")[1])
            return found if found.get(f"worker_job_run_seconds_count{labels}") == 4 else None

        found = until(look, "both processes have reported")
        assert found is not None
        assert 0 < found[f"worker_job_run_seconds_sum{labels}"] < 4 * 60
        assert found['worker_job_run_seconds_bucket{queue="default",task="gated",le="+Inf"}'] == 4
        assert found[f"worker_job_wait_seconds_count{labels}"] == 4


def test_metrics_report_the_settings_of_a_queue(shift: Any, own_url: str, apps: Path, history: History) -> None:
    """Operators who investigate a backlog see the pause and the limits."""
    port = free_port()
    queue = shift.lw.queue()
    with worker("shift:lw", "--health-port", str(port), "--queues", "default,a", url=own_url, folder=apps) as process:

        def look(wanted: dict[str, float]) -> dict[str, float]:
            def seen() -> dict[str, float]:
                found = scraped(port)
                return found if all(found.get(name) == value for name, value in wanted.items()) else {}

            return until(seen, f"the metrics have {wanted}")

        limits = [f"queue_{name}" for name in ("concurrency_limit", "size_limit", "rate_limit_per_second")]
        found = look({'queue_paused{queue="default"}': 0, 'queue_paused{queue="a"}': 0})
        assert not [name for name in found if name.startswith(tuple(limits))]
        queue.pause()
        queue.limit(rate="90/m", concurrency=7, size=1000)
        shift.mark.enqueue(history.path)
        found = look({'queue_paused{queue="default"}': 1, 'jobs{queue="default",state="ready"}': 1})
        assert [found[f'{name}{{queue="default"}}'] for name in limits] == [7, 1000, 1.5]
        assert not [name for name in found if name.startswith(tuple(limits)) and 'queue="a"' in name]
        assert found['queue_paused{queue="a"}'] == 0
        queue.limit(rate=None, size=0)
        queue.resume()
        found = look({'queue_paused{queue="default"}': 0, 'jobs_succeeded_total{queue="default"}': 1})
        assert [found.get(f'{name}{{queue="default"}}') for name in limits] == [7, 0, None]
        process.send(signal.SIGTERM)
        assert process.wait() == 0


def test_metrics_count_jobs_that_never_ran(shift: Any, own_url: str, apps: Path, history: History) -> None:
    port = free_port()
    with worker("shift:lw", "--health-port", str(port), "-q", "default", url=own_url, folder=apps):
        shift.lw.queue().pause()
        shift.mark.options(expires="50ms").enqueue(history.path)
        assert shift.mark.options(delay="1h").enqueue(history.path).cancel()
        flow = shift.lw.flow()
        flow.add(shift.mark.call(history.path), after=[flow.add(shift.mark.call(history.path))])
        first = flow.add(shift.mark.call(history.path))
        flow.add(shift.mark.call(history.path), after_failure=first)
        assert flow.enqueue().job(first).cancel()
        wanted = {
            'jobs_expired_total{queue="default"}': 1,
            'jobs_cancelled_total{queue="default"}': 2,
            'jobs_skipped_total{queue="default"}': 1,
            'jobs{queue="default",state="blocked"}': 1,
        }

        until(lambda: wanted.items() <= scraped(port).items(), "they are counted")


def test_metrics_are_cached_for_a_second(shift: Any, own_url: str, apps: Path, history: History, ask: Any) -> None:
    port = free_port()
    shift.mark.enqueue_many([(history.path,)] * 5000)
    with client_of(own_url) as admin:
        with worker("shift:lw", "--health-port", str(port), "-q", "a", url=own_url, folder=apps):
            until(lambda: ask(port, "/readyz")[0] == 200, "it is ready")
            ask(port, "/metrics")
            before, began = script_calls(admin), time.monotonic()
            for _ in range(100):
                assert ask(port, "/metrics")[0] == 200
            calls, took = script_calls(admin) - before, time.monotonic() - began
            # three calls a second at most; the worker itself also makes calls
            assert calls < 20 + 5 * took


def test_probes_name_the_reason(shift: Any, own_url: str, apps: Path, ask: Any) -> None:
    port = free_port()
    with worker("shift:lw", "--health-port", str(port), url=own_url, folder=apps) as process:
        until(lambda: ask(port, "/readyz") == (200, "ok\n"), "it is ready")
        assert ask(port, "/nothing") == (404, "try /livez, /readyz or /metrics\n")
        process.send(signal.SIGUSR1)
        until(lambda: ask(port, "/readyz")[0] == 503, "it is quiet")
        assert ask(port, "/readyz")[1] == "not ready: it is quiet and fetches no more jobs\n"
        assert ask(port, "/livez") == (200, "ok\n")
        with urllib.request.urlopen(
            urllib.request.Request(f"http://127.0.0.1:{port}/livez", method="HEAD"), timeout=10
        ) as reply:
            assert (reply.status, reply.read()) == (200, b"")


def test_silent_clients_block_no_other_client(own_url: str, apps: Path, ask: Any) -> None:
    port = free_port()
    with worker("shift:lw", "--health-port", str(port), url=own_url, folder=apps) as process:
        until(lambda: ask(port, "/readyz")[0] == 200, "it is ready")
        silent = [socket.create_connection(("127.0.0.1", port)) for _ in range(200)]  # exceeds the limit
        try:
            assert ask(port, "/livez") == (200, "ok\n")
            process.send(signal.SIGTERM)
            assert process.wait() == 0
        finally:
            for connection in silent:
                connection.close()


@pytest.fixture
def answering() -> Iterator[tuple[int, Any]]:
    """A health port without a worker: its port number and the metrics that it serves."""
    port, metrics = free_port(), SimpleNamespace(text=lambda: "")
    health = Health("127.0.0.1", port)
    health.start(SimpleNamespace(alive=True, trouble=""), metrics)  # type: ignore[arg-type]
    try:
        yield port, metrics
    finally:
        health.close()


def clients(port: int, count: int, sent: bytes) -> ExitStack:
    """Open connections that send these bytes, and then neither send nor read."""
    stack = ExitStack()
    for _ in range(count):
        stack.enter_context(socket.create_connection(("127.0.0.1", port))).sendall(sent)
    return stack


@pytest.mark.parametrize("sent", [b"", b"GET /livez HTTP/1.0\r\nLong: ", b"GET /metrics HTTP/1.0\r\n\r\n"])
def test_probes_pass_clients_that_neither_send_nor_read(
    answering: tuple[int, Any], ask: Any, monkeypatch: pytest.MonkeyPatch, sent: bytes
) -> None:
    monkeypatch.setattr(serving, "_PATIENCE", 60.0)
    port, metrics = answering
    metrics.text = lambda: "a" * 5_000_000  # exceeds the buffers of the sockets
    with clients(port, 3 * serving._AT_ONCE, sent):
        for _ in range(5):
            assert ask(port, "/livez") == (200, "ok\n")


def test_probes_pass_scrapes_that_wait_for_the_server(answering: tuple[int, Any], ask: Any) -> None:
    port, metrics = answering
    over = threading.Event()
    metrics.text = lambda: str(over.wait(60))
    try:
        with clients(port, 3 * serving._AT_ONCE, b"GET /metrics HTTP/1.0\r\n\r\n"):
            until(lambda: ask(port, "/metrics") == (503, "busy: too many scrapes at once\n"), "all wait")
            assert ask(port, "/livez") == (200, "ok\n")
            assert ask(port, "/readyz") == (200, "ok\n")
    finally:
        over.set()


def test_slow_clients_block_no_other_client(monkeypatch: pytest.MonkeyPatch, ask: Any) -> None:
    """The clients send single bytes, and never complete a request."""
    monkeypatch.setattr(serving, "_AT_ONCE", 2)
    monkeypatch.setattr(serving, "_PATIENCE", 1.0)
    port, over = free_port(), threading.Event()
    health, status, metrics = Health("127.0.0.1", port), SimpleNamespace(alive=True), None
    slow = [socket.create_connection(("127.0.0.1", port)) for _ in range(2)]

    def drip() -> None:
        text = b"GET /livez HTTP/1.0\r\nLong: "
        while not over.wait(0.05):
            for connection in slow:
                with contextlib.suppress(OSError):
                    connection.send(text)
            text = b"a"

    dripping = threading.Thread(target=drip)
    dripping.start()
    try:
        health.start(status, metrics)  # type: ignore[arg-type]
        until(lambda: health._server._places._value == 0, "they have all places")
        until(lambda: ask(port, "/livez") == (200, "ok\n"), "probes are answered")
    finally:
        over.set()
        dripping.join()
        health.close()
        for connection in slow:
            connection.close()


def test_port_in_use_is_reported(own_url: str, apps: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with worker("shift:lw", "--health-port", str(port), url=own_url, folder=apps) as process:
            assert process.wait() == 1
            assert f"the health port 127.0.0.1:{port} cannot be used" in process.errors
            assert "Traceback" not in process.errors


NOW = made_at(new_id()) or 0


def id_of(age_ms: int, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr("lockwork.ids._last", 0)
    monkeypatch.setattr("lockwork.ids.time.time_ns", lambda: (NOW - age_ms) * 1_000_000)
    return new_id()


def test_backlog_age_is_that_of_the_oldest_ready_job(monkeypatch: pytest.MonkeyPatch) -> None:
    def heads(*lists: list[int]) -> QueueHead:
        return QueueHead(NOW, None, [[id_of(age, monkeypatch) for age in ages] for ages in lists])

    def age(head: QueueHead, backlog: Backlog | None = None) -> float:
        found = (backlog or Backlog()).age(head)
        assert found.known
        return found.seconds

    assert age(heads([], [], [])) == 0
    assert age(heads([], [5000, 4900], [])) == 4.9
    assert age(heads([100], [5000], [9000])) == 9
    # a job that was delayed for a day is not an old backlog
    assert age(heads([], [86_400_000, 50], [])) == 0.05
    backlog = Backlog()
    assert age(heads([], [], []), backlog) == 0
    later = QueueHead(NOW + 2000, None, [[], [id_of(86_400_000, monkeypatch)], []])
    assert age(later, backlog) == 2
    # a client's clock that is ahead results in 0
    assert age(QueueHead(NOW, None, [[], [id_of(-5000, monkeypatch)], []])) == 0
    assert Backlog().age(QueueHead(NOW, None, [[], ["order-1"], []])) == ReadyAge(0, known=False), (
        "the job waits, so the age is unknown"
    )


def test_ids_contain_their_creation_time() -> None:
    assert 0 <= (made_at(new_id()) or 0) - NOW < 3_600_000
    assert made_at("order-1") is None
    assert made_at("\u00e9" * 16) is None
    assert made_at("!" * 16) is None
