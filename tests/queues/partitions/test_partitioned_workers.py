"""Real workers on a partitioned queue."""

from __future__ import annotations

import signal
from collections import Counter
from pathlib import Path
from typing import Any

from history import History
from lockwork import Lockwork
from ports import free_port
from processes import until, worker
from scraping import answer

Ran = list[dict[str, Any]]
ALL = {f"mail/{number}" for number in range(4)}


def peak_concurrency(lines: Ran) -> Counter[str]:
    """Return the peak of simultaneous jobs of each name; all processes use one machine's clock."""
    now: Counter[str] = Counter()
    most: Counter[str] = Counter()
    named = [line for line in lines if "name" in line]
    for line in sorted(named, key=lambda line: line["at"]):
        now[line["name"]] += 1 if line["event"] == "begin" else -1
        most[line["name"]] = max(most[line["name"]], now[line["name"]])
    return most


def done(app: Any, queue: str = "mail") -> bool:
    status = app.lw.queue(queue).status()
    return bool(status.ready + status.scheduled + status.running == 0)


def test_keys_one_at_a_time_in_order_with_two_workers(sorting: Any, own_url: str, apps: Path, history: History) -> None:
    names = [f"order:{number}" for number in range(7)]  # 7 names, so that plain alternation does not pass by chance
    jobs = [sorting.in_order.enqueue(history.path, name) for _ in range(15) for name in names]
    assert len({job.queue for job in jobs}) > 1
    with (
        worker("sorting:lw", "-q", "mail", "-c", "2", url=own_url, folder=apps),
        worker("sorting:lw", "-q", "mail", "-c", "2", url=own_url, folder=apps),
    ):

        def both() -> bool:
            jobs.extend(sorting.in_order.enqueue_many((history.path, name) for name in names))
            return len({line["pid"] for line in history.lines("begin")}) == 2

        until(both, "both work")
        history.wait(len(jobs), "end")
    lines = history.lines()
    assert peak_concurrency(lines) == dict.fromkeys(names, 1)
    for at, name in enumerate(names):
        begun = [line["id"] for line in lines if line["event"] == "begin" and line["name"] == name]
        assert begun == [job.id for job in jobs[at :: len(names)]]


def test_limits_of_groups_are_exact_with_two_workers(sorting: Any, own_url: str, apps: Path, history: History) -> None:
    names = [f"tenant:{number}" for number in range(6)]
    sorting.in_groups.enqueue_many((history.path, name) for _ in range(30) for name in names)
    with (
        worker("sorting:lw", "-q", "mail", "-c", "20", url=own_url, folder=apps),
        worker("sorting:lw", "-q", "mail", "-c", "20", url=own_url, folder=apps),
    ):
        history.wait(180, "end")
    most = peak_concurrency(history.lines())
    assert set(most) == set(names)
    assert max(most.values()) == 2, "the limit of each group, over all workers"


def test_strict_worker_alternates_between_partitions(sorting: Any, own_url: str, apps: Path, history: History) -> None:
    """mail/0 always has jobs; the few jobs of other partitions must not wait for all its jobs."""
    zero = [name for name in map(str, range(100)) if home(sorting, name) == "mail/0"][:3]
    rest = [next(name for name in map(str, range(100)) if home(sorting, name) == f"mail/{at}") for at in (1, 2, 3)]
    for name in zero:
        sorting.mark.options(group=name).enqueue_many([(history.path, 0)] * 600)
    for name in rest:
        sorting.mark.options(group=name).enqueue_many([(history.path, 1)] * 2)
    with worker("sorting:lw", "-q", "mail,other", "-c", "4", "--burst", url=own_url, folder=apps) as one:
        assert one.wait() == 0
    order = [line["number"] for line in history.lines("ran")]
    assert len(order) == 1806
    # a turn of 20 ms runs some 200 jobs on a fast machine
    assert max(at for at, number in enumerate(order) if number == 1) < 900, (
        "no partition waited for all jobs of another"
    )


def home(sorting: Any, name: str) -> str:
    return str(sorting.lw.config.partitions.place("mail", name))


def test_partitions_follow_the_order_of_their_queues(sorting: Any, own_url: str, apps: Path, history: History) -> None:
    sorting.elsewhere.enqueue_many([(history.path,)] * 10)
    for _ in range(10):
        sorting.mark.enqueue(history.path)
    with worker("sorting:lw", "-q", "mail,other", "-c", "1", "--burst", url=own_url, folder=apps) as one:
        assert one.wait() == 0
    served = [line["queue"] for line in history.lines("ran")]
    assert set(served[:10]) == ALL
    assert served[10:] == ["other"] * 10


def test_worker_serves_a_single_partition(sorting: Any, own_url: str, apps: Path, history: History) -> None:
    for number in range(12):
        sorting.mark.enqueue(history.path, number)
    with Lockwork(own_url, partitions={"mail": 6}) as before:  # an earlier version of the app

        @before.task(queue="mail", name="mark", key="{number}", keep_result=False)
        def mark(path: str, number: int) -> None: ...

        earlier_jobs = [mark.enqueue(history.path, number) for number in range(100, 130)]
    old = [job for job in earlier_jobs if job.queue == "mail/5"]
    assert old
    with worker("sorting:lw", "-q", "mail/2,mail/5", "--burst", url=own_url, folder=apps) as one:
        assert one.wait() == 0
        assert "this app enqueues nothing to 'mail/5'; the worker only runs the jobs that are left there" in one.errors
        assert "no task" not in one.errors
    ran = Counter(line["queue"] for line in history.lines("ran"))
    assert set(ran) == {"mail/2", "mail/5"}
    assert ran["mail/5"] == len(old)


def test_flows_and_batches_run_on_partitions(sorting: Any, own_url: str, apps: Path) -> None:
    with worker("sorting:lw", url=own_url, folder=apps):
        runs = [
            sorting.lw.chord([sorting.double.call(number) for number in range(5)], sorting.total).enqueue()
            for _ in range(8)
        ]
        assert [run.result(30) for run in runs] == [20] * 8
        jobs = sorting.squares.enqueue_many((number,) for number in range(30))
        jobs += [sorting.squares.enqueue(number) for number in range(30, 60)]
        assert [job.result(30) for job in jobs] == [number * number for number in range(60)]


def test_partitions_get_separate_processes(sorting: Any, own_url: str, apps: Path) -> None:
    with worker("sorting:lw", "--runners", "1", url=own_url, folder=apps) as one:
        jobs = sorting.apart.enqueue_many((number,) for number in range(12))
        found = [job.result(30) for job in jobs]
        assert [queue for queue, _ in found] == [job.queue for job in jobs]
        assert {queue for queue, _ in found} == ALL
        assert not {pid for _, pid in found} & {one.pid, *one.children()}, "in a runner"


def test_schedule_of_partitioned_queue_fires_once_for_each_slot(
    sorting: Any, own_url: str, apps: Path, history: History
) -> None:
    with (
        worker("sorting:lw", url=own_url, folder=apps),
        worker("sorting:lw", url=own_url, folder=apps),
    ):
        history.wait(3, "tick")
        schedule = sorting.lw.schedule("tick", queue="mail")
        (found,) = sorting.lw.schedules("mail")
        assert (found.name, found.queue, found.queue in ALL) == ("tick", schedule.queue, True)
        assert [each.name for each in sorting.lw.schedules()] == ["tick"]
        assert schedule.pause()
        status = schedule.inspect()
        until(lambda: done(sorting), "all ran")
    lines = history.lines("tick")
    assert len({line["id"] for line in lines}) == len(lines) == status.enqueued
    assert {line["queue"] for line in lines} == {schedule.queue}


def test_dead_jobs_and_metrics_and_health(sorting: Any, own_url: str, apps: Path) -> None:
    port = free_port()
    with worker("sorting:lw", "--health-port", str(port), url=own_url, folder=apps) as one:
        for number in range(8):
            sorting.fail.enqueue(f"no {number}")
        dead = sorting.lw.queue("mail").dead
        until(lambda: dead.count() == 8, "all have died")
        assert {part.dead.count() for part in sorting.lw.queue("mail").partitions} == {2}
        assert len(sorting.lw.queue("mail").workers()) == 1
        until(lambda: answer(port, "/readyz")[0] == 200, "it is ready")
        _, text = answer(port, "/metrics")
        for number in range(len(ALL)):
            assert f'lockwork_jobs{{queue="mail",partition="{number}",state="dead"}} 2' in text
        assert 'lockwork_jobs{queue="mail",state=' not in text
        one.send(signal.SIGTERM)
        assert one.wait() == 0
        assert one.errors.count("Traceback") == 8, "those of the jobs"


def test_other_workers_run_the_jobs_of_a_killed_worker(
    sorting: Any, own_url: str, apps: Path, history: History
) -> None:
    sorting.in_order.enqueue_many((history.path, f"order:{number}") for number in range(400))
    with worker("sorting:lw", "--lease", "1", "-c", "5", url=own_url, folder=apps) as first:
        history.wait(20, "end")
        first.send(signal.SIGKILL)
        with worker("sorting:lw", "--lease", "1", url=own_url, folder=apps):
            until(lambda: done(sorting), "all ran")
    assert {line["name"] for line in history.lines("end")} == {f"order:{number}" for number in range(400)}
