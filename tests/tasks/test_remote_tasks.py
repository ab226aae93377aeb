"""`lw.remote_task(name)`: enqueue by name what other programs run, checked against what their workers announce."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from lockwork import ConfigError, JobFailed, Lockwork, current_job, workers
from lockwork.app import announced_tasks
from lockwork.errors import BlockingCallError
from lockwork.protocol.announcements import announcements
from lockwork.testing import assert_enqueued, inline, record
from lockwork.testing.recorder import NoServer
from roles import as_role

SHOP = "shop"
"""The name of the app that has the code."""


@pytest.fixture
def shop(own_url: str) -> Iterator[Lockwork]:
    """The app with the code, which has announced it: another program."""
    with Lockwork(own_url, app_name=SHOP) as app:
        yield app


@pytest.fixture
def web(own_url: str) -> Iterator[Lockwork]:
    """The program that knows only names."""
    with Lockwork(own_url, app_name="web") as app:
        yield app


def announce(app: Lockwork) -> None:
    """Announce an app, as its first enqueue does."""
    put = app.registry.context.announcing._put
    assert put is not None
    app.runtime.run(put())


@contextmanager
def working(app: Lockwork, *queues: str) -> Iterator[None]:
    """Run a worker of the app in this process."""
    worker = app.worker(queues=queues or None)
    thread = threading.Thread(target=worker.run)
    thread.start()
    try:
        yield
    finally:
        worker.stop()
        thread.join()


def send(user: int, subject: str = "hello", *, copy: bool = False) -> list[Any]:
    return [user, subject, copy, current_job().queue]


def test_worker_that_has_the_code_runs_the_job(shop: Lockwork, web: Lockwork) -> None:
    shop.task(name="other.task", queue="mail")(send)
    announce(shop)
    remote = web.remote_task("other.task", queue="mail")
    jobs = [remote.enqueue(1), *remote.enqueue_many([(2, "hi"), (3,)])]
    with working(shop):
        assert [job.result(10) for job in jobs] == [
            [1, "hello", False, "mail"],
            [2, "hi", False, "mail"],
            [3, "hello", False, "mail"],
        ]
        assert remote.map([4, 5]) == [[4, "hello", False, "mail"], [5, "hello", False, "mail"]]
        assert remote.job(jobs[0].id).result() == [1, "hello", False, "mail"]


async def test_async_twins(shop: Lockwork, own_url: str) -> None:
    shop.task(name="other.task", queue="mail")(send)
    await asyncio.to_thread(announce, shop)
    async with Lockwork(own_url, app_name="web") as web:
        remote = web.remote_task("other.task")
        jobs = [await remote.aenqueue(1), *await remote.aenqueue_many([(2, "hi"), (3,)])]
        jobs += await asyncio.gather(*(remote.aenqueue(number) for number in range(20)))
        assert {job.queue for job in jobs} == {"mail"}
        assert (await remote.acall(1)).queue == "mail"
        assert (await web.chain(await remote.acall(1)).aenqueue()).queue == "mail"
        with pytest.raises(TypeError, match="missing a required argument: 'user'"):
            await remote.aenqueue()
        with pytest.raises(BlockingCallError):
            web.remote_task("new.task").call(1)
        waiting: list[Callable[[], object]] = []
        late = (await remote.aon_commit(waiting.append)).enqueue(7)
        assert await late.astate() == "unknown"
        await asyncio.to_thread(waiting[0])
        assert await late.astate() == "ready"


def test_wrong_arguments_are_refused_as_by_the_task(shop: Lockwork, web: Lockwork) -> None:
    real = shop.task(name="send", queue="mail")(send)
    announce(shop)
    remote = web.remote_task("send", queue="mail")

    def both(call: Callable[[Any], object]) -> list[str]:
        texts = []
        for task in (real, remote):
            with pytest.raises(TypeError) as error:
                call(task)
            texts.append(str(error.value))
        return texts

    wrong: list[Callable[[Any], object]] = [
        lambda task: task.enqueue(),
        lambda task: task.enqueue(1, "a", "b"),
        lambda task: task.enqueue(1, usr=2),
        lambda task: task.enqueue(1, delay=2),
        lambda task: task.call(),
        lambda task: task.enqueue_many([(1,), ()]),
        lambda task: task.enqueue_many([1]),
        lambda task: task.on_commit(lambda enqueue: enqueue()).enqueue(),
    ]
    for call in wrong:
        expected, found = both(call)
        assert found == expected
    assert shop.queue("mail").status().ready == 0
    for task in (real, remote):
        with pytest.raises(ConfigError, match="did you mean 'delay'"):
            task.options(dely=3)  # type: ignore[call-arg]
        with pytest.raises(ConfigError, match="retries must be"):
            task.options(retries=-1)


def test_positional_only_parameters_are_announced(shop: Lockwork, web: Lockwork) -> None:
    def exact(a: int, /, b: int) -> None: ...

    shop.task(queue="mail")(exact)
    announce(shop)
    ((task,),) = [app.tasks for app in web.apps()]
    assert (task.parameters, task.positions) == (["a", "/", "b"], ["a", "b"])
    with pytest.raises(TypeError):
        web.remote_task("exact").enqueue(a=1, b=2)
    assert web.remote_task("exact").enqueue(1, b=2).new


def test_job_has_the_announced_options(shop: Lockwork, web: Lockwork) -> None:
    @shop.task(
        queue="mail",
        retries=7,
        max_deliveries=9,
        priority="low",
        key="user:{user}:{subject}",
        group="user:{user}",
        group_rate="10/s",
        group_concurrency=2,
        tags=["news"],
        expires="1h",
        retry_until="2h",
        hide_arguments=True,
    )
    def many(user: int, subject: str) -> None: ...

    announce(shop)
    with record(forward=True) as recording:
        jobs = [task.enqueue(1, subject="hello") for task in (many, web.remote_task("many"))]
    first, second = recording.jobs
    assert first.record == second.record
    assert all(job.inspect().hidden for job in jobs)
    until_start = [job.inspect().expires or datetime.max.replace(tzinfo=UTC) for job in jobs]
    assert abs(until_start[0] - until_start[1]) < timedelta(minutes=1)


def test_names_of_jobs_use_announced_defaults(shop: Lockwork, web: Lockwork) -> None:
    @shop.task(queue="mail", key="user:{user}:{subject}", unique="user:{user}:{subject}", unique_until="10m")
    def named(user: int, subject: str = "hello") -> None: ...

    announce(shop)
    first = named.enqueue(1)
    again = web.remote_task("named").enqueue(1)
    assert (again.id, again.arrival) == (first.id, "kept")


@pytest.mark.parametrize("unique", [True, "{user}"])
@pytest.mark.parametrize("more", [{}, {"on_duplicate": "replace"}, {"debounce": "1h", "debounce_max": "2h"}])
def test_unique_names_are_those_of_the_task(shop: Lockwork, web: Lockwork, unique: Any, more: dict[str, Any]) -> None:
    options: Any = {"unique": unique, **more}

    @shop.task(queue="mail", **options)  # type: ignore[untyped-decorator]  # its options are Any
    def once(user: int, *, subject: str = "hello", deep: bool = False) -> None: ...

    announce(shop)
    first = once.enqueue(1)
    second = web.remote_task("once").enqueue(1)
    assert second.id == first.id
    assert second.arrival == once.enqueue(1).arrival != "new"


def test_default_that_is_not_announced_must_be_passed(shop: Lockwork, web: Lockwork) -> None:
    @shop.task(queue="mail", key="day:{day}")
    def report(day: datetime = datetime(2026, 1, 1, tzinfo=UTC)) -> None: ...

    @shop.task(queue="mail", unique=True)
    def whole(days: tuple[int, ...] = (1, 2)) -> None: ...

    announce(shop)
    for name in ("report", "whole"):
        with pytest.raises(ConfigError, match="the default of 'days?', which the key, group or unique name uses"):
            web.remote_task(name).enqueue()
        assert web.remote_task(name).enqueue("2026-01-02").new


def test_options_of_single_jobs(shop: Lockwork, web: Lockwork) -> None:
    shop.task(queue="mail")(send)
    announce(shop)
    remote = web.remote_task("send").options(delay="1h", tags=["a"]).options(key="user:{user}")
    job = remote.enqueue(5)
    assert (job.state(), job.inspect().key, job.inspect().tags) == ("scheduled", "user:5", ("a",))
    assert web.remote_task("send").options(queue="urgent").enqueue(5).queue == "urgent"
    with pytest.raises(ConfigError, match="names a parameter that the function does not have"):
        web.remote_task("send").options(key="{usr}").enqueue(5)


def test_task_that_nobody_announced_is_sent_unchecked(shop: Lockwork, web: Lockwork) -> None:
    remote = web.remote_task("new.task", queue="mail")
    job = remote.options(retries=0).enqueue(1, 2, any="thing")
    assert job.inspect().args == (1, 2)
    with pytest.raises(ConfigError, match=r"no app has announced a task 'new.task': .* pass its queue=\.\.\."):
        web.remote_task("new.task").enqueue()

    def late(*args: int, any: str) -> list[int]:
        return list(args)

    shop.task(name="new.task", queue="mail")(late)
    with working(shop):
        assert job.result(10) == [1, 2]


def test_mistyped_name_gets_a_suggestion(shop: Lockwork, web: Lockwork, caplog: pytest.LogCaptureFixture) -> None:
    shop.task(name="other.task", queue="mail")(send)
    announce(shop)
    for number in range(3):
        web.remote_task("other.tsk", queue="mail").enqueue(number)
    assert [record.getMessage() for record in caplog.records] == [
        "no app has announced task 'other.tsk', so calls are not checked: did you mean 'other.task'?"
    ]
    with pytest.raises(ConfigError, match=r"no app has announced a task 'other.tsk': did you mean 'other.task'\?"):
        web.remote_task("other.tsk").enqueue(1)


@pytest.mark.parametrize("wrong", [{"parameters": ["not a name"]}, {"priority": 7}, {"group_rate": "often"}])
def test_announcement_that_cannot_be_used_is_skipped(
    shop: Lockwork, web: Lockwork, caplog: pytest.LogCaptureFixture, wrong: dict[str, Any]
) -> None:
    task = workers.AnnouncedTask("send", "mail", "thread", None, 3, group="all", **wrong)
    app = workers.App("strange", [task], {}, [], "1")
    key = "strange - 0 0"
    record_of_app = msgspec.msgpack.encode(app)
    web.runtime.run(announcements.put("lw", announcements.APPS, key, record_of_app))
    assert web.remote_task("send").enqueue(1, any="thing").queue == "mail"
    assert "the announcement of task 'send' by app 'strange' cannot be used" in caplog.text
    shop.task(queue="mail")(send)
    announce(shop)
    with Lockwork(str(web.server_arguments[0])) as later, pytest.raises(TypeError):
        later.remote_task("send").enqueue(1, any="thing")


def test_names_are_checked_at_once(web: Lockwork) -> None:
    with pytest.raises(ConfigError, match="a task's name"):
        web.remote_task("")
    with pytest.raises(ConfigError, match="must not hold a slash"):
        web.remote_task("send", queue="mail/1")
    with pytest.raises(ConfigError, match="its result cannot be sent"):
        web.remote_task("send", returns=dict[str | int, int])


def test_announced_change_is_noticed_when_a_call_does_not_fit(shop: Lockwork, web: Lockwork, own_url: str) -> None:
    shop.task(queue="mail")(send)
    announce(shop)
    remote = web.remote_task("send")
    remote.enqueue(1)
    with Lockwork(own_url, app_name=SHOP, app_version="2") as deployed:

        @deployed.task(name="send", queue="mail")
        def changed(user: int, subject: str, urgency: int) -> None: ...

        announce(deployed)
        directory: Any = web._announced_tasks
        directory._read_at -= announced_tasks._AGAIN
        assert remote.enqueue(1, "hi", 3).new, "the new signature, at once"


def test_call_may_fit_any_version_that_workers_run(shop: Lockwork, web: Lockwork, own_url: str) -> None:
    shop.task(queue="mail")(send)
    with Lockwork(own_url, app_name=SHOP, app_version="2") as deployed:

        @deployed.task(name="send", queue="mail", key="user:{member}")
        def changed(member: int, urgency: int) -> None: ...

        announce(shop)
        announce(deployed)
        remote = web.remote_task("send")
        assert remote.enqueue(member=1, urgency=2).inspect().key == "user:1"
        assert remote.enqueue(user=1).inspect().key is None
        with pytest.raises(TypeError, match=r"missing a required argument"):
            remote.enqueue()


def test_several_apps_with_one_name(shop: Lockwork, web: Lockwork, own_url: str) -> None:
    shop.task(queue="mail")(send)
    announce(shop)
    with Lockwork(own_url, app_name="bank") as bank:

        @bank.task(name="send", queue="money")
        def transfer(amount: int, account: str) -> None: ...

        announce(bank)
    with pytest.raises(ConfigError, match=r"several apps have a task 'send', in the queues 'mail', 'money': pass one"):
        web.remote_task("send").enqueue(1)
    assert web.remote_task("send", queue="money").enqueue(1, account="b").queue == "money"
    with pytest.raises(TypeError):
        web.remote_task("send", queue="mail").enqueue(1, account="b")


def test_alias_finds_the_task(shop: Lockwork, web: Lockwork) -> None:
    shop.task(name="send", queue="mail", aliases=["old.send"])(send)
    announce(shop)
    with pytest.raises(TypeError):
        web.remote_task("old.send").enqueue()
    job = web.remote_task("old.send").enqueue(1)
    assert job.inspect().task == "old.send", "workers of both versions know this name"
    with working(shop):
        assert job.result(10) == [1, "hello", False, "mail"]


def test_task_of_this_app_needs_no_announcement(lw: Lockwork) -> None:
    remote = lw.remote_task("send")

    @lw.task(queue="mail", key="user:{user}")
    def send(user: int) -> int:
        return user

    with record():  # no server
        with pytest.raises(TypeError):
            remote.enqueue()
        job = remote.enqueue(5)
        moved = lw.remote_task("send", queue="urgent").enqueue(5)
        assert_enqueued(send, args=(5,), key="user:5", queue="mail")
    assert (job.queue, moved.queue) == ("mail", "urgent")


def test_function_of_a_remote_task_cannot_run_here(web: Lockwork) -> None:
    remote = web.remote_task("other.task", queue="mail")
    calls: list[Callable[[], object]] = [remote, remote.run, lambda: asyncio.run(remote.arun(1))]
    for call in calls:
        with pytest.raises(ConfigError, match=r"'other.task' is known here by name only, so it cannot run here"):
            call()
    with pytest.raises(AttributeError, match=r"use other.task.enqueue\(...\)"):
        remote.delay  # type: ignore[attr-defined]  # noqa: B018
    with pytest.raises(AttributeError, match=r"use lw.remote_task\(name\).enqueue"):
        web.send_task  # type: ignore[attr-defined]  # noqa: B018


def test_same_name_and_queue_are_the_same(web: Lockwork, shop: Lockwork) -> None:
    remote = web.remote_task("send", queue="mail")
    assert remote == web.remote_task("send", queue="mail")
    assert hash(remote) == hash(web.remote_task("send", queue="mail"))
    assert remote.options(queue="x").options(queue="mail") == remote
    others = [web.remote_task("send"), shop.remote_task("send", queue="mail"), remote.options(retries=2), "send"]
    assert all(remote != each for each in others)
    assert repr(remote) == "<RemoteTask 'send' queue='mail'>"


@dataclass
class Receipt:
    user: int


def test_result_has_the_type_that_the_caller_names(shop: Lockwork, web: Lockwork) -> None:
    @shop.task(queue="mail")
    def pay(user: int) -> Receipt:
        return Receipt(user)

    announce(shop)
    with working(shop):
        assert web.remote_task("pay", returns=Receipt).enqueue(3).result(10) == Receipt(3)
        job = web.remote_task("pay").enqueue(3)
        assert job.result(10) == {"user": 3}
        assert web.remote_task("pay", queue="mail", returns=Receipt).job(job.id).result(10) == Receipt(3)


def test_partitions_of_the_other_app_are_used(own_url: str, web: Lockwork) -> None:
    with Lockwork(own_url, app_name=SHOP, partitions={"mail": 3}) as shop:
        shop.task(queue="mail", key="user:{user}")(send)
        announce(shop)
        remote = web.remote_task("send")
        jobs = remote.enqueue_many([(number,) for number in range(20)])
        assert {job.queue for job in jobs} == {"mail/0", "mail/1", "mail/2"}
        with working(shop):
            assert jobs[7].result(10)[0] == 7
            assert web.remote_task("send").job(jobs[7].id).result(10)[0] == 7
        with pytest.raises(ConfigError, match=r"set partitions=\{'mail': 3\} of Lockwork"):
            remote.call(1)
    with Lockwork(own_url, partitions={"mail": 3}) as app:
        assert app.remote_task("send").call(1).queue == "mail"


def test_jobs_of_a_limited_task_go_to_its_partition(own_url: str, web: Lockwork) -> None:
    with Lockwork(own_url, app_name=SHOP, partitions={"mail": 3}) as shop:
        own = shop.task(queue="mail", concurrency=1)(send)
        announce(shop)
        jobs = [*web.remote_task("send").enqueue_many([(number,) for number in range(10)]), own.enqueue(1)]
        assert len({job.queue for job in jobs}) == 1


def announce_double_and_fails(shop: Lockwork) -> None:
    @shop.task(queue="mail")
    def double(number: int) -> int:
        return 2 * number

    @shop.task(queue="mail", retries=0)
    def fails(number: int) -> None:
        raise LookupError(number)

    announce(shop)


def test_callbacks_of_a_remote_task(shop: Lockwork, web: Lockwork) -> None:
    announce_double_and_fails(shop)
    remote = web.remote_task("double", queue="mail")
    job = remote.options(then=[remote, lambda number: remote.call(number)]).enqueue(4)
    refused = web.remote_task("fails").options(on_error=remote.call(5)).enqueue(1)
    with working(shop):
        assert web.flow(id=job.id, queue="mail").result(10) == [16, 16]
        handled = web.flow(id=refused.id, queue="mail")
        with pytest.raises(JobFailed):
            handled.result(10)
        assert handled.job(2).result(10) == 10


def test_calls_in_flows_schedules_stocks_and_locks(shop: Lockwork, web: Lockwork) -> None:
    announce_double_and_fails(shop)
    remote = web.remote_task("double", queue="mail")
    flow = web.chain(remote.call(1), remote, lambda result: remote.call(result)).enqueue()
    undo = web.flow(on_failure="compensate")
    undo.add(web.remote_task("fails").call(undo.add(remote.call(6), compensate=remote)))
    undone = undo.enqueue()
    everyone = web.chord([remote.call(1), remote.call(2)], web.remote_task("send", queue="mail")).enqueue()
    web.create_schedule(remote.call(1), name="evening", at=datetime.now(UTC) + timedelta(hours=1))
    ran = web.schedule("evening", queue="mail").run_now()
    stock = web.stock("phone", 5, queue="mail")
    held = stock.reserve("bob", enqueue=remote.call(21))
    lock = web.queue("mail").lock("order:1")
    after = lock.acquire().release_and_enqueue(remote.call(4))

    @shop.task(name="send", queue="mail")
    def add(numbers: list[int]) -> int:
        return sum(numbers)

    with working(shop):
        assert (flow.result(10), everyone.result(10)) == (8, 6)
        with pytest.raises(JobFailed):
            undone.result(10)
        assert ran is not None
        assert ran.result(10) == 2
        assert web.job(held.id, "mail").result(10) == 42
        assert after.result(10) == 8
    web.schedule("evening", queue="mail").delete()


def test_announcements_are_read_once_a_minute(shop: Lockwork, web: Lockwork, monkeypatch: pytest.MonkeyPatch) -> None:
    reads: list[str] = []
    read_running = workers.read_running

    def counted(prefix: str) -> Any:
        reads.append(prefix)
        return read_running(prefix)

    monkeypatch.setattr(announced_tasks, "read_running", counted)
    shop.task(queue="mail")(send)
    announce(shop)
    directory: Any = web._announced_tasks
    for _ in range(3):
        web.remote_task("send").enqueue(2)
    assert len(reads) == 1
    directory._read_at -= announced_tasks._FRESH + 1
    for _ in range(3):
        web.remote_task("send").enqueue(3)
    assert len(reads) == 2


def test_producer_without_the_right_to_read_workers(shop: Lockwork, own_url: str) -> None:
    shop.task(queue="mail")(send)
    announce(shop)
    with Lockwork(as_role(own_url, "producer")) as web:
        with pytest.raises(TypeError):
            web.remote_task("send").enqueue()
        assert web.remote_task("send").enqueue(1).new


def test_recording_notes_the_job_and_inline_does_not_run_it(web: Lockwork) -> None:
    remote = web.remote_task("other.task", queue="mail")
    with inline():
        job = remote.enqueue(42, subject="hi")
        assert_enqueued(remote, args=(42,), kwargs={"subject": "hi"}, queue="mail")
        assert_enqueued("other.task", count=1)
        with pytest.raises(AssertionError):
            assert_enqueued(remote, args=(43,))
        with pytest.raises(NoServer):
            job.result()
