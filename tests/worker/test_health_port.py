"""The health port: probes that tell why, and metrics whose cost does not depend on what waits."""

from __future__ import annotations

import re
import signal
import socket
import urllib.request
from pathlib import Path
from typing import Any

import pytest
import redis

from history import History
from lockwork.ids import made_at, new_id
from lockwork.protocol.hands import Heads
from lockwork.worker.backlog import Backlog
from ports import free_port
from processes import until, worker

SAMPLE = re.compile(r'(lockwork_\w+)(?:\{((?:\w+="(?:[^"\\]|\\.)*",?)*)\})? (-?[\d.e+-]+)')


def parsed(text: str) -> dict[str, float]:
    """The samples by name and labels; fails on anything that is not Prometheus' text format."""
    found: dict[str, float] = {}
    announced: set[str] = set()
    for line in text.splitlines():
        if line.startswith("# "):
            word, name = line.split(" ", 3)[1:3]
            assert word in ("HELP", "TYPE")
            announced.add(name)
            continue
        match = SAMPLE.fullmatch(line)
        assert match is not None, line
        assert match[1] in announced, line
        key = match[1].removeprefix("lockwork_") + (f"{{{match[2]}}}" if match[2] else "")
        assert key not in found, line
        found[key] = float(match[3])
    assert text.endswith("\n")
    return found


def test_metrics(shift: Any, own_url: str, apps: Path, history: History, tmp_path: Path, ask: Any) -> None:
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

        found = until(lambda: f if (f := look())['jobs{queue="default",place="running"}'] == 2 else None, "two run")
        assert found is not None
        assert found['jobs{queue="default",place="ready"}'] == 3
        assert found['jobs{queue="default",place="scheduled"}'] == 1
        assert found['jobs{queue="default",place="dead"}'] == 0
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
        assert after['jobs{queue="default",place="running"}'] == 0
        process.send(signal.SIGTERM)
        assert process.wait() == 0


def test_a_storm_of_scrapes_costs_the_server_little(
    shift: Any, own_url: str, apps: Path, history: History, ask: Any
) -> None:
    port = free_port()
    shift.mark.enqueue_many([(history.path,)] * 5000)
    with redis.Redis.from_url(own_url) as admin:
        with worker("shift:lw", "--health-port", str(port), "-q", "a", url=own_url, folder=apps):
            until(lambda: ask(port, "/readyz")[0] == 200, "it is ready")
            ask(port, "/metrics")
            before = int(admin.info("commandstats")["cmdstat_evalsha"]["calls"])
            for _ in range(100):
                assert ask(port, "/metrics")[0] == 200
            after = int(admin.info("commandstats")["cmdstat_evalsha"]["calls"])
            # one look a second at most, of three calls, whatever comes; a busy machine may take a while for a hundred
            assert after - before < 60


def test_probes_say_why(shift: Any, own_url: str, apps: Path, ask: Any) -> None:
    port = free_port()
    with worker("shift:lw", "--health-port", str(port), url=own_url, folder=apps) as process:
        until(lambda: ask(port, "/readyz") == (200, "ok\n"), "it is ready")
        assert ask(port, "/nothing") == (404, "try /livez, /readyz or /metrics\n")
        process.send(signal.SIGUSR1)
        until(lambda: ask(port, "/readyz")[0] == 503, "it is quiet")
        assert ask(port, "/readyz")[1] == "not ready: it was told to fetch nothing more\n"
        assert ask(port, "/livez") == (200, "ok\n")
        with urllib.request.urlopen(
            urllib.request.Request(f"http://127.0.0.1:{port}/livez", method="HEAD"), timeout=10
        ) as reply:
            assert (reply.status, reply.read()) == (200, b"")


def test_clients_that_say_nothing_keep_nobody_out(own_url: str, apps: Path, ask: Any) -> None:
    port = free_port()
    with worker("shift:lw", "--health-port", str(port), url=own_url, folder=apps) as process:
        until(lambda: ask(port, "/readyz")[0] == 200, "it is ready")
        silent = [socket.create_connection(("127.0.0.1", port)) for _ in range(20)]  # more than are served at once
        try:
            until(lambda: ask(port, "/livez")[0] == 200, "it answers all the same")
            process.send(signal.SIGTERM)
            assert process.wait() == 0
        finally:
            for connection in silent:
                connection.close()


def test_a_port_that_is_taken(own_url: str, apps: Path) -> None:
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


def test_the_age_of_a_backlog(monkeypatch: pytest.MonkeyPatch) -> None:
    def heads(*lists: list[int]) -> Heads:
        return Heads(NOW, None, [[id_of(age, monkeypatch) for age in ages] for ages in lists])

    assert Backlog().age(heads([], [], [])) == 0
    assert Backlog().age(heads([], [5000, 4900], [])) == 4.9
    assert Backlog().age(heads([100], [5000], [9000])) == 9
    # one that was delayed for a day is not an old backlog
    assert Backlog().age(heads([], [86_400_000, 50], [])) == 0.05
    backlog = Backlog()
    assert backlog.age(heads([], [], [])) == 0
    later = Heads(NOW + 2000, None, [[], [id_of(86_400_000, monkeypatch)], []])
    assert backlog.age(later) == 2
    # a clock that is ahead makes no negative age, an id of another kind none at all
    assert Backlog().age(Heads(NOW, None, [[], [id_of(-5000, monkeypatch)], []])) == 0
    assert Backlog().age(Heads(NOW, None, [[], ["order-1"], []])) == 0


def test_ids_tell_when_they_were_made() -> None:
    assert 0 <= (made_at(new_id()) or 0) - NOW < 3_600_000
    assert made_at("order-1") is None
    assert made_at("\u00e9" * 16) is None
    assert made_at("!" * 16) is None
