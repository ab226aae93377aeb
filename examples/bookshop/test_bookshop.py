"""Tests of the bookshop without a server."""

from __future__ import annotations

from unittest.mock import ANY

import pytest

import bookshop
from bookshop import Order, PaymentDown, cancel_order, charge, place_order, report, send_mail
from lockwork import ConfigError
from lockwork.testing import LockworkFixture, fake_job

ORDER = Order(7, "ada@example.com", ["Sketches", "Notes"], 4200)


@pytest.fixture(autouse=True)
def no_mails() -> None:
    bookshop.sent.clear()


def test_a_task_is_a_function() -> None:
    send_mail("ada@example.com", "Hello", urgent=True)
    assert bookshop.sent == ["! ada@example.com: Hello"]


def test_an_async_task_runs_without_a_worker() -> None:
    assert report.run("2026-11-27") == "2026-11-27: 0 mails"


def test_charge_notes_its_progress(lockwork: LockworkFixture) -> None:
    with fake_job() as job:
        assert charge.run(ORDER) == "receipt 7 over 4200"
    assert job.progress == [{"order": 7, "done": 2}]
    assert job.checkpoints == {"receipt": "receipt 7 over 4200"}
    lockwork.assert_enqueued(send_mail, args=("ada@example.com", "Order 7 is paid"), count=1)


def test_second_attempt_does_not_charge_again(lockwork: LockworkFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(bookshop.Payments, "charge")
    with fake_job(charge, attempt=2, checkpoints={"receipt": "receipt 7"}):
        assert charge(ORDER) == "receipt 7"
    lockwork.assert_enqueued(send_mail, count=1)


def test_order_is_charged_and_reviewed_later(lockwork: LockworkFixture) -> None:
    place_order(ORDER)
    lockwork.assert_enqueued(charge, kwargs={"order": ORDER}, delay=0, count=1)
    lockwork.assert_enqueued(send_mail, delay="3d", queue="mail", key="customer:ada@example.com", count=1)


def test_arguments_may_be_matched_in_part(lockwork: LockworkFixture) -> None:
    place_order(ORDER)
    lockwork.assert_enqueued(charge, kwargs={"order": {"id": 7, "books": ["Sketches", ANY]}})


def test_free_order_is_cancelled_without_the_staff(lockwork: LockworkFixture) -> None:
    cancel_order(Order(8, "bob@example.com", [], 0))
    lockwork.assert_not_enqueued(send_mail, kwargs={"urgent": True})
    lockwork.assert_enqueued(send_mail, args=("bob@example.com",), count=1)


def test_inline_runs_everything_at_once(lockwork: LockworkFixture) -> None:
    with lockwork.inline():
        place_order(ORDER)
    assert bookshop.sent == ["ada@example.com: Order 7 is paid", "ada@example.com: How are your books?"]


def test_inline_raises_the_error_of_the_task(lockwork: LockworkFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    def down(*_: object) -> str:
        raise PaymentDown

    monkeypatch.setattr(bookshop.Payments, "charge", down)
    with lockwork.inline(), pytest.raises(PaymentDown):
        place_order(ORDER)


def test_wrong_calls_are_errors_as_in_production(lockwork: LockworkFixture) -> None:
    with pytest.raises(TypeError, match="missing a required argument: 'subject'"):
        send_mail.enqueue("ada@example.com")  # type: ignore[call-arg]
    with pytest.raises(ConfigError, match="cannot be sent as JSON"):
        report.enqueue(object())  # type: ignore[arg-type]
    assert lockwork.enqueued() == []
