"""Flows, stocks, locks and schedules on a partitioned queue."""

from __future__ import annotations

from typing import Any

import pytest

from lockwork import ConfigError, Lockwork, SoldOut
from lockwork.partitions import numbered


def plain(app: Lockwork, **options: Any) -> Any:
    def send(number: int) -> None: ...

    made: Any = app.task(queue="mail", **options)
    return made(send)


def home(name: object) -> str:
    return f"mail/{numbered(str(name), 4)}"


def enqueued(app: Lockwork) -> dict[str, int]:
    counts = {part.name: part.status().enqueued for part in app.queue("mail").partitions}
    return {name: count for name, count in counts.items() if count}


def elsewhere(name: object) -> str:
    """Return a name whose partition differs from this name's."""
    return next(text for text in map(str, range(100)) if home(text) != home(name))


def test_flow_is_on_one_partition(four: Lockwork) -> None:
    send = plain(four)
    flow = four.flow()
    flow.group(send.call(number) for number in range(10))
    runs = [flow.enqueue() for _ in range(60)]
    assert {run.queue for run in runs} == {f"mail/{number}" for number in range(4)}, "each at random"
    for run in runs:
        assert {job.queue for job in run.jobs()} == {run.queue}
        assert four.flow(id=run.id, queue=run.queue).inspect().jobs == 10
    assert four.queue("mail").status().enqueued == 600


def test_names_in_a_flow_decide_its_partition(four: Lockwork) -> None:
    send, keyed = plain(four), plain(four, name="keyed", key="{number}")
    flow = four.flow()
    first = flow.add(keyed.call(7), compensate=send.call(0))
    flow.add(send.call(1), after=first)
    flow.add(keyed.call(7), after=first)
    assert flow.enqueue().queue == home(7)
    other = elsewhere(7)
    last = flow.add(keyed.call(int(other)), after=first)
    run = flow.enqueue()
    assert (run.queue, run.job(last).queue) == (home(7), home(other))
    assert [job.queue for job in four.flow(id=run.id, queue=run.queue).jobs()] == [*[home(7)] * 3, home(other)]
    four.chain(keyed.call(7), keyed.options(key=None).call(int(other))).enqueue()


def test_handles_of_jobs_and_flows_need_a_partition(four: Lockwork) -> None:
    with pytest.raises(
        ConfigError, match="queue 'mail' has 4 partitions: find a job by its partition, such as 'mail/0'"
    ):
        four.job("x", "mail")
    with pytest.raises(ConfigError, match="find a flow by its partition"):
        four.flow(id="x", queue="mail")
    assert four.job("x", "mail/3").state() == "unknown"
    assert four.job("x", "mail/9").queue == "mail/9", "there may have been more partitions"


def test_stock_is_on_the_partition_of_its_name(four: Lockwork) -> None:
    send, keyed = plain(four), plain(four, name="keyed", key="{number}")
    phones = four.stock("phones", 3, queue="mail")
    assert phones.queue == home("phones")
    held = phones.reserve("ada", enqueue=send.call(1))
    assert four.job(held.id, phones.queue).state() == "ready"
    phones.confirm(held, enqueue=keyed.options(key="phones").call(2))
    assert enqueued(four) == {home("phones"): 2}
    with pytest.raises(ConfigError, match="stock 'phones' lives on partition 'mail/.*decides partition 'mail/"):
        phones.reserve("bob", enqueue=keyed.call(int(elsewhere("phones"))))
    assert (phones.inspect().available, enqueued(four)) == (2, {home("phones"): 2}), "nothing was reserved either"
    with pytest.raises(SoldOut):
        phones.reserve("bob", 3, enqueue=send.call(1))

    @four.task
    def not_mail() -> None: ...

    with pytest.raises(ConfigError, match="lives with queue"):
        phones.reserve("bob", enqueue=not_mail.call())


def test_stock_can_be_placed_on_one_partition(four: Lockwork) -> None:
    """The stock then stays there when the number of partitions changes."""
    send = plain(four)
    phones = four.stock("phones", 3, queue="mail/2")
    held = phones.reserve("ada", enqueue=send.call(1))
    assert enqueued(four) == {"mail/2": 1}
    assert four.job(held.id, "mail/2").state() == "ready"


def test_queue_lock_is_on_the_partition_of_its_name(four: Lockwork) -> None:
    send, keyed = plain(four), plain(four, name="keyed", key="{number}")
    lock = four.queue("mail").lock("7", wait=0)
    assert lock.queue == home(7)
    with lock as grant:
        assert four.queue("mail").lock("7").locked()
        job = grant.release_and_enqueue(keyed.call(7))
    assert job.queue == home(7)
    assert job.state() == "ready"
    grant = lock.acquire()
    with pytest.raises(ConfigError, match="lock '7' lives on partition"):
        grant.release_and_enqueue(keyed.call(int(elsewhere(7))))
    assert grant.release_and_enqueue(send.call(1)).queue == home(7)


def test_decorated_lock_of_the_queue_is_on_the_partition_of_its_name(four: Lockwork) -> None:
    @four.queue("mail").lock("{number}")
    def held(number: int) -> bool:
        return four.queue(home(number)).lock(str(number)).held()

    assert held(7)
    assert held(int(elsewhere(7)))


def test_schedules_are_on_the_partition_of_their_jobs(four: Lockwork) -> None:
    send, keyed = plain(four), plain(four, name="keyed", key="{number}")
    by_name = four.schedule(send.call(1), name="nightly", every="1h")
    by_key = four.schedule(keyed.call(7), name="of-seven", every="1h")
    assert (by_name.queue, by_key.queue) == (home("nightly"), home(7))
    assert four.schedule("nightly", queue="mail").queue == home("nightly")
    assert four.schedule("of-seven", queue="mail").queue == home(7), "this app's code says where it is"
    assert four.schedule("unheard-of", queue="mail").queue == home("unheard-of")
    assert {queue: set(plans) for queue, plans in four.plans.items() if plans} == {
        queue: {name for name, where in (("nightly", by_name), ("of-seven", by_key)) if where.queue == queue}
        for queue in (by_name.queue, by_key.queue)
    }
    again = four.schedule(send.call(1), name="nightly", every="1h")
    assert again.queue == by_name.queue
    with pytest.raises(ConfigError, match="two schedules of queue 'mail' are named 'nightly'"):
        four.schedule(keyed.call(int(elsewhere("nightly"))), name="nightly", every="1h")
    assert four.schedules("mail") == four.schedules() == [], "no worker has declared them yet"
    with pytest.raises(ConfigError, match="a schedule's name"):
        four.schedule("a b", queue="mail")


def test_other_queues_have_no_partitions(four: Lockwork) -> None:
    @four.task(every="1h", name="hourly")
    def here() -> None: ...

    assert four.schedule("hourly").queue == "default"
    assert four.stock("s", 1).queue == "default"
    assert four.queue().lock("x").queue == "default"
    assert four.chain(here.call()).enqueue().queue == "default"
