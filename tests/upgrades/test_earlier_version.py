"""Processes of an earlier version and of this one share queues, locks and schedules: docs/upgrades.md promises it."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from lockwork import Lockwork
from processes import until

ROOT = Path(__file__).parents[2]
BEFORE_THE_FIRST_RELEASE = "7d02dda9"
"""The commit that stands for the last release until a release has a tag."""
APP = """
import os
from lockwork import Lockwork

lw = Lockwork()
who = os.environ["WHO"]


@lw.task(queue="mail", retries=2, backoff="10ms", key="user:{user}")
def send(user: int, number: int) -> str:
    from lockwork import current_job

    if number % 10 == 0 and current_job().attempt == 1:
        raise ValueError("the first attempt fails")
    return who


@lw.task(queue="mail", every="1s")
def tick() -> None: ...


if __name__ == "__main__":
    jobs = send.enqueue_many([(number % 20, number) for number in range(100)])
    print(*(job.id for job in jobs))
"""
STATES = """
from lockwork import Lockwork

lw = Lockwork()


@lw.task(queue="mail", retries=0, result_ttl="1h")
def double(number: int) -> int:
    if number < 0:
        raise ValueError("negative")
    return 2 * number


@lw.task(queue="mail")
def add_up(numbers: list[int]) -> int:
    return sum(numbers)


if __name__ == "__main__":
    ended = [double.enqueue(4).id, double.enqueue(-1).id]
    later = double.options(delay="1h").enqueue(5).id
    run = lw.chord([double.call(number) for number in (1, 2, 3)], add_up).enqueue()
    print(*ended, later, run.id)
"""
HOLDER = """
from lockwork import Lockwork

with Lockwork() as lw:
    for _ in range(50):
        with lw.lock("ledger") as grant:
            print(grant.fence)
"""


def git(*words: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, check=False)


@pytest.fixture(scope="module")
def earlier(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The source of the last release, which is the newest tag."""
    tags = git("tag", "--list", "v*", "--sort=-version:refname").stdout.decode().split()
    archive = git("archive", *tags[:1] or [BEFORE_THE_FIRST_RELEASE], "src")
    if archive.returncode != 0:
        pytest.skip(f"NO EARLIER VERSION WAS TESTED: this clone has no history ({archive.stderr.decode().strip()})")
    folder = tmp_path_factory.mktemp("earlier")
    with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as files:
        files.extractall(folder, filter="data")
    return folder / "src"


class Versions:
    """Runs programs in the earlier version, or in this one."""

    def __init__(self, earlier: Path, folder: Path, url: str) -> None:
        self._folder, self._url = folder, url
        self._paths = {"earlier": earlier, "this": ROOT / "src"}

    def _environment(self, who: str) -> dict[str, str]:
        path = f"{self._paths[who]}:{self._folder}"
        return {**os.environ, "LOCKWORK_URL": self._url, "WHO": who, "PYTHONPATH": path}

    def start(self, who: str, *words: str) -> subprocess.Popen[bytes]:
        command, pipe = [sys.executable, *words], subprocess.PIPE
        # not by the zygote, which has imported this version
        environment = self._environment(who)
        return subprocess.Popen(command, cwd=self._folder, env=environment, stdin=pipe, stdout=pipe, stderr=pipe)

    def output(self, who: str, *words: str) -> list[str]:
        process = self.start(who, *words)
        printed, errors = process.communicate(timeout=60)
        assert process.returncode == 0, errors.decode()
        return list(printed.decode().split())

    @contextmanager
    def worker(self, who: str, app: str = "app:lw") -> Iterator[None]:
        process = self.start(who, "-m", "lockwork", "worker", app, "-c", "1")
        try:
            yield
        finally:
            process.terminate()
            _, errors = process.communicate(timeout=60)
        assert process.returncode == 0, errors.decode()


@pytest.fixture
def versions(earlier: Path, tmp_path: Path, own_url: str) -> Versions:
    (tmp_path / "app.py").write_text(APP)
    (tmp_path / "states.py").write_text(STATES)
    made = Versions(earlier, tmp_path, own_url)
    where = "import lockwork; print(lockwork.__file__)"
    files = [made.output(who, "-c", where)[0] for who in ("earlier", "this")]
    assert files[0].startswith(str(earlier))
    assert files[1].startswith(str(ROOT))
    return made


def test_workers_of_both_versions_share_a_queue_and_its_schedule(versions: Versions, own_url: str) -> None:
    with versions.worker("earlier"), versions.worker("this"), Lockwork(own_url) as lw:
        until(lambda: len(lw.queue("mail").workers()) == 2, "both workers serve the queue")
        ran: set[str] = set()
        while ran != {"earlier", "this"}:
            for producer in ("earlier", "this"):
                jobs = [lw.job(id, "mail") for id in versions.output(producer, "app.py")]
                ran.update(job.result(timeout=60) for job in jobs)
                assert [job.attempts() for job in jobs] == [2 if at % 10 == 0 else 1 for at in range(100)]
        (schedule,) = until(lambda: lw.schedules("mail"), "a worker has declared the schedule")
        until(lambda: lw.schedules("mail")[0].enqueued >= 2, "two slots are enqueued")
        assert schedule.name == "tick"
    with Lockwork(own_url) as lw:
        status = lw.queue("mail").status()
        assert status.dead == 0
        assert status.enqueued == status.succeeded + status.ready
        times = [job.enqueued for job in lw.jobs("mail", task="tick", limit=100).jobs]
        assert len(times) == len(set(times)) >= 2


def test_callers_of_both_versions_share_a_lock(versions: Versions) -> None:
    processes = [versions.start(who, "-c", HOLDER) for who in ("earlier", "this", "earlier", "this")]
    printed = [process.communicate(timeout=60) for process in processes]
    assert [process.returncode for process in processes] == [0] * 4, [errors.decode() for _, errors in printed]
    fences = [int(line) for output, _ in printed for line in output.decode().split()]
    assert len(fences) == len(set(fences)) == 200


def test_records_that_the_earlier_version_left_are_read(versions: Versions, own_url: str) -> None:
    ids = versions.output("earlier", "app.py")
    with Lockwork(own_url) as lw:
        assert lw.queue("mail").status().ready == 100
        (row, *_) = lw.jobs("mail", task="send", arg="number=42").jobs
        assert row.id == ids[42]
        with versions.worker("this"):
            assert {lw.job(id, "mail").result(timeout=60) for id in ids} == {"this"}


@pytest.mark.parametrize(
    ("producer", "consumer"), [("earlier", "this"), ("this", "earlier")], ids=["an upgrade", "a step back"]
)
def test_jobs_and_flows_of_one_version_run_in_the_other(
    versions: Versions, own_url: str, producer: str, consumer: str
) -> None:
    done, dead, later, flow = versions.output(producer, "states.py")
    with Lockwork(own_url) as lw:
        with versions.worker(consumer, "states:lw"):
            assert lw.job(done, "mail").result(timeout=60) == 8
            assert lw.flow(id=flow, queue="mail").result(timeout=60) == 12
            until(lambda: lw.job(dead, "mail").state() == "dead", "the failed job is dead")
        assert lw.job(later, "mail").state() == "scheduled"
        assert lw.job(later, "mail").cancel()


def test_states_that_the_earlier_version_wrote_are_read(versions: Versions, own_url: str) -> None:
    done, dead, later, flow = versions.output("earlier", "states.py")
    with Lockwork(own_url) as lw:
        with versions.worker("earlier", "states:lw"):
            until(lambda: lw.flow(id=flow, queue="mail").inspect().state == "succeeded", "the flow has ended")
            until(lambda: lw.job(dead, "mail").state() == "dead", "the failed job is dead")
        assert lw.job(done, "mail").result() == 8
        assert lw.flow(id=flow, queue="mail").result() == 12
        assert [job.id for job in lw.queue("mail").dead.search().jobs] == [dead]
        assert lw.job(dead, "mail").retry()
        assert lw.job(later, "mail").reschedule(delay="1ms")
        with versions.worker("this", "states:lw"):
            assert lw.job(later, "mail").result(timeout=60) == 10
            until(lambda: lw.job(dead, "mail").state() == "dead", "the retried job has failed again")


def test_holder_of_the_earlier_version_hands_its_lock_over(versions: Versions, own_url: str) -> None:
    code = "import sys\nfrom lockwork import Lockwork\nwith Lockwork() as lw, lw.lock('ledger') as grant:\n"
    process = versions.start("earlier", "-c", f"{code}    print(grant.fence, flush=True)\n    sys.stdin.read()")
    assert process.stdout is not None
    assert process.stdin is not None
    fence = int(process.stdout.readline())
    with Lockwork(own_url) as lw:
        assert lw.lock("ledger").owner() is not None
        assert lw.lock("ledger").try_acquire() is None
        with ThreadPoolExecutor(1) as waiter:
            grant = waiter.submit(lw.lock("ledger", wait=60).acquire)
            until(lambda: lw.lock("ledger").inspect().waiters == 1, "this version waits")
            process.communicate(timeout=60)
            assert grant.result(timeout=60).fence > fence
            lw.release_all()


def test_buyers_of_both_versions_share_a_stock(versions: Versions, own_url: str) -> None:
    code = "from lockwork import Lockwork\nprint(Lockwork().stock('phone', 2).reserve('ada', hold='10m').id)"
    (reservation,) = versions.output("earlier", "-c", code)
    with Lockwork(own_url) as lw:
        stock = lw.stock("phone", 2)
        stock.confirm(reservation)
        stock.reserve("bob", hold="10m")
        assert (stock.inspect().sold, stock.inspect().reserved, stock.inspect().available) == (1, 1, 0)
    sold_out = f"from lockwork import SoldOut\ntry:\n    {code.splitlines()[1]}\nexcept SoldOut:\n    print('sold-out')"
    imports = code.splitlines()[0]
    assert versions.output("earlier", "-c", f"{imports}\n{sold_out}") == ["sold-out"]
