"""The parcel service of before.py on Lockwork: the same tasks, in the same order.

Worker and schedule: lockwork worker after
"""

from datetime import datetime

from lockwork import Job, Lockwork, current_job
from lockwork.types import Exponential, FlowRun, JobFailure
from services import CARRIERS, charge, count_parcels, find_place, price

lw = Lockwork(prefix="parcels")


# 1: no self; the retry is an option, and current_job() has the attempt
@lw.task(queue="parcels", retries=5, backoff=Exponential("500ms", longest="1m"), retry_on=ConnectionError)
def geocode(address: str) -> tuple[float, float]:
    return find_place(address, current_job().attempt)


# 2: the end of a chain
@lw.task(queue="parcels")
def print_label(place: tuple[float, float], parcel: str) -> str:
    return f"{parcel} to {place[0]:.0f}:{place[1]:.0f}"


# 3: a constant group has the rate of its jobs, over all workers
@lw.task(queue="parcels", group="quotes", group_rate="10/s")
def quote(carrier: str, weight: float) -> tuple[float, str]:
    return price(carrier, weight), carrier


# 4: the body of a chord
@lw.task(queue="parcels")
def choose(quotes: list[tuple[float, str]]) -> str:
    return min(quotes)[1]


# 5: later, and cancelled when the parcel was picked up
@lw.task(queue="parcels")
def remind(parcel: str) -> str:
    return f"{parcel} waits for you"


# 6: periodic; every worker runs schedules, so there is no beat
@lw.task(queue="parcels", keep_result=False, cron="0 3 * * *", tz="Europe/Berlin")
def sweep() -> None:
    print("deleting labels of last month")


# 7: every job is acknowledged when it has ended, and runs again if its worker dies
@lw.task(queue="parcels", retries=0)
def bill(customer: str, amount: float) -> str:
    return charge(customer, amount)


# 8: then=
@lw.task(queue="parcels")
def receipt(payment: str) -> str:
    return f"thank you for the {payment}"


# 9: on_error=, with the arguments that it needs
@lw.task(queue="parcels")
def alert(error: JobFailure, customer: str) -> str:
    return f"{customer} could not be billed: {error.text}"


# 10: its own queue, with progress, and a result that is found by id
@lw.task(queue="reports")
def report(days: int) -> int:
    total = 0
    for day in range(days):
        total += count_parcels(day)
        current_job().progress({"day": day})
    return total


def ship(parcel: str, address: str) -> FlowRun:
    return lw.chain(geocode.call(address), lambda place: print_label.call(place, parcel)).enqueue()


def cheapest(weight: float) -> FlowRun:
    return lw.chord([quote.call(carrier, weight) for carrier in CARRIERS], choose).enqueue()


def remind_at(parcel: str, moment: datetime) -> Job[str]:
    return remind.options(at=moment).enqueue(parcel)


def remind_in(parcel: str, seconds: float) -> Job[str]:
    return remind.options(delay=seconds).enqueue(parcel)


def picked_up(reminder_id: str) -> bool:
    return remind.job(reminder_id).cancel()


def pay(customer: str, amount: float) -> Job[str]:
    with_callbacks = bill.options(then=receipt, on_error=lambda error: alert.call(error, customer))
    return with_callbacks.enqueue(customer, amount)


def start_report(days: int) -> str:
    return report.enqueue(days).id


def report_result(report_id: str) -> int:
    return report.job(report_id).result(timeout=60)


def tell_crm(parcel: str) -> Job[str]:
    return lw.remote_task("crm.note", queue="crm", returns=str).enqueue(parcel, kind="shipped")
