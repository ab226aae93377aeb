"""What is left of a sale when everybody has gone: the ledger, what buyers were told, and the server's own books."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from lockwork.types import QueueStatus, StockStatus


@dataclass(frozen=True, slots=True)
class Reported:
    """The shop's answer to a buyer, as the buyer wrote it down: "reserved", "paid" or "expired"."""

    word: str
    buyer: str
    reservation: str


@dataclass(frozen=True, slots=True)
class LedgerEntry:
    """A line of the ledger: a reservation was "placed" as an order, "paid" or "expired"; placed ones name the buyer."""

    reservation: str
    event: str
    buyer: str | None = None


@dataclass(frozen=True, slots=True)
class Delivery:
    """A line of the ledger: in this attempt of this job, a worker process wrote that entry, whether new or not."""

    job: str
    attempt: int
    worker: int
    reservation: str
    event: str


@dataclass(frozen=True, slots=True)
class KilledWorker:
    """A worker process that the demo killed, and how many jobs it had in its hands then."""

    pid: int
    in_hand: int


@dataclass(frozen=True, slots=True)
class Evidence:
    """Everything that an audit looks at; each part was written by somebody else."""

    stock: int
    told: list[Reported]
    entries: list[LedgerEntry]
    deliveries: list[Delivery]
    books: StockStatus
    queue: QueueStatus
    victims: list[KilledWorker]


def read_told(path: Path) -> list[Reported]:
    """Read what buyers were told."""
    lines = map(json.loads, path.read_text().splitlines())
    return [Reported(line["told"], line["buyer"], line["reservation"]) for line in lines]


def read_ledger(path: Path) -> tuple[list[LedgerEntry], list[Delivery]]:
    """Read the whole ledger, oldest lines first."""
    with closing(sqlite3.connect(path)) as ledger:
        entries = ledger.execute("SELECT reservation, event, buyer FROM entries ORDER BY rowid").fetchall()
        deliveries = ledger.execute(
            "SELECT job, attempt, worker, reservation, event FROM deliveries ORDER BY rowid"
        ).fetchall()
    return [LedgerEntry(*line) for line in entries], [Delivery(*line) for line in deliveries]


def count_events(path: Path) -> Counter[str]:
    """Count the ledger's lines by event while the sale is on; there may be no ledger yet."""
    try:
        with closing(sqlite3.connect(f"{path.as_uri()}?mode=rw", uri=True)) as ledger:
            return Counter(dict(ledger.execute("SELECT event, count(*) FROM entries GROUP BY event")))
    except sqlite3.OperationalError:
        return Counter()
