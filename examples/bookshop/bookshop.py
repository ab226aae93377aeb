"""A small bookshop: its tests are test_bookshop.py, without a server, and test_whole_shop.py, with one."""

from __future__ import annotations

from dataclasses import dataclass

from lockwork import Lockwork, current_job

lw = Lockwork()
sent: list[str] = []


class PaymentDown(Exception):
    """The payment provider does not answer."""


class Payments:
    """A client of the payment provider."""

    def charge(self, order: int, cents: int) -> str:
        """Charge an order; return the receipt."""
        return f"receipt {order} over {cents}"


payments = Payments()


@dataclass
class Order:
    """An order of some books."""

    id: int
    email: str
    books: list[str]
    cents: int


@lw.task(queue="mail", key="customer:{email}")
def send_mail(email: str, subject: str, *, urgent: bool = False) -> None:
    """Send a mail; one customer's mails go out in order."""
    sent.append(f"{'! ' if urgent else ''}{email}: {subject}")


@lw.task(retries=3, backoff="1m", retry_on=PaymentDown)
def charge(order: Order) -> str:
    """Charge an order once, also if a later step fails."""
    job = current_job()
    receipt: str | None = job.checkpoints.get("receipt")
    if receipt is None:
        receipt = payments.charge(order.id, order.cents)
        job.checkpoint("receipt", receipt)
    job.progress({"order": order.id, "done": len(order.books)})
    send_mail.enqueue(order.email, f"Order {order.id} is paid")
    return receipt


@lw.task(unique="report:{day}")
async def report(day: str) -> str:
    """Count the mails of a day, at most once at a time."""
    return f"{day}: {len(sent)} mails"


@lw.task(cron="0 9 * * *")
async def good_morning() -> None:
    """Greet the staff at nine."""
    await send_mail.aenqueue("staff@bookshop.example", "Good morning")


def place_order(order: Order) -> None:
    """Charge an order, and ask for a review in three days."""
    charge.enqueue(order)
    send_mail.options(delay="3d").enqueue(order.email, "How are your books?")


def cancel_order(order: Order) -> None:
    """Tell the customer and, if money must flow back, the staff."""
    if order.cents:
        send_mail.enqueue("staff@bookshop.example", f"Pay back order {order.id}", urgent=True)
    send_mail.enqueue(order.email, f"Order {order.id} is cancelled")
