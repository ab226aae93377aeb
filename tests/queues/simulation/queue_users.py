"""Users of a queue: producers, callers that wait for outcomes, and operators that handle jobs."""

from __future__ import annotations

from contextlib import suppress

from lockwork.errors import LockworkError
from lockwork.protocol.dead import dead
from lockwork.protocol.dead.dead import Filter
from lockwork.protocol.queue import browse, enqueue, leases, record_header
from lockwork.protocol.queue import job_control as control
from lockwork.protocol.queue.enqueue import NewJob
from queues.simulation.queue_actors import WINDOW_MS, Plant
from queues.simulation.queue_view import DELIVERIES, LIMITS, Made
from queues.simulation.queue_watch import Answer, QueueWatch
from simulator.faults import SECOND
from simulator.process import Actor, Cancelled, Sleep, Task


def producer(plant: Plant, rounds: int) -> Actor:
    """Enqueue a few jobs at a time, now or later; half of them with a key or a group."""
    random = plant.world.random
    for _ in range(rounds):
        with suppress(LockworkError, Cancelled):
            yield Sleep(random.uniform(0, 3))
            new = [new_job(plant) for _ in range(random.randint(1, 4))]
            if random.random() < 0.25:
                limit = random.randint(1, 5000)
                moment = -(plant.world.server_now // 1000 + limit)
                yield from enqueue.push(plant.queue, new, expires_ms=random.choice([limit, moment]))
            else:
                yield from enqueue.push(plant.queue, new)
            plant.acknowledged += [job.id for job in new]


def new_job(plant: Plant) -> NewJob:
    random, id = plant.world.random, f"j{next(plant.numbers):04}"
    key, group = ("", "") if random.random() < 0.5 else (random.choice("ab "), random.choice(list(LIMITS)))
    made = plant.made[id] = Made(random.randint(0, 2), key.strip(), group, most=random.choice([0, 0, 1, 2]))
    delay = random.choice([0, 0, 0, random.randint(1, 4000)])
    limits = LIMITS[group] if group else None
    record = record_header.head(made.level, DELIVERIES, made.key, group, limits, deliveries=made.most)
    return NewJob(id, record + b'["work",[]]', delay)


def caller(plant: Plant, watch: QueueWatch, task: Task) -> Actor:
    """Wait for the outcome of some jobs."""
    random = plant.world.random
    with suppress(LockworkError, Cancelled):
        for _ in range(3):
            yield Sleep(random.uniform(0, 5))
            if plant.acknowledged:
                id, timeout = random.choice(plant.acknowledged), random.uniform(0, 10)
                began = plant.world.now
                found = yield from leases.outcome(plant.queue, id, task.process.channel, timeout)
                watch.told(Answer(task, id, began, began + int(timeout * SECOND), found))


def handler(plant: Plant) -> Actor:
    """Cancel, move and revive jobs."""
    random = plant.world.random
    for _ in range(random.choice([0, 3, 8])):
        with suppress(LockworkError, Cancelled):
            yield Sleep(random.uniform(0, 2))
            if plant.acknowledged:
                # the newest jobs still wait or run
                id = random.choice(plant.acknowledged[-random.choice([3, 100]) :])
                wait = random.choice([0, 1, 500, 3000])
                what = random.choice("ccmr")
                if what == "c":
                    yield from control.cancel(plant.queue, id, "sim", WINDOW_MS)
                elif what == "m":
                    yield from control.reschedule(plant.queue, id, wait)
                else:
                    yield from control.revive(plant.queue, id, wait)


def undertaker(plant: Plant) -> Actor:
    """Retry and delete dead jobs, one or all; and, in a few runs, clear the queue."""
    random = plant.world.random
    for number in range(random.choice([0, 2, 5])):
        with suppress(LockworkError, Cancelled):
            yield Sleep(random.uniform(0, 5))
            request, anew = f"u{number}", random.random() < 0.5
            what = random.choice("aaood")
            died = list(plant.dead())
            if what == "a":
                yield from dead.retry(plant.queue, Filter(), request, None, anew=anew)
            elif what == "o" and died:
                yield from dead.retry_one(plant.queue, random.choice(died), request, anew=anew)
            elif what == "d" and died:
                yield from dead.delete_one(plant.queue, random.choice(died), request)
    if random.random() < 0.15:
        with suppress(LockworkError, Cancelled):
            yield from browse.clear(plant.queue, "clear", WINDOW_MS)
