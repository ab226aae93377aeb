"""Findings about queues, workers and apps at work, caused by real workers and jobs."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import redis

from app_modules import Load
from doctor.examined import examine
from lockwork import Lockwork
from lockwork.doctor.finding import Finding
from lockwork.inspection.overview import MOST_DIAGNOSED
from lockwork.workers import SILENT, Worker
from processes import started, until, worker
from server_steps import stepping

START = "Start one: `lockwork worker clinic:lw --queues mail`."


@pytest.fixture
def clinic(own_url: str, load: Load) -> Any:
    """The app, to enqueue with."""
    app: Any = load(own_url, "clinic")
    app.lw.registry.context.announcing.stop()  # it would name the module that the tests have loaded
    with app.lw:
        yield app


def announced(lw: Lockwork, wanted: Callable[[list[Worker]], object] = bool) -> list[Worker]:
    """Wait until workers have announced themselves, as `wanted` has them."""
    return until(lambda: found if wanted(found := lw.workers()) else None, "the workers are announced") or []


def queue(level: str, text: str, fix: str, link: str = "queues/mail", name: str = "mail") -> Finding:
    return Finding(level, f"Queue {name}", text, fix, link)  # type: ignore[arg-type]


def test_queue_whose_worker_has_gone_is_serious(clinic: Any, own_url: str, apps: Path) -> None:
    with worker("clinic:lw", url=own_url, folder=apps) as process:
        announced(clinic.lw)
        clinic.send.enqueue(1).result(30)
        assert examine(own_url).about("Queue") == []
        process.send(signal.SIGTERM)
        assert process.wait() == 0
    clinic.send.enqueue(2)
    clinic.send.options(delay="1h").enqueue(3)
    found = examine(own_url)
    assert found.about("Queue") == [queue("serious", "1 ready, 1 scheduled, and no worker.", START)]
    assert found.status == 1


def test_paused_full_and_quiet_queues_are_found(clinic: Any, own_url: str, apps: Path) -> None:
    with worker("clinic:lw", url=own_url, folder=apps):
        (at_work,) = announced(clinic.lw)
        mail = clinic.lw.queue("mail")
        mail.pause()
        mail.limit(size=2)
        clinic.send.enqueue_many([(1,), (2,)])
        full = queue(
            "warning",
            "It is full: 2 jobs wait, and its size limit is 2.",
            "Start more workers, or raise the limit: `lockwork queue limit mail --size N`.",
        )
        found = examine(own_url)
        paused = queue("warning", "2 ready, and it is paused.", "Resume it: `lockwork queue resume mail`.")
        assert (found.about("Queue"), found.status) == ([paused, full], 0)
        assert clinic.lw.worker(at_work.name).quiet()
        announced(clinic.lw, lambda found: found[0].state == "quiet")
        mail.resume()
        mail.limit(size=None)
        found = examine(own_url)
        fix = f"Resume one: `lockwork workers resume {at_work.name}`, or start another worker."
        quiet = queue("serious", "2 ready, and all of its workers are quiet.", fix)
        assert (found.about("Queue"), found.status) == ([quiet], 1)


def test_jobs_that_wait_behind_busy_workers_are_a_warning(
    clinic: Any, own_url: str, apps: Path, tmp_path: Path
) -> None:
    began, gate = tmp_path / "began", tmp_path / "gate"
    words = ("clinic:lw", "--concurrency", "1", "--lease", "10m")  # two minutes later, it is still alive
    with worker(*words, url=own_url, folder=apps), redis.Redis.from_url(own_url) as admin:
        announced(clinic.lw)
        held = clinic.hold.enqueue(str(began), str(gate))
        until(began.exists, "it runs")
        clinic.send.enqueue(1)
        with stepping(admin) as clock:
            clock.step(120)
            found = examine(own_url)
        gate.touch()
        held.result(30)
    fix = "Start more workers, or raise --processes or --concurrency; check the queue's limits and slow tasks."
    assert found.about("Queue") == [queue("warning", "Its only ready job has waited for 2 min.", fix)]
    assert found.status == 0


@pytest.mark.parametrize(
    ("count", "level", "said", "why"),
    [
        (1, "info", "1 job", ": ValueError in send"),
        (10, "warning", "10 jobs", ": ValueError in send"),
        (21, "warning", "21 jobs", ", the newest of ValueError in send"),
    ],
)
def test_jobs_that_died_lately_are_counted(
    clinic: Any, own_url: str, apps: Path, count: int, level: str, said: str, why: str
) -> None:
    with worker("clinic:lw", url=own_url, folder=apps), redis.Redis.from_url(own_url) as admin:
        clinic.send.enqueue_many([(-1,)] * count)
        until(lambda: clinic.lw.queue("mail").status().dead == count, "they die")
        fix = "See the errors: `lockwork dead --queue mail`."
        died = queue(level, f"{said} died in the last 10 minutes{why}.", fix, "dead?queue=mail")
        assert examine(own_url).about("Queue") == [died]
        with stepping(admin) as clock:
            clock.step(601)
            assert examine(own_url).about("Queue") == []


def test_killed_worker_is_found_as_soon_as_it_is_silent(clinic: Any, own_url: str, apps: Path, tmp_path: Path) -> None:
    began, gate = tmp_path / "began", tmp_path / "gate"
    with worker("clinic:lw", "--lease", "5s", url=own_url, folder=apps) as process:
        clinic.hold.enqueue(str(began), str(gate))
        (lost,) = announced(clinic.lw, lambda found: found and found[0].busy)
        process.send(signal.SIGKILL)
        process.wait()
    with redis.Redis.from_url(own_url) as admin, stepping(admin) as clock:
        clock.step(SILENT + 1)
        (found,) = examine(own_url).about("Worker")
    assert (found.level, found.subject) == ("warning", f"Worker {lost.name}")
    assert found.text.startswith("It was lost ")
    assert found.text.endswith(" ago with 1 job running; other workers take over.")
    assert found.fix == f"Find out why: see its log, the out-of-memory killer and the network of {lost.host}."


def test_job_that_blocks_the_event_loop_is_a_warning(clinic: Any, own_url: str, apps: Path, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    with worker("clinic:lw", url=own_url, folder=apps):
        job = clinic.block.enqueue(str(gate))
        announced(clinic.lw, lambda found: found and (found[0].lag or 0) > 1)
        (found,) = examine(own_url).about("Worker")
        gate.touch()
        job.result(30)
    assert found.level == "warning"
    assert found.text.startswith("Its event loop was late by ")
    assert found.fix.startswith("Its log names the job that blocks the loop")


def test_worker_of_queues_that_never_had_a_job_is_named(clinic: Any, own_url: str, apps: Path) -> None:
    with worker("clinic:lw", "--queues", "other", url=own_url, folder=apps):
        announced(clinic.lw)
        clinic.send.enqueue(1)
        found = examine(own_url)
        (idle,) = found.about("Worker")
        assert (idle.level, idle.text) == ("info", "No queue that it serves ever had a job: other.")
        assert idle.fix == "Check its --queues, and the URL and prefix of the producers."
        assert found.about("Queue") == [queue("serious", "1 ready, and no worker.", START)]


def test_apps_that_differ_in_partitions_and_versions_are_found(clinic: Any, own_url: str, apps: Path) -> None:
    newer = "from lockwork.worker.supervisor import announcer; announcer.VERSION = '99.0'; "
    newer += "import sys; sys.argv[0] = 'lockwork'; from lockwork.cli import main; main()"
    command = [sys.executable, "-c", newer, "worker", "clinic:split"]
    with worker("clinic:lw", url=own_url, folder=apps), started(command, folder=apps, url=own_url):
        announced(clinic.lw, lambda found: len(found) == 2)
        until(lambda: len(clinic.lw.apps()) == 2, "both apps are announced")
        found = examine(own_url)
    (differ,) = found.about("Queue mail")
    text = "Apps differ in its number of partitions: none in clinic:lw, 4 in clinic:split. "
    assert differ == queue(
        "serious", f"{text}Jobs of one key can run at the same time.", "Give all apps the same `partitions=`."
    )
    assert found.status == 1
    (versions,) = found.about("workers")
    assert versions.text.startswith("They run different versions of Lockwork: ")
    assert "99.0" in versions.text
    assert (versions.level, versions.fix) == ("info", "Finish the upgrade.")


def test_queues_that_were_not_checked_are_counted(own_url: str) -> None:
    with Lockwork(own_url) as lw:
        for number in range(MOST_DIAGNOSED + 2):
            lw.task(queue=f"q{number:03}", name=f"t{number}")(print).enqueue()
        found = examine(own_url).about("queues")
    fix = "Check them by name: `lockwork queue NAME`."
    assert found == [Finding("info", "queues", "2 further queues and partitions were not checked.", fix)]
