"""The lease table: no lease is renewed late, lost twice or left behind."""

from __future__ import annotations

import random
import threading
from itertools import pairwise

import pytest

from lockwork.protocol.locks.grants import Granted, Renewal
from lockwork.protocol.locks.leases import RETRY, Lease, LeaseBook


def lease(
    now: float, seconds: float = 15.0, *, renewed: bool = True, lost: list[str] | None = None, key: str = "k"
) -> Lease:
    told = (lambda: lost.append(key)) if lost is not None else (lambda: None)
    renewal = Renewal(key, "owner", 1, round(seconds * 1000))
    return Lease(renewal, Granted(1, now + seconds), now, renewed=renewed, on_lost=told)


def renew(book: LeaseBook, leases: list[Lease], now: float, seconds: float = 15.0) -> None:
    book.renewed(leases, [now + seconds] * len(leases), now)


def test_empty_lease_table_plans_nothing() -> None:
    book = LeaseBook()
    assert book.next_event() is None
    assert book.first_deadline() is None
    assert book.due(1e9) == []


@pytest.mark.parametrize("seconds", [0.003, 0.2, 1, 15, 600, 1e6])
def test_lease_is_due_at_a_third_or_slightly_earlier(seconds: float) -> None:
    book = LeaseBook()
    book.add(lease(1000.25, seconds))
    at = book.next_event()
    assert at is not None
    first = min(seconds / 3, 1.0)  # a lease of more than a second is checked within its first second
    assert 1000.25 + first * 7 / 8 <= at <= 1000.25 + first


@pytest.mark.parametrize("seconds", [0.003, 0.2, 1, 15, 600])
def test_unrenewed_lease_is_lost_exactly_at_its_deadline(seconds: float) -> None:
    lost: list[str] = []
    book = LeaseBook()
    entry = lease(77.7, seconds, renewed=False, lost=lost)
    book.add(entry)
    looks = 0
    while not entry.lost:
        now = book.next_event()
        assert now is not None
        assert now <= entry.deadline
        assert book.due(now) == []
        looks += 1
    assert now == entry.deadline
    assert lost == ["k"]
    assert looks <= 12
    assert book.next_event() is None


def test_leases_that_began_within_a_while_are_renewed_together() -> None:
    book = LeaseBook()
    for number in range(10_000):
        book.add(lease(number / 2000))
    calls, now = 0, 0.0
    while now < 30:
        at = book.next_event()
        assert at is not None
        now = at
        due = book.due(now)
        calls += 1
        assert len(due) >= 900 or now < 8, "once they were all renewed a first time"
        renew(book, due, now)
    assert calls <= 150


def test_first_deadline_is_never_too_late() -> None:
    book = LeaseBook()
    random.seed(7)
    leases = [lease(100.0, random.uniform(0.01, 60), renewed=random.random() < 0.5) for _ in range(500)]
    for entry in leases:
        book.add(entry)
    while leases:
        first = book.first_deadline()
        earliest = min(entry.deadline for entry in leases)
        assert first is not None
        assert first <= earliest
        assert first >= earliest - 60 / 8
        book.remove(leases.pop(random.randrange(len(leases))))
    assert book.first_deadline() is None


def test_lease_under_renewal_counts_for_the_first_deadline() -> None:
    book = LeaseBook()
    book.add(lease(0.0, 3.0))
    due = book.due(1.0)
    assert len(due) == 1
    first = book.first_deadline()
    assert first is not None
    assert 2.5 <= first <= 3.0


def test_without_an_answer_it_is_tried_again_until_the_deadline_and_then_lost() -> None:
    lost: list[str] = []
    book = LeaseBook()
    entry = lease(0.0, lost=lost)
    book.add(entry)
    tries = []
    while not entry.lost:
        now = book.next_event()
        assert now is not None
        due = book.due(now)
        if due:
            tries.append(now)
            book.postponed(due, now)
    assert now == pytest.approx(15.0)
    assert all(later - earlier <= RETRY for earlier, later in pairwise(tries))
    assert lost == ["k"]


def test_released_lease_is_neither_renewed_nor_lost() -> None:
    lost: list[str] = []
    book = LeaseBook()
    early, sorted_in, under_way = (lease(0.0, lost=lost) for _ in range(3))
    book.add(early)
    book.remove(early)
    book.add(sorted_in)
    book.next_event()
    book.remove(sorted_in)
    assert book.due(6.0) == []
    book.add(under_way)
    due = book.due(6.0)
    assert due == [under_way]
    book.remove(under_way)
    book.renewed(due, [None], 6.0)
    book.postponed(due, 6.0)
    assert book.due(100.0) == []
    assert lost == []


def test_ended_grant_is_lost_once() -> None:
    lost: list[str] = []
    book = LeaseBook()
    book.add(lease(0.0, lost=lost))
    due = book.due(6.0)
    book.renewed(due, [None], 6.0)
    book.renewed(due, [None], 6.0)
    assert lost == ["k"]
    assert book.due(100.0) == []


def test_hastened_grants_are_due_at_once_and_no_others() -> None:
    book = LeaseBook()
    mine, other = lease(0.0, key="mine"), lease(0.0, key="other")
    book.add(mine)
    book.add(other)
    book.hasten({"mine"})
    assert book.next_event() == 0.0
    assert book.due(0.5) == [mine]


def test_lease_removed_and_added_again_is_due_once() -> None:
    book = LeaseBook()
    entry = lease(0.0)
    book.add(entry)
    book.next_event()
    book.remove(entry)
    book.add(entry)
    book.add(entry)
    assert book.due(6.0) == [entry]
    book.remove(entry)
    entry.deadline = 60.0
    book.add(entry)  # its holder extended it while the engine was renewing
    renew(book, [entry], 6.0)
    assert book.due(11.5) == [entry]


def test_short_locks_leave_no_entries() -> None:
    book = LeaseBook()
    now = 0.0
    for _ in range(20_000):
        now += 1 / 6000
        short = lease(now, random.uniform(0.5, 30), renewed=random.random() < 0.5)
        book.add(short)
        if random.random() < 0.01:
            book.next_event()
        book.remove(short)
    assert not book._leases
    assert not book._fresh
    assert len(book._buckets) < 400
    assert not any(book._buckets.values())
    book.due(now + 60)
    assert book.next_event() is None


def test_ten_thousand_leases_need_few_buckets() -> None:
    book = LeaseBook()
    for number in range(10_000):
        book.add(lease(number / 2000))
    book.next_event()
    assert len(book._buckets) <= 80


def test_threads_add_and_remove_while_the_engine_works() -> None:
    lost: list[str] = []
    book = LeaseBook()
    entry: list[Lease] = []

    def hold(seed: int) -> None:
        chance = random.Random(seed)
        for number in range(4000):
            mine = lease(0.0, 1e6, lost=lost)
            book.add(mine)
            if chance.random() < 0.2:
                book.remove(mine)
                book.add(mine)
            if number % 100:
                book.remove(mine)
            else:
                entry.append(mine)

    threads = [threading.Thread(target=hold, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        book.hasten({"k"})
        renew(book, book.due(1.0), 1.0, 1e6)
        book.first_deadline()
        book.next_event()
    for thread in threads:
        thread.join()
    book.hasten({"k"})
    due = book.due(1.0)
    assert len(due) == len(entry) == 160
    assert set(due) == set(entry)
    assert lost == []
    assert set(book._leases) == set(due)
