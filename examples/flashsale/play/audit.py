"""The audit: what happened, from evidence that was written down by different hands and must agree."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from play.evidence import Delivery, Evidence

SETTLED = ({"placed", "paid"}, {"placed", "expired"})
"""How an order may end: paid, or closed because nobody paid; never both, and never only placed."""


@dataclass(frozen=True, slots=True)
class Finding:
    """Something wrong, `count` times."""

    kind: str
    count: int
    text: str


@dataclass(frozen=True, slots=True)
class AuditResult:
    """What the audit found; `repeated` deliveries are those that the killed worker explains."""

    sold: int
    expired: int
    settled: int
    repeated: int
    findings: list[Finding]

    def count(self, kind: str) -> int:
        """How many are oversold, lost or duplicates."""
        return sum(finding.count for finding in self.findings if finding.kind == kind)


def audit(evidence: Evidence) -> AuditResult:
    """Judge a sale that is over."""
    events: dict[str, Counter[str]] = defaultdict(Counter)
    for entry in evidence.entries:
        events[entry.reservation][entry.event] += 1
    repeats = [_explained(evidence, *pair) for pair in _repeats(evidence.deliveries)]
    return AuditResult(
        sold=sum(1 for written in events.values() if written["paid"]),
        expired=sum(1 for written in events.values() if written["expired"]),
        settled=sum(1 for written in events.values() if set(written) in SETTLED),
        repeated=repeats.count(True),
        findings=[
            *_oversold(evidence, events),
            *_lost_orders(evidence, events),
            *_lost_jobs(evidence),
            *_books_differ(evidence, events),
            *_written_twice(events),
            *_two_phones(evidence, events),
            *_enqueued_twice(evidence),
            *_run_twice(evidence, repeats),
        ],
    )


def _oversold(evidence: Evidence, events: dict[str, Counter[str]]) -> Iterator[Finding]:
    accounts = {
        "the ledger": sum(1 for written in events.values() if written["paid"]),
        "the buyers": len({told.reservation for told in evidence.told if told.word == "paid"}),
        "the stock": evidence.books.sold,
    }
    witness = max(accounts, key=accounts.__getitem__)
    if accounts[witness] > evidence.stock:
        excess = accounts[witness] - evidence.stock
        yield Finding(
            "oversold", excess, f"{witness} says that {accounts[witness]} of {evidence.stock} phones were sold"
        )


def _lost_orders(evidence: Evidence, events: dict[str, Counter[str]]) -> Iterator[Finding]:
    promised: dict[str, set[str]] = defaultdict(set)
    for told in evidence.told:
        promised[told.reservation].add(told.word)
    for reservation in {**promised, **events}:
        written, words = set(events.get(reservation, ())), promised.get(reservation, set())
        ends = words & {"paid", "expired"}
        if written not in SETTLED or not ends <= written:
            what = f"the buyer was told {_listed(words)}, the ledger has {_listed(written)}"
            yield Finding("lost", 1, f"order {reservation}: {what}")


def _lost_jobs(evidence: Evidence) -> Iterator[Finding]:
    queue = evidence.queue
    left = queue.ready + queue.scheduled + queue.running
    if left:
        yield Finding("lost", left, f"{left} jobs were never run to their end")
    if queue.dead:
        yield Finding("lost", queue.dead, f"{queue.dead} jobs failed for good")
    vanished = queue.enqueued - queue.succeeded - queue.dead - left
    if vanished:
        yield Finding("lost", abs(vanished), f"{queue.enqueued} jobs were enqueued, {queue.succeeded} succeeded")
    in_hand = sum(victim.in_hand for victim in evidence.victims)
    if queue.recovered < in_hand:
        short = in_hand - queue.recovered
        yield Finding("lost", short, f"the killed worker had {in_hand} jobs, {queue.recovered} were recovered")


def _books_differ(evidence: Evidence, events: dict[str, Counter[str]]) -> Iterator[Finding]:
    books = evidence.books
    paid = sum(1 for written in events.values() if written["paid"])
    expired = sum(1 for written in events.values() if written["expired"])
    if books.sold != paid:
        yield Finding("lost", abs(books.sold - paid), f"the stock sold {books.sold} phones, the ledger has {paid}")
    if books.expired > expired:
        short = books.expired - expired
        yield Finding("lost", short, f"{books.expired} reservations expired, the ledger closed {expired}")
    missing = evidence.stock - books.available - books.sold
    if books.reserved or missing:
        yield Finding(
            "lost", abs(missing) or books.reserved, f"of {evidence.stock} phones the stock ended with {books}"
        )


def _written_twice(events: dict[str, Counter[str]]) -> Iterator[Finding]:
    for reservation, written in events.items():
        for event, times in written.items():
            if times > 1:
                yield Finding("duplicates", times - 1, f"order {reservation} was written as {event} {times} times")


def _two_phones(evidence: Evidence, events: dict[str, Counter[str]]) -> Iterator[Finding]:
    owner = {told.reservation: told.buyer for told in evidence.told}
    owner |= {entry.reservation: entry.buyer for entry in evidence.entries if entry.buyer is not None}
    bought = Counter(owner.get(reservation) for reservation, written in events.items() if written["paid"])
    for buyer, phones in bought.items():
        if buyer is not None and phones > 1:
            yield Finding("duplicates", phones - 1, f"{buyer} bought {phones} phones")


def _enqueued_twice(evidence: Evidence) -> Iterator[Finding]:
    # closing an unpaid order is left out: a job that runs again may enqueue that again, and it does nothing then
    jobs: dict[tuple[str, str], set[str]] = defaultdict(set)
    for delivery in evidence.deliveries:
        if delivery.event != "expired":
            jobs[delivery.reservation, delivery.event].add(delivery.job)
    for (reservation, event), found in jobs.items():
        if len(found) > 1:
            yield Finding("duplicates", len(found) - 1, f"{len(found)} jobs wrote order {reservation} as {event}")


def _repeats(deliveries: list[Delivery]) -> Iterator[tuple[Delivery, Delivery]]:
    """Each delivery of a job that had been delivered before, after the one before it."""
    last: dict[str, Delivery] = {}
    for delivery in deliveries:
        if delivery.job in last:
            yield last[delivery.job], delivery
        last[delivery.job] = delivery


def _explained(evidence: Evidence, earlier: Delivery, later: Delivery) -> bool:
    """Whether the job ran again because its worker had been killed."""
    return earlier.attempt < later.attempt and any(earlier.worker == victim.pid for victim in evidence.victims)


def _run_twice(evidence: Evidence, repeats: list[bool]) -> Iterator[Finding]:
    unexplained = repeats.count(False)
    if unexplained:
        yield Finding("duplicates", unexplained, f"{unexplained} jobs ran again though no worker with them died")
    unrecorded = repeats.count(True) - evidence.queue.recovered
    if unrecorded > 0:
        yield Finding("duplicates", unrecorded, f"{unrecorded} jobs ran again and the queue has not recorded it")


def _listed(words: set[str]) -> str:
    return " and ".join(sorted(words)) or "nothing"
