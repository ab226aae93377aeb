"""Filters use the whole record; a job whose stored part does not decide is not changed."""

from __future__ import annotations

from typing import Any

import pytest

from lockwork import Lockwork
from lockwork.ids import new_ids
from lockwork.protocol.keys import QueueKeys
from lockwork.protocol.queue import enqueue, leases
from lockwork.protocol.queue.enqueue import NewJob
from lockwork.protocol.queue.leases import Outcome
from lockwork.protocol.queue.records import beginning_args

KEYS = QueueKeys("lw", "default")
LONG = "x" * 5000


@pytest.fixture
def send(lw: Lockwork) -> Any:
    """A task whose jobs may have tags."""

    @lw.task
    async def send(order: int, text: str, more: str = "") -> None: ...

    return send


def end(lw: Lockwork, kind: str = "c") -> None:
    """End all waiting jobs."""
    session = "host/1/a"
    lw.runtime.run(leases.beat(KEYS, {session: True}, 600_000, 5))
    while held := lw.runtime.run(leases.reserve(KEYS, session, 100, new_ids(1)[0], "")).jobs:
        ends = [Outcome(job.id, job.token, kind, b"1" if kind == "s" else b"") for job in held]  # type: ignore[arg-type]
        assert all(lw.runtime.run(leases.settle(KEYS, session, ends, 600_000)))


def test_word_in_a_long_argument_is_no_tag(lw: Lockwork, send: Any) -> None:
    word = send.options(tags=["other"]).enqueue(1, '"urgent"' + LONG)
    tagged = send.options(tags=["urgent"]).enqueue(2, LONG)
    plain = NewJob(new_ids(1)[0], b'1,4,,;["send",[1,"urgent","%s"]]' % LONG.encode())  # an ID without tags
    lw.runtime.run(enqueue.push(KEYS, [plain]))
    assert [job.id for job in lw.jobs(tag="urgent").jobs] == [tagged.id]
    changed = lw.cancel_jobs(tag="urgent")
    assert (changed, changed.undecided) == (1, 0)
    assert (tagged.state(), word.state(), lw.job(plain.id).state()) == ("cancelled", "ready", "ready")


@pytest.mark.parametrize("state", ["ready", "dead"])
def test_argument_of_a_long_record_is_compared_whole(lw: Lockwork, send: Any, state: Any) -> None:
    wanted = [send.enqueue(42, LONG), send.enqueue(7, LONG, more="42")]
    send.enqueue(7, LONG + "42")
    send.enqueue(142, LONG, more="order=42 ")
    if state == "dead":
        end(lw, "d")
    assert {job.id for job in lw.jobs(arg="42", state=state).jobs} == {job.id for job in wanted}
    assert [job.id for job in lw.jobs(arg="order=42", state=state).jobs] == [wanted[0].id]
    assert lw.delete_jobs(arg="order=42", state=state) == 1
    assert lw.delete_jobs(arg="more=42", state=state) == 1
    assert lw.jobs(state=state).total == 2


def test_text_behind_the_shown_part_is_found(lw: Lockwork, send: Any) -> None:
    job = send.enqueue(1, LONG + "needle")
    send.enqueue(1, LONG)
    [found] = lw.jobs(text="needle").jobs
    assert (found.id, found.args) == (job.id, None)
    assert lw.jobs(text="needle", newest=False).undecided == 0


def test_record_of_more_than_a_megabyte_is_searched(own_url: str) -> None:
    with Lockwork(own_url, max_payload=8 << 20) as lw:

        @lw.task
        async def send(text: str) -> None: ...

        found = send.enqueue("x" * (3 << 20) + "needle")
        send.enqueue("x" * (3 << 20))
        assert [job.id for job in lw.jobs(text="needle").jobs] == [found.id]
        send.enqueue("x" * (5 << 20) + "needle")
        changed = lw.cancel_jobs(text="needle")
        assert (changed, changed.undecided) == (1, 1)


@pytest.mark.parametrize("state", ["cancelled", "done", None])
def test_history_leaves_out_undecided_jobs(lw: Lockwork, send: Any, state: Any) -> None:
    decided = send.enqueue(42, LONG)
    send.enqueue(7, LONG + "42")
    behind = send.enqueue(7, LONG, more="42")
    short = send.enqueue(7, "", more="42")
    end(lw)
    page = lw.jobs(arg="42", state=state)
    assert ({job.id for job in page.jobs}, page.undecided) == ({decided.id, short.id}, 2)
    page = lw.jobs(arg="order=42", state=state)
    assert ([job.id for job in page.jobs], page.undecided) == ([decided.id], 0), "the kept part decides it"
    changed = lw.delete_jobs(arg="42", state=state)
    assert (changed, changed.undecided) == (2, 2)
    assert behind.inspect().state == "cancelled"
    assert lw.jobs(state="cancelled").total == 2


@pytest.mark.parametrize("wanted", [{"tag": "urgent"}, {"text": "needle"}, {"arg": "needle"}, {"arg": "more=needle"}])
def test_bulk_delete_leaves_undecided_jobs_of_history(lw: Lockwork, send: Any, wanted: Any) -> None:
    send.options(tags=["urgent"]).enqueue(1, LONG, more="needle")
    lw.task(name="other")(lambda text: None).enqueue(LONG)
    end(lw)
    changed = lw.delete_jobs(**wanted, task="send")
    assert (changed, changed.undecided) == (0, 1)
    assert lw.jobs(task="send", **wanted).undecided == 1
    assert lw.jobs(task="save", **wanted).undecided == 0
    assert lw.jobs(task="send", key="k", **wanted).undecided == 0
    assert lw.jobs(task="send", error="ValueError", **wanted).undecided == 0


def test_undecided_jobs_are_counted_once_over_all_pages(lw: Lockwork, send: Any) -> None:
    for number in range(30):
        send.enqueue(number % 2, LONG, more="0")
    end(lw)
    found, undecided, after = 0, 0, None
    while True:
        page = lw.jobs(state="cancelled", arg="0", limit=4, after=after)
        found, undecided, after = found + len(page.jobs), undecided + page.undecided, page.next
        if after is None:
            break
    assert (found, undecided) == (15, 15)


@pytest.mark.parametrize(
    ("record", "args"),
    [
        (b'1,4,,;["send",[1,"a,]",{"b":[2]},12', [1, "a,]", {"b": [2]}]),
        (b'1,4,,;["send" , [ 1 , 2 ],{"n":3', [1, 2]),
        (b'1,4,,;["send",[],{"n":3', []),
        (b'1,4,,;["send",["a\xc3', []),
        (b'1,4,,;["send",[1,"\xc3\xa4", "b', [1, "ä"]),
        (b'1,4,,,,>;["send",[null,1', []),
        (b'1,4,,;["send"', []),
        (b"1,4,,;[5,[1,", []),
        (b"1,4", []),
        (b"", []),
        (b'1,4,,;["send",[' + b"[" * 5000, []),
    ],
)
def test_beginning_of_a_record_has_whole_arguments_only(record: bytes, args: list[Any]) -> None:
    assert beginning_args(record) == args
