"""The cluster's metrics for Prometheus; the dashboard and the alert rules use only existing names."""

from __future__ import annotations

import json
import re
import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal, cast

import msgspec
import pytest
import redis
from click.testing import CliRunner
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from lockwork import Lockwork
from lockwork.cli.commands import cli
from lockwork.ids import new_id
from lockwork.protocol.announcements import announcements
from lockwork.protocol.keys import QueueKeys
from lockwork.protocol.metrics import metrics
from lockwork.protocol.metrics.metrics import Times
from lockwork.protocol.queue import enqueue, leases
from lockwork.protocol.queue.enqueue import NewJob
from lockwork.protocol.queue.leases import Outcome
from lockwork.telemetry.cluster import ClusterFamilies
from lockwork.telemetry.families import Family, TaskFamilies, exposition
from lockwork.telemetry.prometheus import LockworkCollector
from lockwork.version import install_command
from lockwork.worker.ipc.messages import JobTimes, Load
from lockwork.worker.monitoring.metrics import Metrics
from lockwork.worker.supervisor.status import WorkerStatus
from lockwork.worker.supervisor.task_times import TaskTimes
from lockwork.workers import Worker
from models.bench import Bench
from ports import free_port
from processes import started, until
from scraping import answer, parsed
from simulator.server import Build, Server

DEPLOY = Path(__file__).parents[2] / "deploy"
SESSION = "host/1/exported"
MINUTE = 60_000_000
_NAME = re.compile(r"lockwork_\w+")
_SELECTOR = re.compile(r"(lockwork_\w+)\{([^}]*)\}")
_MATCHER = re.compile(r'(\w+)(=~|!=|=)"([^"]*)"')


@pytest.fixture(scope="module")
def simulated(url: str) -> Iterator[Server]:
    server = Server(url)
    yield server
    server.close()


def announce(lw: Lockwork) -> None:
    """Let two workers be known."""
    at = datetime.now(UTC)
    made = (
        Worker("a", "host", 1, "0.1.0", "shop", ["mail"], 1, 10, at, 15.0, "running", 7, 10, [], None, 0.25),
        Worker("b", "host", 2, "0.1.0", "shop", ["mail"], 1, 10, at, 15.0, "quiet", 2, 10),
    )
    for each in made:
        record = msgspec.msgpack.encode(each)
        lw.runtime.run(announcements.put("lw", announcements.WORKERS, each.name, record))


def at_work(lw: Lockwork) -> None:
    """Leave something of everything on the server."""
    announce(lw)
    queue = QueueKeys("lw", "default")
    lw.queue().limit(rate="500/s", concurrency=3, size=100)
    lw.stock("phones", 10).reserve("ann", 2)
    lw.task(name="waits")(len).enqueue_many([("x",)] * 3)
    lw.runtime.run(leases.beat(queue, {SESSION: True}, 60_000, 1.0))
    jobs = lw.runtime.run(leases.reserve(queue, SESSION, 3, new_id(), "")).jobs
    kinds: tuple[Literal["s", "r", "d"], ...] = ("s", "r", "d")
    ended = [Outcome(job.id, job.token, kind, b"{}", 0, "waits") for job, kind in zip(jobs, kinds, strict=True)]
    assert all(lw.runtime.run(leases.settle(queue, SESSION, ended, 60_000)))
    lw.runtime.run(metrics.flush(queue, SESSION, 0, {"waits": (Times(), Times(), 2)}, 1.0))


def worker_text(lw: Lockwork) -> str:
    """Return the response of a worker's health port."""
    nothing: Counter[str] = Counter()
    state: dict[str, Any] = {"trouble": "", "silence": 0.0, "replaced": nothing, "runners_replaced": nothing}
    times = TaskTimes()
    times.add(JobTimes("default", "send", Times().packed(), Times(1000, Counter({40: 1})).packed()))
    status = SimpleNamespace(**state, times=times, memory=lambda: [[1, 1]], loads=lambda: [Load(3, 0.5, [])])
    return Metrics(lw, ["default"], cast("WorkerStatus", status), 15).text()


def samples(*texts: str) -> dict[str, list[dict[str, str]]]:
    """The labels of the samples, by name."""
    found: dict[str, list[dict[str, str]]] = {}
    for text in texts:
        for family in text_string_to_metric_families(text):
            found.setdefault(family.name, [])
            for sample in family.samples:
                found.setdefault(sample.name, []).append(sample.labels)
    return found


def expressions() -> list[str]:
    """Return the queries of the dashboard and the alert rules."""
    board = json.loads((DEPLOY / "grafana-dashboard.json").read_text())
    queries = [target["expr"] for panel in board["panels"] for target in panel.get("targets", ())]
    queries += [variable["definition"] for variable in board["templating"]["list"] if variable["type"] == "query"]
    rules = (DEPLOY / "alerts.yaml").read_text()
    return queries + re.findall(r"expr: ((?:>-\n)?(?:.|\n {10})*)", rules)


def test_dashboard_and_alerts_ask_for_what_there_is(lw: Lockwork) -> None:
    at_work(lw)
    registry = CollectorRegistry()
    registry.register(LockworkCollector(lw))
    generate_latest(registry)
    at_work(lw)
    with lw.lock("held"):
        known = samples(generate_latest(registry).decode(), worker_text(lw))
    queries = expressions()
    assert len(queries) > 25
    for expression in queries:
        for name in _NAME.findall(expression):
            assert name in known, f"{name} does not exist: {expression}"
        for name, matchers in _SELECTOR.findall(expression):
            for label, sign, value in _MATCHER.findall(matchers):
                if not value:  # it is there
                    continue
                if label == "job":  # Prometheus adds it
                    assert value == "$job"
                    continue
                values = {labels.get(label) for labels in known[name]}
                assert values != {None}, f"{name} has no label {label}: {expression}"
                for each in value.split("|") if sign == "=~" and value != "$queue" else [value]:
                    assert each in values | {"$queue"}, f"{name} has no {label}={each}: {expression}"
    assert any("lockwork_worker_ready" in each for each in queries)


def test_workers_and_their_slots(lw: Lockwork) -> None:
    announce(lw)
    found = parsed(exposition(ClusterFamilies(lw.runtime, "lw").read()))
    assert {name: value for name, value in found.items() if "worker" in name and "queue" not in name} == {
        'workers{app="shop",state="running"}': 1,
        'workers{app="shop",state="quiet"}': 1,
        'workers{app="shop",state="stopping"}': 0,
        'workers{app="shop",state="lost"}': 0,
        'worker_slots{app="shop"}': 20,
        'worker_slots_busy{app="shop"}': 9,
        'worker_slots_waiting{app="shop"}': 0,
        'worker_event_loop_lag_seconds{app="shop"}': 0.25,
    }


promtool = pytest.mark.skipif(not shutil.which("promtool"), reason="promtool is not installed")


@promtool
def test_promtool_accepts_all(lw: Lockwork, tmp_path: Path) -> None:
    check = ["promtool", "check"]
    subprocess.run([*check, "rules", str(DEPLOY / "alerts.yaml")], check=True)
    board = json.loads((DEPLOY / "grafana-dashboard.json").read_text())
    queries = [target["expr"] for panel in board["panels"] for target in panel.get("targets", ())]
    set_to = {"$queue": ".*", "$job": ".*", "$__rate_interval": "1m", "$__range": "1h"}
    fixed = [re.sub(r"\$\w+", lambda found: set_to[found[0]], each) for each in queries]
    rules = [{"record": f"lockwork:panel{at}", "expr": each} for at, each in enumerate(fixed)]
    file = tmp_path / "panels.yaml"  # JSON is YAML
    file.write_text(json.dumps({"groups": [{"name": "panels", "rules": rules}]}))
    subprocess.run([*check, "rules", str(file)], check=True)
    at_work(lw)
    families = ClusterFamilies(lw.runtime, "lw")
    families.read()
    at_work(lw)
    for text in (exposition(families.read()), worker_text(lw)):
        subprocess.run([*check, "metrics"], input=text, text=True, check=True)


@promtool
def test_alerts_fire_when_they_should(tmp_path: Path) -> None:
    for file in (DEPLOY / "alerts.yaml", Path(__file__).parent / "alerts_test.yaml"):
        shutil.copy(file, tmp_path)
    subprocess.run(["promtool", "test", "rules", str(tmp_path / "alerts_test.yaml")], check=True)
    rules = set(re.findall(r"alert: (\w+)", (tmp_path / "alerts.yaml").read_text()))
    tested = (tmp_path / "alerts_test.yaml").read_text().split("  - name: ")[1:]
    quiet, loud = tested[0], "".join(tested[1:])
    assert rules == set(re.findall(r"alertname: (\w+)", quiet)) == set(re.findall(r"alertname: (\w+)\n", loud))


def test_panels_of_the_dashboard_do_not_overlap() -> None:
    board = json.loads((DEPLOY / "grafana-dashboard.json").read_text())
    taken: set[tuple[int, int]] = set()
    for panel in board["panels"]:
        at = panel["gridPos"]
        cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert not cells & taken, panel["title"]
        assert max(cells)[0] < 24, panel["title"]
        taken |= cells
        for target in panel.get("targets", ()):
            assert 'job=~"$job"' in target["expr"], panel["title"]
    assert len({panel["id"] for panel in board["panels"]}) == len(board["panels"])


def test_exposition_writers_agree(lw: Lockwork) -> None:
    lw.task(name="t", queue='odd"name\\')(len).enqueue("x")
    at_work(lw)
    registry = CollectorRegistry()
    registry.register(LockworkCollector(lw))
    library = parsed(generate_latest(registry).decode())
    own = parsed(exposition(ClusterFamilies(lw.runtime, "lw").read()))
    assert {name.split("{")[0] for name in own} == {name.split("{")[0] for name in library}
    assert len(own) == len(library)


class Exporter:
    """An exporter on a server whose clock the test moves."""

    def __init__(self, bench: Bench) -> None:
        self._families = TaskFamilies(cast("Any", bench), "sim")

    def counts(self, *queues: str) -> dict[tuple[str, ...], float]:
        """All samples above 0, but the buckets."""
        return {
            (family.name + suffix, *labels.values()): value
            for family in self._families.read(queues)
            for labels, value, suffix in family.samples
            if suffix != "_bucket" and value
        }


def settled(bench: Bench, queue: str, count: int) -> None:
    keys = QueueKeys("sim", queue)
    bench.run(leases.beat(keys, {SESSION: True}, 10**9, 1.0))
    bench.run(enqueue.push(keys, [NewJob(f"{bench.now}-{at}", b'1,1,,;["t",[]]') for at in range(count)]))
    jobs = bench.run(leases.reserve(keys, SESSION, count, f"{bench.now}", "")).jobs
    bench.run(leases.settle(keys, SESSION, [Outcome(job.id, job.token, "s", task="t") for job in jobs], 60_000))
    run = Times()
    for _ in range(count):
        run.add(1000)
    bench.run(metrics.flush(keys, SESSION, bench.now, {"t": (Times(), run, 1)}, 1.0))


def test_counters_rise_from_the_first_scrape_on(simulated: Server) -> None:
    """A counter that began with what ended before would show a burst after each restart of the exporter."""
    bench = Bench(simulated, Build())
    settled(bench, "q", 50)
    exporter = Exporter(bench)
    assert exporter.counts("q") == {}
    total = 0
    for step in (0, 0, MINUTE // 2, MINUTE, 3 * MINUTE, 59 * MINUTE, 30 * MINUTE, 30 * MINUTE, 0):
        bench.now += step
        settled(bench, "q", 3)
        total += 3
        for _ in range(2):
            found = exporter.counts("q")
            assert found["attempts_total", "q", "t", "succeeded"] == total
            assert found["job_run_seconds_count", "q", "t"] == total
            assert found["overruns_total", "q", "t"] == total / 3
            assert found["job_run_seconds_sum", "q", "t"] == pytest.approx(total / 1000)
    assert Exporter(bench).counts("q") == {}


def test_frequent_scrapes_read_a_few_minutes(simulated: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    bench, queries, read = Bench(simulated, Build()), list[int](), metrics.read

    def counted(queue: QueueKeys, unit: metrics.Unit, count: int) -> Any:
        queries.append(count)
        return read(queue, unit, count)

    monkeypatch.setattr("lockwork.telemetry.families.metrics.read", counted)
    settled(bench, "q", 1)
    exporter = Exporter(bench)
    for step in (0, MINUTE // 4, 2 * MINUTE, 3 * MINUTE, 60 * MINUTE):
        bench.now += step
        exporter.counts("q")
    assert queries == [60, 3, 3, 3, 60, 3, 60]


def test_queue_and_partitions_that_come_later(simulated: Server) -> None:
    bench = Bench(simulated, Build())
    exporter = Exporter(bench)
    settled(bench, "q/0", 5)
    assert exporter.counts("q/0") == {}
    bench.now += 2 * MINUTE
    settled(bench, "q/1", 4)
    bench.now += 2 * MINUTE
    settled(bench, "q/0", 3)
    assert exporter.counts("q/0", "q/1")["attempts_total", "q", "t", "succeeded"] == 7


def test_buckets_are_cumulative() -> None:
    times, family = Times(), Family("run_seconds", "histogram", "")
    for each in (1, 900, 1023, 1024, 5000, 2**29 - 1, 2**35):
        times.add(each)
    family.add_times(times, task="t")
    found = {labels.get("le", suffix): value for labels, value, suffix in family.samples}
    assert (found["0.001024"], found["0.002048"], found["0.008192"], found["536.870912"]) == (3, 4, 5, 6)
    assert (found["1073.741824"], found["+Inf"], found["_count"]) == (6, 7, 7)


def test_command_serves_until_it_is_stopped(lw: Lockwork, url: str, tmp_path: Path) -> None:
    at_work(lw)
    port = free_port()
    command = [sys.executable, "-m", "lockwork", "metrics", "--port", str(port)]
    with started(command, folder=tmp_path, url=url) as process:
        until(lambda: f"http://127.0.0.1:{port}/metrics" in process.errors, "it serves")
        reserved = 'stock_units{queue="default",state="reserved",stock="phones"}'
        until(lambda: parsed(answer(port, "/metrics")[1]).get(reserved) == 2, "it shows the stock")
        process.send(signal.SIGTERM)
        assert process.wait() == 0


def test_command_prints_once(lw: Lockwork, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    at_work(lw)
    printed = CliRunner().invoke(cli, ["metrics", "--print", "--url", url])
    assert parsed(printed.stdout)['jobs{queue="default",state="dead"}'] == 1
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "prometheus_client.core", None)
        patch.delitem(sys.modules, "lockwork.telemetry.prometheus")
        refused = CliRunner().invoke(cli, ["metrics", "--print", "--url", url])
    assert install_command("metrics") in str(refused.exception)


def test_server_that_is_away_and_queue_that_refuses(lw: Lockwork, admin: redis.Redis) -> None:
    with Lockwork(f"redis://127.0.0.1:{free_port()}", patience=0) as app:
        assert parsed(exposition(ClusterFamilies(app.runtime, "lw").read())) == {"server_up": 0}
    at_work(lw)
    lw.task(name="t", queue="odd")(len).enqueue("x")
    families = ClusterFamilies(lw.runtime, "lw")
    families.read()
    admin.delete(QueueKeys("lw", "odd").counted_tasks)
    admin.set(QueueKeys("lw", "odd").counted_tasks, "mine")
    admin.set("lw:{q:odd}:stock:odd", "mine")
    found = parsed(exposition(families.read()))
    assert found["server_up"] == 1
    assert found['jobs{queue="odd",state="ready"}'] == 1
