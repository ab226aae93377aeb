"""What the workers do: write orders into the ledger, and close those that nobody paid."""

from __future__ import annotations

import os
import random
import time

import ledger
from lockwork import Lockwork, ReservationEnded, current_job

PHONES = int(os.environ.get("FLASHSALE_STOCK", "200"))
HOLD = float(os.environ.get("FLASHSALE_HOLD", "3"))
"""Seconds that a buyer has to pay. A real shop gives ten minutes."""

lw = Lockwork()
phones = lw.stock("phone", PHONES, limit=1, queue="orders")


def outside_world() -> None:
    """Stands for what is slow in a real shop: the invoice, the mail, the warehouse."""
    time.sleep(random.uniform(0.02, 0.08))  # noqa: S311 - play, not secrets


@lw.task(queue="orders", retries=5, timeout=30)
def place_order(buyer: str) -> None:
    """Write the order down. The job was enqueued with the reservation, in one step, and so has its id."""
    reservation = current_job().id
    outside_world()
    ledger.write(reservation, "placed", buyer)
    close_unpaid.options(delay=HOLD + 0.5).enqueue(reservation)


@lw.task(queue="orders", retries=5, timeout=30)
def order_paid(reservation: str) -> None:
    """Write the payment down. It may come before the order itself, if that one's worker died."""
    outside_world()
    ledger.write(reservation, "paid")


@lw.task(queue="orders", retries=5, timeout=30)
def close_unpaid(reservation: str) -> None:
    """Close the order if its time to pay is over; the phone is on sale again."""
    try:
        phones.release(reservation)
    except ReservationEnded:
        return  # it was paid
    ledger.write(reservation, "expired")
