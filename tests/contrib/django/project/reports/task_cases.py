"""Tests of the project, in Django's own test classes: the backend of tasks, with a worker in this process.

Their names begin with what Django's own tests of backends cover; the others follow.
"""

import asyncio
import copy
import os
import pickle
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from importlib import import_module
from pathlib import Path
from typing import Any
from unittest.mock import patch

import django
import pytest
from django.core import checks
from django.db import connections, transaction
from django.test import SimpleTestCase, TestCase, TransactionTestCase, override_settings
from django.utils import timezone

from lockwork import current_job
from lockwork.contrib.django import lw
from lockwork.contrib.django.tasks.observer import JobObserver
from lockwork.jobs.current import JobContext
from lockwork.protocol.keys import QueueKeys
from lockwork.worker.embedded import embedded_worker

from . import tasks as reports_tasks

sys.path.append(str(Path(__file__).parents[4]))  # the helpers of the tests
client_of: Any = import_module("clients").client_of

FRAMEWORK = "django.tasks" if django.VERSION >= (6,) else "django_tasks"
django_tasks: Any = import_module(FRAMEWORK)
exceptions: Any = import_module(f"{FRAMEWORK}.exceptions")
signals: Any = import_module(f"{FRAMEWORK}.signals")
InvalidTask: Any = getattr(exceptions, "InvalidTask", None) or exceptions.InvalidTaskError
tasks: Any = reports_tasks
aecho, ain_context, echo, fail = tasks.aecho, tasks.ain_context, tasks.echo, tasks.fail
in_context, in_slow, where = tasks.in_context, tasks.in_slow, tasks.where
READY, RUNNING, FAILED, SUCCESSFUL = ("READY", "RUNNING", "FAILED", "SUCCESSFUL")
BACKEND = "lockwork.contrib.django.tasks.LockworkBackend"
QUEUES = ["default", "slow", "third"]
task: Any = django_tasks.task
task_backends: Any = django_tasks.task_backends


def using(**options: Any) -> Any:
    """Use other OPTIONS for the default backend."""
    return override_settings(
        TASKS={
            "default": {"BACKEND": BACKEND, "QUEUES": QUEUES, "OPTIONS": options},
            "other": {"BACKEND": BACKEND, "QUEUES": QUEUES},
            "immediate": {"BACKEND": f"{FRAMEWORK}.backends.immediate.ImmediateBackend"},
        }
    )


def work() -> None:
    """Run all jobs that can run now."""
    embedded_worker(lw, burst=True).run()


def until(condition: Any) -> None:
    """Wait until it is true."""
    end = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


@contextmanager
def worker() -> Iterator[None]:
    """Run a worker in a thread."""
    running = embedded_worker(lw)
    thread = threading.Thread(target=running.run)
    thread.start()
    try:
        yield
    finally:
        running.stop()
        thread.join()


@contextmanager
def received(name: str) -> Iterator[list[Any]]:
    """Collect the results that a signal sends."""
    found: list[Any] = []

    def receive(sender: type, task_result: Any, **_: Any) -> None:
        found.append((task_result.id, str(task_result.status), sender.__name__))

    signal = getattr(signals, name)
    signal.connect(receive)
    try:
        yield found
    finally:
        signal.disconnect(receive)


class Empty(SimpleTestCase):
    """Empty queues before each test."""

    def setUp(self) -> None:
        for name in QUEUES:
            lw.queue(name).clear()


class Enqueuing(Empty):
    """Results of `enqueue` and `get_result` before a worker runs."""

    def test_result_is_ready_and_found_again(self) -> None:
        before = timezone.now() - timedelta(milliseconds=2)
        result = echo.enqueue(1, a=2)
        assert (result.status, result.args, result.kwargs, result.task) == (READY, [1], {"a": 2}, echo)
        assert 0 < len(result.id) < 64
        assert result.enqueued_at is not None
        assert before <= result.enqueued_at <= timezone.now()
        assert (result.started_at, result.finished_at, result.last_attempted_at) == (None, None, None)
        assert (result.errors, result.worker_ids, result.attempts, result.backend) == ([], [], 0, "default")
        assert not result.is_finished
        with self.assertRaisesMessage(ValueError, "Task has not finished yet"):
            result.return_value  # noqa: B018
        assert echo.get_result(result.id) == result == task_backends["default"].get_result(result.id)

    async def test_async_versions(self) -> None:
        result = await echo.aenqueue(1)
        assert await echo.aget_result(result.id) == result
        await result.arefresh()
        assert result.status == READY

    def test_flags(self) -> None:
        backend = task_backends["default"]
        for flag in ("defer", "async_task", "get_result", "priority"):
            assert getattr(backend, f"supports_{flag}") is True

    def test_arguments_become_json(self) -> None:
        result = echo.enqueue((1, 2), b"text", a={"b": (3,)})
        assert (result.args, result.kwargs) == ([[1, 2], "text"], {"a": {"b": [3]}})
        for value in (object(), {1, 2}, datetime.now(UTC)):
            with pytest.raises((TypeError, ValueError)):
                echo.enqueue(value)
        assert lw.queue().status().ready == 1

    def test_call_that_does_not_fit_is_refused(self) -> None:
        with pytest.raises(TypeError):
            where.enqueue(1)
        with pytest.raises(TypeError):
            in_context.enqueue(1, 2, 3)
        assert lw.queue().status().ready == 0

    def test_using_changes_queue_priority_and_time(self) -> None:
        later = timezone.now() + timedelta(hours=1)
        chosen = echo.using(queue_name="slow", priority=70, run_after=later)
        result = chosen.enqueue()
        assert result.task == chosen
        again = chosen.get_result(result.id)
        assert again == result
        assert (again.task.queue_name, again.task.priority, again.task.run_after) == ("slow", 70, later)
        seen = lw.job(result.id).inspect()
        assert (seen.queue, seen.priority, seen.state) == ("slow", "high", "scheduled")
        assert seen.due is not None
        assert abs(seen.due - later) < timedelta(seconds=1)
        assert echo.using(priority=0).priority == 0

    def test_priorities_are_three_levels(self) -> None:
        levels = {number: echo.using(priority=number).enqueue().id for number in (-100, -1, 0, 1, 100)}
        found = {number: lw.job(id).inspect().priority for number, id in levels.items()}
        assert found == {-100: "low", -1: "low", 0: "normal", 1: "high", 100: "high"}
        assert [echo.get_result(id).task.priority for id in levels.values()] == list(levels)
        assert lw.job(in_slow.enqueue().id).inspect().priority == "low"

    def test_wrong_values_are_invalid(self) -> None:
        naive = datetime(2030, 1, 1)  # noqa: DTZ001
        for changes in (
            {"queue_name": "unknown"},
            {"priority": 101},
            {"priority": -101},
            {"priority": 1.5},
            {"run_after": naive},
            {"run_after": timezone.now() + timedelta(days=1000)},
        ):
            with pytest.raises(InvalidTask):
                echo.using(**changes)

    @override_settings(USE_TZ=False, TIME_ZONE="Asia/Tokyo")
    def test_naive_times_are_of_the_project(self) -> None:
        local = datetime.now(UTC).astimezone(timezone.get_default_timezone()).replace(tzinfo=None)
        result = echo.using(run_after=local + timedelta(hours=1)).enqueue()
        seen = lw.job(result.id).inspect()
        assert seen.due is not None
        assert abs(seen.due - datetime.now(UTC) - timedelta(hours=1)) < timedelta(seconds=5)
        again = echo.get_result(result.id)
        assert again == result
        assert again.enqueued_at is not None
        assert timezone.is_naive(again.enqueued_at)
        assert abs(again.enqueued_at - local) < timedelta(seconds=5)

    def test_functions_that_cannot_be_tasks(self) -> None:
        with pytest.raises(InvalidTask):
            task(lambda: None)

        def inner() -> None: ...

        for each in (inner, 1):
            with pytest.raises((InvalidTask, TypeError, AttributeError)):
                task(each)
        with self.assertRaisesMessage(InvalidTask, "context"):
            task(takes_context=True)(tasks.where.func)

    def test_ids_without_a_result(self) -> None:
        backend, other = task_backends["default"], task_backends["other"]

        @lw.task(name="own")
        def own() -> None: ...

        result = echo.using(backend="other").enqueue()
        assert result.backend == "other"
        directly = other.enqueue(echo, [1], {})
        assert (directly.backend, other.get_result(directly.id).backend) == ("other", "other")
        assert other.get_result(result.id) == result
        for id in ("123", "", "a b", "x" * 500, "{}", own.enqueue().id, result.id):
            with pytest.raises(exceptions.TaskResultDoesNotExist):
                backend.get_result(id)
        with pytest.raises(exceptions.TaskResultMismatch):
            where.get_result(echo.enqueue().id)

    async def test_ids_without_a_result_async(self) -> None:
        with pytest.raises(exceptions.TaskResultDoesNotExist):
            await echo.aget_result("123")

    def test_enqueued_is_sent_once(self) -> None:
        with received("task_enqueued") as sent:
            result = echo.enqueue()
        assert sent == [(result.id, READY, "LockworkBackend")]

    def test_error_of_a_receiver_does_not_hide_the_job(self) -> None:
        def receive(**_: Any) -> None:
            raise RuntimeError

        signals.task_enqueued.connect(receive)
        try:
            with self.assertLogs("django.dispatch", "ERROR"):
                assert echo.get_result(echo.enqueue().id).status == READY
        finally:
            signals.task_enqueued.disconnect(receive)

    def test_tasks_are_hashable_and_picklable(self) -> None:
        for each in (echo, echo.using(priority=3, queue_name="slow")):
            again = pickle.loads(pickle.dumps(each))
            assert again == each
            assert hash(again) == hash(each)
            assert "UNSET" not in repr(each)
        result = echo.enqueue(1)
        assert copy.deepcopy(result) == result


class Checks(SimpleTestCase):
    """The settings; nothing here may call the server."""

    def test_checks_need_no_server(self) -> None:
        with using():
            found = [each for each in checks.run_checks() if "E003" in str(each.id)]
        assert found == []

    def test_wrong_options_are_errors_with_a_suggestion(self) -> None:
        for options, text in (
            ({"retires": 3}, "or 'retries'?"),
            ({"max_retries": 3}, "did you mean 'retries'?"),
            ({"retries": -1}, "retries"),
            ({"result_ttl": None}, "result_ttl"),
            ({"on_commit": "archiv"}, "did you mean 'archive'?"),
            ({"queue": "x"}, "use queue_name"),
        ):
            with using(**options):
                (found,) = task_backends["default"].check()
                assert text in str(found.msg)
                assert found.id == "lockwork.E003"
                with self.assertRaisesMessage(InvalidTask, text):
                    echo.using(priority=1)


class TaskOptions(Empty):
    """Options of `@task(...)` and `using(...)`, where Django has `task_class`."""

    def setUp(self) -> None:
        super().setUp()
        try:
            made = task(retries=1)(tasks.asleep.func)
        except TypeError:
            self.skipTest("this version of Django has no task_class")
        assert made.retries == 1

    def test_wrong_name_is_invalid_with_a_suggestion(self) -> None:
        for options, text in (
            ({"retires": 1}, "or 'retries'?"),
            ({"countdown": 1}, "use run_after"),
            ({"delay": 1}, "use run_after"),
            ({"queue": "slow"}, "use queue_name"),
            ({"retries": -1}, "retries"),
        ):
            with self.assertRaisesMessage(InvalidTask, text):
                task(**options)(tasks.sleep.func)
            with self.assertRaisesMessage(InvalidTask, text):
                tasks.sleep.using(**options)
        with self.assertRaisesMessage(InvalidTask, "executor"):
            tasks.sleep.using(executor="process")

    def test_options_reach_the_job(self) -> None:
        chosen = tasks.sleep.using(retries=5, key="order:{seconds}", timeout=30, tags=["a"], hard_timeout=60)
        result = chosen.enqueue(7)
        seen = lw.job(result.id).inspect()
        assert (seen.key, seen.tags) == ("order:7", ("a",))
        again = chosen.get_result(result.id)
        assert again.task.retries == 5
        assert again.task.key == "order:{seconds}"
        assert pickle.loads(pickle.dumps(chosen)) == chosen
        assert len({chosen, chosen.using(priority=1), chosen.using()}) == 2

    def test_unique_call_returns_the_first_result(self) -> None:
        chosen = echo.using(unique="report:{args}")
        with received("task_enqueued") as sent:
            first, second = chosen.enqueue(1), chosen.enqueue(1)
        assert first.id == second.id
        assert len(sent) == 1
        assert second.args == [1]

    def test_retries_keep_every_error(self) -> None:
        result = in_context.using(retries=3, backoff=0.001).enqueue(2)
        with received("task_started") as started, received("task_finished") as finished:
            with worker():
                until(lambda: in_context.get_result(result.id).is_finished)
        assert [each[0] for each in started] == [result.id] * 3
        assert finished == [(result.id, SUCCESSFUL, "LockworkBackend")]
        result.refresh()
        assert result.return_value == [3, result.id, RUNNING, 3, 2]
        assert [each.exception_class for each in result.errors] == [tasks.ReportError] * 2
        assert [each.traceback.rstrip().rpartition(" ")[2] for each in result.errors] == ["1", "2"]
        assert result.attempts == 3
        assert all(result.worker_ids)
        assert result.started_at is not None
        assert result.last_attempted_at is not None
        assert result.finished_at is not None
        assert result.started_at < result.last_attempted_at <= result.finished_at


class Running(Empty):
    """Tasks in a worker."""

    def test_success(self) -> None:
        result = echo.enqueue(1, [2], a=3)
        with received("task_started") as started, received("task_finished") as finished:
            work()
        assert started == [(result.id, RUNNING, "LockworkBackend")]
        assert finished == [(result.id, SUCCESSFUL, "LockworkBackend")]
        again = echo.get_result(result.id)
        assert (again.status, again.return_value, again.args, again.kwargs) == (
            SUCCESSFUL,
            [[1, [2]], {"a": 3}],
            [1, [2]],
            {"a": 3},
        )
        assert again.is_finished
        assert again.attempts == 1
        assert again.errors == []
        assert again.enqueued_at == result.enqueued_at
        assert again.started_at is not None
        assert again.started_at == again.last_attempted_at
        assert again.finished_at is not None
        assert again.started_at <= again.finished_at <= timezone.now()
        result.refresh()
        assert result == again
        # the job of Lockwork has the value itself
        assert lw.job(result.id).result(timeout=0) == again.return_value

    def test_failure(self) -> None:
        result = fail.enqueue("chain")
        with received("task_finished") as finished, self.assertLogs(signals.logger, "ERROR") as logs:
            work()
        assert finished == [(result.id, FAILED, "LockworkBackend")]
        assert "the second" in "".join(logs.output)
        result.refresh()
        (error,) = result.errors
        assert (result.status, error.exception_class) == (FAILED, tasks.ReportError)
        assert "ValueError: the first" in error.traceback
        assert "ReportError: the second" in error.traceback
        assert error.traceback.count("tasks.py") == 2
        assert "lockwork" not in error.traceback
        assert result.attempts == 1
        assert result.finished_at is not None
        assert result.started_at is not None
        with self.assertRaisesMessage(ValueError, "Task failed"):
            result.return_value  # noqa: B018

    def test_class_of_an_error_can_be_imported(self) -> None:
        kinds = {"nested": Exception, "local": KeyError, "exit": SystemExit, "x": tasks.ReportError}
        results = {kind: fail.enqueue(kind) for kind in kinds}
        results["loop"] = tasks.afail.enqueue()
        work()
        for kind, result in results.items():
            result.refresh()
            assert [each.exception_class for each in result.errors] == [kinds.get(kind, tasks.ReportError)], kind

    def test_value_that_json_cannot_hold(self) -> None:
        result = tasks.returns_object.enqueue()
        work()
        result.refresh()
        assert (result.status, result.attempts) == (FAILED, 1)
        assert result.errors[0].exception_class is TypeError

    def test_context(self) -> None:
        result, async_result = in_context.enqueue(), ain_context.enqueue()
        work()
        result.refresh()
        assert result.return_value == [1, result.id, RUNNING, 1, 0]
        assert ain_context.get_result(async_result.id).return_value == 1

    def test_task_runs_once_unless_told_otherwise(self) -> None:
        result = fail.enqueue()
        work()
        assert fail.get_result(result.id).attempts == 1
        with using(retries=2, backoff=0.001):
            again = fail.enqueue()
            with worker():
                until(lambda: fail.get_result(again.id).is_finished)
            assert len(fail.get_result(again.id).errors) == 3

    def test_annotations_convert_nothing(self) -> None:
        result = tasks.annotated.enqueue("7", "tomorrow")
        work()
        assert tasks.annotated.get_result(result.id).return_value == "str"

    def test_async_task_runs_on_the_loop(self) -> None:
        result = aecho.enqueue({"a": [None]})
        work()
        assert aecho.get_result(result.id).return_value == {"a": [None]}

    def test_worker_serves_all_queues(self) -> None:
        results = [where.using(queue_name=name).enqueue() for name in QUEUES] + [in_slow.enqueue()]
        work()
        assert [where.get_backend().get_result(each.id).return_value for each in results] == [*QUEUES, "slow"]

    @override_settings(TASKS={"default": {"BACKEND": BACKEND, "QUEUES": []}})
    def test_empty_list_of_queues_allows_any(self) -> None:
        result = where.using(queue_name="any").enqueue()
        assert where.get_result(result.id) == result
        embedded_worker(lw, ["any"], burst=True).run()
        assert where.get_result(result.id).return_value == "any"

    def test_task_of_another_backend(self) -> None:
        result = tasks.immediate.using(backend="default").enqueue(21)
        assert result.status == READY
        work()
        assert task_backends["default"].get_result(result.id).return_value == 42

    def test_both_kinds_run_in_one_worker(self) -> None:
        @lw.task(name="plain")
        def plain() -> int:
            return 1

        job, result = plain.enqueue(), echo.enqueue()
        work()
        assert job.result(timeout=0) == 1
        assert echo.get_result(result.id).status == SUCCESSFUL
        assert kept_ms(job.id) < 0
        assert kept_ms(result.id) > 0

    def test_task_that_is_not_imported_is_not_run(self) -> None:
        other = type(lw)(lw_url(), prefix=lw.config.prefix, codec=lw.config.codec)

        def system(command: str) -> None: ...

        try:
            made = other.task(name="os.system")(system)
            id = made.tracking({"django": {"backend": "default"}}, 60_000).enqueue("true").id
        finally:
            other.close()
        with worker():
            after = echo.enqueue()  # in another library, the worker stopped at the first task that it could not import
            until(lambda: echo.get_result(after.id).is_finished)
        with pytest.raises(exceptions.TaskResultDoesNotExist):
            echo.get_result(id)
        assert lw.job(id).state() in ("scheduled", "ready")

    def test_cancelled_expired_and_dead_have_failed(self) -> None:
        waiting, running = tasks.asleep.enqueue(60), tasks.asleep.enqueue(60)
        lw.job(waiting.id).cancel()
        waiting.refresh()
        assert (waiting.status, waiting.args, waiting.attempts) == (FAILED, [60], 0)
        assert [each.exception_class.__name__ for each in waiting.errors] == ["JobCancelled"]
        with received("task_finished") as finished, worker():
            until(lambda: tasks.asleep.get_result(running.id).status == RUNNING)
            seen = tasks.asleep.get_result(running.id)
            assert (seen.attempts, bool(seen.worker_ids[0]), seen.finished_at) == (1, True, None)
            lw.job(running.id).cancel()
            until(lambda: len(finished) == 2)
        running.refresh()
        assert finished == [(each.id, FAILED, "LockworkBackend") for each in (waiting, running)]
        assert (running.status, running.args, running.attempts) == (FAILED, [60], 1)
        assert [each.exception_class.__name__ for each in running.errors] == ["JobCancelled"]
        assert lw.job(running.id).retry()
        running.refresh()
        assert (running.status, running.errors, running.finished_at) == (READY, [], None)
        lw.job(running.id).delete()
        with using(expires=0.01):
            expired = echo.enqueue(1)
            time.sleep(0.05)
            expired.refresh()
        assert (expired.status, expired.args) == (FAILED, [1])
        assert [each.exception_class.__name__ for each in expired.errors] == ["JobExpired"]

    def test_attempt_cancelled_while_it_is_noted_has_not_failed(self) -> None:
        note = JobObserver._begin

        async def before(observer: JobObserver, job: JobContext) -> None:
            begins.set()
            await asyncio.Event().wait()

        async def after(observer: JobObserver, job: JobContext) -> None:
            await note(observer, job)
            del job.observed
            begins.set()
            await asyncio.Event().wait()

        for begin in (before, after):
            begins = threading.Event()
            with patch.object(JobObserver, "_begin", begin), received("task_finished") as finished, worker():
                result = tasks.asleep.enqueue(60)
                assert begins.wait(30)
                lw.job(result.id).cancel()
                until(lambda: finished)
            for _ in range(2):
                result.refresh()
                assert (result.status, result.attempts) == (FAILED, 1)
                assert [each.exception_class.__name__ for each in result.errors] == ["JobCancelled"]
                forget_outcomes()

    def test_jobs_that_end_while_they_wait_finish_once(self) -> None:
        with received("task_finished") as finished:
            with worker():
                cancelled = echo.using(run_after=timezone.now() + timedelta(hours=1)).enqueue(1)
                lw.job(cancelled.id).cancel()
                until(lambda: finished)
            assert finished == [(cancelled.id, FAILED, "LockworkBackend")]
            with using(expires=0.01):
                expired = echo.enqueue(2)
                time.sleep(0.05)
            work()
            work()
        assert finished[1:] == [(expired.id, FAILED, "LockworkBackend")]

    def test_end_of_a_waiting_job_is_kept_for_the_time_of_the_task(self) -> None:
        before = timezone.now() - timedelta(milliseconds=2)
        for reported in (False, True):
            with using(expires=0.01, result_ttl="2h"):
                results = [
                    in_context.using(run_after=timezone.now() + timedelta(hours=1)),
                    in_context.using(priority=9),
                ]
                if django.VERSION >= (6, 1) or FRAMEWORK == "django_tasks":
                    results[0] = results[0].using(expires=None)
                cancelled, expired = [each.enqueue(7) for each in results]
                lw.job(cancelled.id).cancel()
                time.sleep(0.05)
                expired.refresh()
                if reported:
                    work()
                forget_outcomes()
                for result, error in ((cancelled, "JobCancelled"), (expired, "JobExpired")):
                    result.refresh()
                    assert (result.status, result.args, result.attempts, result.worker_ids) == (FAILED, [7], 0, [])
                    assert [each.exception_class.__name__ for each in result.errors] == [error]
                    assert (result.started_at, result.last_attempted_at) == (None, None)
                    assert result.finished_at is not None
                    assert before < result.finished_at <= timezone.now()
                    if reported:
                        assert 7_190_000 < kept_ms(result.id) <= 7_260_000

    def test_attempts_before_a_cancellation_are_kept(self) -> None:
        with using(retries=5, backoff=600):
            result = in_context.enqueue(9)
            work()
            lw.job(result.id).cancel()
            for _ in range(2):
                result.refresh()
                names = [each.exception_class.__name__ for each in result.errors]
                assert (result.status, names) == (FAILED, ["ReportError", "JobCancelled"])
                assert "attempt 1" in result.errors[0].traceback
                assert (result.attempts, len(result.worker_ids)) == (1, 1)
                assert result.last_attempted_at is not None
                assert result.finished_at is not None
                assert result.last_attempted_at < result.finished_at
                work()
                forget_outcomes()

    def test_task_that_waits_longer_than_its_result_is_kept(self) -> None:
        with using(retries=1, backoff=600, result_ttl="1h"):
            result = in_context.enqueue(9)
            work()
            assert kept_ms(result.id) > 86_400_000, "the facts about its first attempt outlive its pause"

    def test_result_ttl_of_the_app(self) -> None:
        chosen = echo
        with using(result_ttl="2h"):
            if not hasattr(chosen, "result_ttl"):
                return
            result = chosen.using(result_ttl=None).enqueue(1)
            with received("task_finished") as finished:
                work()
            result.refresh()
            assert result.return_value == [[1], {}]
            assert len(finished) == 1
            assert 590_000 < kept_ms(result.id) <= 660_000

    def test_timeouts_are_errors(self) -> None:
        with using(timeout=0.05):
            results = [tasks.asleep.enqueue(30), tasks.sleep.enqueue(0.5)]
            work()
            for each in results:
                each.refresh()
                assert each.errors[0].exception_class_path == "lockwork.errors.JobTimeout", each.errors
                assert each.status == FAILED

    def test_errors_outlive_the_dead_job(self) -> None:
        with using(retries=2, backoff=0.001):
            result = fail.enqueue("x")
            with worker():
                until(lambda: fail.get_result(result.id).is_finished)
            result.refresh()
            assert len(result.errors) == 3
            assert all("for a x" in each.traceback for each in result.errors)
            assert lw.job(result.id).delete()
            again = fail.get_result(result.id)
            assert (again.status, again.errors, again.args) == (FAILED, result.errors, ["x"])

    def test_result_is_kept_for_its_time(self) -> None:
        with using(result_ttl="2h"):
            result = echo.enqueue()
            work()
            kept = kept_ms(result.id)
            assert 7_190_000 < kept <= 7_260_000
        result = echo.enqueue()
        work()
        assert 86_000_000 < kept_ms(result.id) <= 86_460_000

    def test_deleted_result_does_not_exist(self) -> None:
        result = echo.enqueue()
        lw.job(result.id).delete()
        with pytest.raises(exceptions.TaskResultDoesNotExist):
            result.refresh()

    def test_task_that_changes_its_arguments(self) -> None:
        result = tasks.changes_arguments.enqueue([1], {"a": 1})
        work()
        again = tasks.changes_arguments.get_result(result.id)
        assert (again.args, again.return_value) == ([[1], {"a": 1}], [[1, 2], {}])

    def test_texts_that_other_stores_refuse(self) -> None:
        text = "a\x00b\u2028'\";--"
        result, failed = echo.enqueue(text), tasks.fail_with.enqueue(text + "\\udc80")
        long = tasks.fail_with.enqueue("x" * 300_000)
        work()
        assert echo.get_result(result.id).return_value == [[text], {}]
        assert "a\x00b" in tasks.fail_with.get_result(failed.id).errors[0].traceback
        found = tasks.fail_with.get_result(long.id)
        assert found.args == ["x" * 300_000]
        assert 10_000 < len(found.errors[0].traceback) < 100_000
        assert found.errors[0].exception_class is tasks.ReportError

    def test_task_of_the_main_module_is_refused(self) -> None:
        def function() -> None: ...

        function.__module__, function.__qualname__ = "__main__", "function"
        made = task(function)
        with self.assertRaisesMessage(InvalidTask, "no worker imports it"):
            made.enqueue()

    def test_receivers_run_in_a_thread_of_the_job(self) -> None:
        seen: list[Any] = []

        def receive(task_result: Any, **_: Any) -> None:
            seen.append((threading.current_thread() is not main, current_job().id))

        main = threading.current_thread()
        signals.task_started.connect(receive)
        signals.task_finished.connect(receive)
        try:
            result = echo.enqueue()
            work()
        finally:
            signals.task_started.disconnect(receive)
            signals.task_finished.disconnect(receive)
        assert seen == [(True, result.id)] * 2


def lw_url() -> str:
    """Return the address of the server."""
    return os.environ["LOCKWORK_URL"]


def kept_ms(id: str) -> int:
    """Return for how long the facts about a job are kept; negative without any."""
    with closing(client_of(lw_url())) as client:
        return int(client.pttl(QueueKeys(lw.config.prefix, "default").kept(id)))


def forget_outcomes() -> None:
    """Delete what the queue keeps for the app's `result_ttl`, and its history."""
    queue = QueueKeys(lw.config.prefix, "default")
    with closing(client_of(lw_url())) as client:
        client.delete(*queue.results, queue.history, queue.history_order)


class Transactions(TransactionTestCase):
    """Real transactions."""

    databases: Any = frozenset({"default", "archive"})

    def setUp(self) -> None:
        lw.queue().clear()

    def test_enqueue_does_not_wait_without_the_option(self) -> None:
        with transaction.atomic():
            result = echo.enqueue()
            assert echo.get_result(result.id).status == READY

    def test_enqueue_waits_for_the_commit(self) -> None:
        with using(on_commit=True), received("task_enqueued") as sent:
            with transaction.atomic():
                result = echo.enqueue(1)
                with pytest.raises(exceptions.TaskResultDoesNotExist):
                    result.refresh()
                assert sent == []
            assert sent == [(result.id, READY, "LockworkBackend")]
            assert echo.get_result(result.id) == result
            with pytest.raises(ZeroDivisionError), transaction.atomic():
                lost = echo.enqueue(2)
                raise ZeroDivisionError
            with pytest.raises(exceptions.TaskResultDoesNotExist):
                lost.refresh()
            assert len(sent) == 1
            result = echo.enqueue(3)
            assert sent[1:] == [(result.id, READY, "LockworkBackend")]

    def test_alias_names_the_database(self) -> None:
        with using(on_commit="archive"):
            with transaction.atomic():
                assert echo.get_result(echo.enqueue().id).status == READY
            with transaction.atomic(using="archive"):
                with pytest.raises(exceptions.TaskResultDoesNotExist):
                    echo.enqueue().refresh()


class InTestCase(TestCase):
    """A transaction that never commits."""

    def test_captured_callbacks_enqueue(self) -> None:
        with using(on_commit=True):
            with self.captureOnCommitCallbacks(execute=True), received("task_enqueued") as sent:
                result = echo.enqueue(1)
                assert sent == []
            assert echo.get_result(result.id) == result

    def test_worker_leaves_the_connection_of_the_test(self) -> None:
        """RealOrangeOne/django-tasks-db#56: the worker closed it."""
        connection = connections["default"]
        connection.ensure_connection()
        result = echo.enqueue()
        work()
        assert echo.get_result(result.id).status == SUCCESSFUL
        assert connection.connection is not None
        assert connection.in_atomic_block
        connection.check_constraints()
