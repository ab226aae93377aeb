"""The statements of docs/deploys.md, each with workers of two versions of an app at once."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from app_modules import load_app
from lockwork import Job, JobFailed, Lockwork, ResultUnavailable
from processes import until, worker

PATIENCE = 60
MANY = 20


class Shop:
    """Both versions of the app, as producers in this process and as workers in their own."""

    def __init__(self, url: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._url, self._folder, self._monkeypatch = url, folder, monkeypatch
        self.old, self.new = self._load("1"), self._load("2")
        self.lw: Lockwork = self.new.lw

    def _load(self, version: str) -> Any:
        self._monkeypatch.setenv("SHOP_VERSION", version)
        return load_app(self._folder, "deployed", self._url)

    @contextlib.contextmanager
    def working(self, *versions: str) -> Iterator[None]:
        """Run a worker of each version, all at once, until all have announced themselves."""
        with contextlib.ExitStack() as stack:
            for version in versions:
                self._monkeypatch.setenv("SHOP_VERSION", version)
                stack.enter_context(worker("deployed:lw", url=self._url, folder=self._folder))
                running = versions[: versions.index(version) + 1]
                until(lambda wanted=running: self._serves(wanted), f"version {version} is announced")  # type: ignore[misc]
            yield

    def _serves(self, versions: tuple[str, ...]) -> bool:
        live = {each.code for each in self.lw.workers() if each.alive}
        return {app.app_version for app in self.lw.apps() if app.code in live} >= set(versions)

    def nothing_died(self) -> bool:
        return all(self.lw.queue(name).status().dead == 0 for name in self.lw.queues())


@pytest.fixture
def shop(own_url: str, apps: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Shop]:
    both = Shop(own_url, apps, monkeypatch)
    with both.old.lw, both.new.lw:
        yield both


def results(*jobs: Job[Any]) -> set[Any]:
    return {job.result(PATIENCE) for job in jobs}


def waits(job: Job[Any]) -> bool:
    """Return True once a worker has returned the job, uncounted."""
    until(lambda: job.state() == "scheduled", "a worker returns the job")
    return job.attempts() == 0


def test_new_parameter_with_a_default(shop: Shop) -> None:
    with shop.working("1", "2"):
        plain = [task.enqueue(1) for task in (shop.old.optional, shop.new.optional) for _ in range(MANY)]
        assert results(*plain) <= {"1", "2"}
        assert results(*[shop.new.optional.enqueue(1, "hi") for _ in range(MANY)]) == {"2"}
        assert shop.nothing_died()


def test_new_parameter_without_a_default(shop: Shop) -> None:
    with shop.working("1", "2"):
        assert results(*[shop.old.required.enqueue(1) for _ in range(MANY)]) == {"1"}
        assert results(*[shop.new.required.enqueue(1, "hi") for _ in range(MANY)]) == {"2"}
        assert shop.nothing_died()
    with shop.working("2"):
        left = shop.old.required.enqueue(1)
        assert waits(left)
        with shop.working("1"):
            assert results(left) == {"1"}, "after a rollback"


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("removed_parameter", {"user": 1, "subject": "hi"}, {"user": 1}),
        ("renamed_parameter", {"user": 1}, {"member": 1}),
        ("changed_type", {"item": date(2026, 1, 1)}, {"item": UUID(int=1)}),
    ],
)
def test_call_that_fits_one_version_is_run_by_that_version(
    shop: Shop, name: str, old: dict[str, Any], new: dict[str, Any]
) -> None:
    with shop.working("1", "2"):
        assert results(*[getattr(shop.old, name).enqueue(**old) for _ in range(MANY)]) == {"1"}
        assert results(*[getattr(shop.new, name).enqueue(**new) for _ in range(MANY)]) == {"2"}
        assert shop.nothing_died()


def test_renamed_parameter_passed_by_position_fits_both(shop: Shop) -> None:
    with shop.working("2"):
        assert results(shop.old.renamed_parameter.enqueue(1)) == {"2"}


def test_changed_plain_type_is_not_noticed(shop: Shop) -> None:
    with shop.working("1"):
        assert results(shop.new.plain_type.enqueue([1])) == {"1"}


def test_changed_default_is_that_of_the_worker(shop: Shop) -> None:
    with shop.working("1", "2"):
        jobs = [task.enqueue(1) for task in (shop.old.changed_default, shop.new.changed_default) for _ in range(MANY)]
        assert results(*jobs) <= {"1 old", "2 new"}
        passed = [shop.old.changed_default.enqueue(1, subject="old") for _ in range(MANY)]
        assert results(*passed) <= {"1 old", "2 old"}
    with shop.working("2"):
        assert results(shop.old.changed_default.enqueue(1)) == {"2 new"}


def test_changed_result_is_read_by_the_callers_version(shop: Shop) -> None:
    with shop.working("2"):
        job = shop.old.changed_result.enqueue(1)
        with pytest.raises(ResultUnavailable):
            job.result(PATIENCE)
        assert shop.new.changed_result.job(job.id).result(PATIENCE) == {"version": 2}


def test_renamed_task_with_an_alias(shop: Shop) -> None:
    with shop.working("1", "2"):
        assert results(*[shop.old.renamed.enqueue(1) for _ in range(MANY)]) <= {"1", "2"}
        assert results(*[shop.new.renamed.enqueue(1) for _ in range(MANY)]) == {"2"}
        assert shop.nothing_died()
    with shop.working("1"):
        new = shop.new.renamed.enqueue(1)
        assert waits(new)
        with shop.working("2"):
            assert results(new) == {"2"}
    with shop.working("2"):
        assert results(shop.old.renamed.enqueue(1)) == {"2"}


def test_added_and_deleted_tasks_wait_for_their_version(shop: Shop) -> None:
    with shop.working("1"):
        added = shop.new.added.enqueue(1)
        assert waits(added)
    with shop.working("2"):
        deleted = shop.old.deleted.enqueue(1)
        assert waits(deleted)
        assert results(added) == {"2"}
        with shop.working("1"):
            assert results(deleted) == {"1"}
    assert shop.nothing_died()


def test_task_in_a_new_queue(shop: Shop) -> None:
    left = shop.old.moved.enqueue(1)
    assert left.queue == "before"
    with shop.working("2"):
        assert results(left, shop.old.moved.enqueue(1), shop.new.moved.enqueue(1)) == {"2"}
    with shop.working("1"):
        assert results(shop.old.moved.enqueue(1)) == {"1"}
        new = shop.new.moved.enqueue(1)
        assert new.queue == "after"
        assert new.state() == "ready", "no old worker serves the new queue"
        with shop.working("2"):
            assert results(new) == {"2"}


def test_job_has_the_options_of_the_version_that_enqueued_it(shop: Shop) -> None:
    with shop.working("1", "2"):
        for task, attempts, key in ((shop.old.options, 1, "user:1"), (shop.new.options, 2, "member:1")):
            job = task.enqueue(1)
            with pytest.raises(JobFailed, match="LookupError"):
                job.result(PATIENCE)
            assert (job.attempts(), job.inspect().key) == (attempts, key)


def test_time_limit_is_that_of_the_worker(shop: Shop) -> None:
    with shop.working("2"), pytest.raises(JobFailed, match="TimeoutError|JobTimeout"):
        shop.old.slow.enqueue().result(PATIENCE)


def test_unique_name_belongs_to_the_name_of_the_task(shop: Shop) -> None:
    jobs = [task.options(unique="{user}").enqueue(1) for task in (shop.old.renamed, shop.new.renamed)]
    assert [job.new for job in jobs] == [True, True]


def test_schedule_of_the_version_that_started_last_applies(shop: Shop) -> None:
    def cron() -> str:
        return next((each.when for each in shop.lw.schedules("default") if each.name == "nightly"), "")

    with shop.working("1"):
        until(lambda: "0 1 " in cron(), "the old line applies")
        with shop.working("2"):
            until(lambda: "0 2 " in cron(), "the new line applies")


def test_remote_call_may_fit_either_version(shop: Shop, own_url: str) -> None:
    with shop.working("1", "2"), Lockwork(own_url) as web:
        remote = web.remote_task("required")
        assert results(remote.enqueue(1), remote.enqueue(1, "hi")) == {"1", "2"}
        with pytest.raises(TypeError):
            remote.enqueue()
