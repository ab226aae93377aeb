"""A parcel service on Celery, before its port to Lockwork (after.py).

Worker and schedule: celery -A before worker -Q parcels,reports --beat
"""

from datetime import datetime

from celery import Celery, chain, chord
from celery.result import AsyncResult
from celery.schedules import crontab

from services import CARRIERS, charge, count_parcels, find_place, price

app = Celery("parcels", broker="redis://localhost/0", backend="redis://localhost/1")
app.conf.update(
    task_default_queue="parcels",
    task_routes={"parcels.report": {"queue": "reports"}, "crm.*": {"queue": "crm"}},
    task_track_started=True,
    timezone="Europe/Berlin",
    # a longer job, or a longer countdown, runs twice
    broker_transport_options={"visibility_timeout": 12 * 3600},
    beat_schedule={
        "sweep": {"task": "parcels.sweep", "schedule": crontab(hour=3, minute=0)},
    },
)


# 1: bind and retry
@app.task(name="parcels.geocode", bind=True, max_retries=5)
def geocode(self, address):
    try:
        return find_place(address, self.request.retries + 1)
    except ConnectionError as error:
        raise self.retry(exc=error, countdown=2**self.request.retries)


# 2: the end of a chain
@app.task(name="parcels.print_label")
def print_label(place, parcel):
    return f"{parcel} to {place[0]:.0f}:{place[1]:.0f}"


# 3: a rate limit, per worker process
@app.task(name="parcels.quote", rate_limit="10/s")
def quote(carrier, weight):
    return [price(carrier, weight), carrier]


# 4: the body of a chord
@app.task(name="parcels.choose")
def choose(quotes):
    return min(quotes)[1]


# 5: later, and revoked when the parcel was picked up
@app.task(name="parcels.remind")
def remind(parcel):
    return f"{parcel} waits for you"


# 6: periodic
@app.task(name="parcels.sweep", ignore_result=True)
def sweep():
    print("deleting labels of last month")


# 7: acknowledged late, with callbacks
@app.task(name="parcels.bill", acks_late=True, reject_on_worker_lost=True, max_retries=0)
def bill(customer, amount):
    return charge(customer, amount)


# 8: link
@app.task(name="parcels.receipt")
def receipt(payment):
    return f"thank you for the {payment}"


# 9: link_error
@app.task(name="parcels.alert")
def alert(request, error, traceback):
    print(f"{request.args} could not be billed: {error}")


# 10: routed to its own queue, with progress, and a result that is found by id
@app.task(name="parcels.report", bind=True, acks_late=True)
def report(self, days):
    total = 0
    for day in range(days):
        total += count_parcels(day)
        self.update_state(state="PROGRESS", meta={"day": day})
    return total


def ship(parcel, address):
    return chain(geocode.s(address), print_label.s(parcel)).apply_async()


def cheapest(weight):
    return chord([quote.s(carrier, weight) for carrier in CARRIERS], choose.s()).apply_async()


def remind_at(parcel, moment: datetime):
    return remind.apply_async((parcel,), eta=moment)


def remind_in(parcel, seconds):
    return remind.apply_async((parcel,), countdown=seconds)


def picked_up(reminder_id):
    app.control.revoke(reminder_id)


def pay(customer, amount):
    return bill.apply_async((customer, amount), link=receipt.s(), link_error=alert.s())


def start_report(days):
    return report.delay(days).id


def report_result(report_id):
    return AsyncResult(report_id, app=app).get(timeout=60)


def tell_crm(parcel):
    return app.send_task("crm.note", (parcel,), {"kind": "shipped"})
