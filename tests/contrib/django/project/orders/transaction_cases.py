"""Tests of the project, in Django's own test classes: when a job of a task with `on_commit` is enqueued."""

import threading
from typing import Any

from asgiref.sync import async_to_sync, sync_to_async
from django.db import connection, connections, transaction
from django.test import SimpleTestCase, TestCase, TransactionTestCase

from lockwork import ConfigError
from lockwork.contrib.django import lw

from .models import Order
from .tasks import ship

waiting = ship.options(on_commit=True)
archived = ship.options(on_commit="archive")
DATABASES = {"default", "archive"}


def enqueued() -> list[int]:
    """Return the orders of the jobs on the server, in order."""
    return [int(job.call.args[0]) for job in lw.queue().peek(100) if job.call is not None and job.call.args]


class RollBack(Exception):
    """Rolls a block back."""


class _Empty(SimpleTestCase):
    databases: Any = DATABASES

    def setUp(self) -> None:
        lw.queue().clear()


class Transactions(_Empty, TransactionTestCase):
    """Real transactions."""

    databases = DATABASES

    def test_enqueue_without_a_transaction_is_immediate(self) -> None:
        Order.objects.count()
        waiting.enqueue(1)
        assert enqueued() == [1]

    def test_job_is_enqueued_by_the_outermost_commit(self) -> None:
        with transaction.atomic():
            with transaction.atomic():
                job = waiting.enqueue(1)
                waiting.enqueue_many([(2,), (3,)])
            assert enqueued() == []
            assert job.state() == "unknown"
        assert enqueued() == [1, 2, 3]
        assert job.state() == "ready"

    def test_rollback_and_savepoint_discard_the_job(self) -> None:
        try:
            with transaction.atomic():
                waiting.enqueue(1)
                raise RollBack
        except RollBack:
            pass
        with transaction.atomic():
            try:
                with transaction.atomic():
                    waiting.enqueue(2)
                    raise RollBack
            except RollBack:
                pass
            waiting.enqueue(3)
        assert enqueued() == [3]

    def test_durable_block_enqueues_at_its_commit(self) -> None:
        with transaction.atomic(durable=True):
            waiting.enqueue(1)
            assert enqueued() == []
        assert enqueued() == [1]

    def test_option_of_one_job_overrides_that_of_the_task(self) -> None:
        with transaction.atomic():
            waiting.options(on_commit=False).enqueue(1)
            assert enqueued() == [1]

    def test_commit_of_another_database_counts_if_only_that_is_open(self) -> None:
        with transaction.atomic(using="archive"):
            waiting.enqueue(1)
            assert enqueued() == []
        assert enqueued() == [1]

    def test_all_open_databases_must_commit(self) -> None:
        with transaction.atomic():
            with transaction.atomic(using="archive"):
                waiting.enqueue(1)
            assert enqueued() == []
        assert enqueued() == [1]
        try:
            with transaction.atomic():
                with transaction.atomic(using="archive"):
                    waiting.enqueue(2)
                raise RollBack
        except RollBack:
            pass
        assert enqueued() == [1]

    def test_named_database_alone_counts(self) -> None:
        with transaction.atomic(using="archive"):
            with transaction.atomic():
                archived.enqueue(1)
            assert enqueued() == []
        assert enqueued() == [1]
        with transaction.atomic():
            archived.enqueue(2)
            assert enqueued() == [1, 2]

    def test_transaction_of_another_thread_does_not_count(self) -> None:
        def enqueue() -> None:
            waiting.enqueue(1)
            connections.close_all()

        with transaction.atomic():
            thread = threading.Thread(target=enqueue)
            thread.start()
            thread.join()
            assert enqueued() == [1]

    def test_aenqueue_waits_for_the_transaction_around_it(self) -> None:
        async def enqueue() -> None:
            await waiting.aenqueue(1)
            await waiting.aenqueue_many([(2,)])

        with transaction.atomic():
            async_to_sync(enqueue)()
            assert enqueued() == []
        assert enqueued() == [1, 2]
        async_to_sync(enqueue)()
        assert sorted(enqueued()) == [1, 1, 2, 2]

    def test_manual_transaction_is_an_error(self) -> None:
        transaction.set_autocommit(False)
        try:
            self.assertRaises(transaction.TransactionManagementError, waiting.enqueue, 1)  # noqa: PT027
        finally:
            transaction.rollback()
            transaction.set_autocommit(True)

    def test_unknown_database_is_refused_at_once(self) -> None:
        with self.assertRaisesMessage(ConfigError, "did you mean 'archive'?"):
            ship.options(on_commit="archiv")

    def test_headers_are_those_of_the_enqueue(self) -> None:
        with transaction.atomic():
            job = waiting.options(delay=60).enqueue(1)
        assert job.state() == "scheduled"


class Tested(_Empty, TestCase):
    """The transactions of `TestCase`, which never commit."""

    databases = DATABASES

    def test_captured_callbacks_enqueue(self) -> None:
        with self.captureOnCommitCallbacks(execute=True) as callbacks:
            with transaction.atomic():
                waiting.enqueue(1)
            waiting.enqueue(2)
            assert enqueued() == []
        assert len(callbacks) == 2
        assert enqueued() == [1, 2]

    def test_nothing_is_enqueued_without_capture(self) -> None:
        waiting.enqueue(1)
        assert enqueued() == []

    def test_callbacks_of_a_named_database_are_captured(self) -> None:
        with self.captureOnCommitCallbacks(using="archive", execute=True):
            archived.enqueue(1)
        assert enqueued() == [1]

    async def test_async_enqueue_waits_for_the_transaction_of_the_test(self) -> None:
        await waiting.aenqueue(1)
        callbacks = await sync_to_async(lambda: [each[1] for each in connection.run_on_commit])()
        assert await sync_to_async(enqueued)() == []
        for callback in callbacks:
            await sync_to_async(callback)()
        assert await sync_to_async(enqueued)() == [1]

    def test_job_that_runs_inline_leaves_the_transaction_open(self) -> None:
        order = Order.objects.create()
        ship(order.pk)
        order.refresh_from_db()
        assert order.state == "shipped"
