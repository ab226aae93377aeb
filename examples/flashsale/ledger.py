"""The ledger: what happened to every order, in SQLite. Lines are added, never changed.

A job may run twice, because a worker can die after it wrote and before it could say so. So writing a line again is not
an error and changes nothing; that this worker wrote it is kept all the same, in `deliveries`.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time

from lockwork import current_job

PATH = os.environ.get("FLASHSALE_LEDGER", "flashsale.sqlite3")
TABLES = """
    BEGIN IMMEDIATE;
    CREATE TABLE IF NOT EXISTS entries (reservation TEXT, event TEXT, buyer TEXT, UNIQUE (reservation, event));
    CREATE TABLE IF NOT EXISTS deliveries (job TEXT, attempt INTEGER, worker INTEGER, reservation TEXT, event TEXT);
    COMMIT;
"""


def write(reservation: str, event: str, buyer: str | None = None) -> None:
    """Write that a reservation was "placed" as an order, "paid", or "expired"."""
    job = current_job()
    with _ledger() as ledger:
        delivery = (job.id, job.attempt, os.getpid(), reservation, event)
        ledger.execute("INSERT INTO deliveries VALUES (?, ?, ?, ?, ?)", delivery)
        ledger.execute("INSERT OR IGNORE INTO entries VALUES (?, ?, ?)", (reservation, event, buyer))


def events(reservation: str) -> list[str]:
    """Return what is written about a reservation, oldest first."""
    lines = _ledger().execute("SELECT event FROM entries WHERE reservation = ? ORDER BY rowid", (reservation,))
    return [event for (event,) in lines]


_thread = threading.local()


def _ledger() -> sqlite3.Connection:
    # a connection per thread: `with` on a shared one would mix the transactions of two jobs
    if not hasattr(_thread, "ledger"):
        _thread.ledger = _opened()
    ledger: sqlite3.Connection = _thread.ledger
    return ledger


def _opened() -> sqlite3.Connection:
    ledger = sqlite3.connect(PATH, timeout=10)
    while True:
        try:
            ledger.execute("PRAGMA journal_mode = WAL")
            break
        except sqlite3.OperationalError as error:
            if "locked" not in str(error):
                raise
            time.sleep(0.01)  # this statement alone does not wait while others do the same
    ledger.execute("PRAGMA synchronous = NORMAL")
    ledger.executescript(TABLES)
    return ledger
