"""Records of tasks with `hide_arguments` are marked, and no search reveals their arguments."""

from __future__ import annotations

from typing import Any

import pytest
import redis

from commandstats import script_calls
from indexed import listed
from lockwork import ConfigError, Lockwork
from lockwork.ids import new_ids
from lockwork.jobs.search import JobPage
from lockwork.protocol.keys import QueueKeys
from lockwork.protocol.queue import leases, record_header
from lockwork.protocol.queue.leases import Leased, Outcome
from lockwork.protocol.queue.record_header import Budget, JobLimits

KEYS = QueueKeys("lw", "default")
SESSION = "host/1/a"
ERROR = b'{"type":"ValueError","message":"declined","traceback":"x"}'
LONG = "x" * 5000


def pay(card: str, note: str = "") -> None: ...


def leased(lw: Lockwork, count: int = 100) -> list[Leased]:
    lw.runtime.run(leases.beat(KEYS, {SESSION: True}, 600_000, 5))
    return lw.runtime.run(leases.reserve(KEYS, SESSION, count, new_ids(1)[0], "")).jobs


def end(lw: Lockwork, kind: str) -> None:
    value = b"1" if kind == "s" else ERROR if kind in "rd" else b""
    while held := leased(lw):
        ends = [Outcome(job.id, job.token, kind, value, 500_000) for job in held]  # type: ignore[arg-type]
        assert all(lw.runtime.run(leases.settle(KEYS, SESSION, ends, 600_000)))


@pytest.mark.parametrize("deliveries", [0, 7])
@pytest.mark.parametrize("names", [{}, {"key": "k"}, {"group": "g", "limits": JobLimits(2)}, {"unique": "dpay/x"}])
def test_mark_is_one_byte_and_changes_nothing_else(names: Any, deliveries: int) -> None:
    plain = record_header.head(1, 4, deliveries=deliveries, **names)
    marked = record_header.head(1, 4, deliveries=deliveries, hidden=True, **names)
    assert len(marked) == len(plain) + 1
    assert (record_header.is_hidden(plain), record_header.is_hidden(marked)) == (False, True)
    assert record_header.budget(marked) == record_header.budget(plain) == Budget(4, deliveries)
    assert record_header.names(marked) == record_header.names(plain)
    assert record_header.key(marked) == record_header.key(plain)


def test_job_of_another_task_has_no_mark(lw: Lockwork) -> None:
    lw.task(name="pay")(pay).enqueue("4111")
    lw.task(name="hidden", hide_arguments=True)(pay).enqueue("4111")
    held = leased(lw)
    assert [job.record for job in held] == [b'1,4,,;["pay",["4111"]]', b'1,4/,,;["hidden",["4111"]]']
    ends = [Outcome(job.id, job.token, "c") for job in held]
    assert all(lw.runtime.run(leases.settle(KEYS, SESSION, ends, 600_000)))


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"max_deliveries": 2},
        {"key": "k:{card}"},
        {"group": "g:{card}", "group_concurrency": 1},
        {"unique": "{card}"},
    ],
)
def test_marked_jobs_are_leased_retried_and_die_like_others(lw: Lockwork, admin: redis.Redis, options: Any) -> None:
    seen: list[list[Any]] = []
    for hide in (False, True):
        task = lw.task(name=f"pay{hide}", retries=1, hide_arguments=hide, **options)(pay)
        job = task.enqueue("4111")
        task.enqueue("5222")
        found: list[Any] = []
        while len(found) < 4:
            held = leased(lw, 10)
            found += [len(held)] if held else []
            ends = [
                Outcome(each.id, each.token, "r" if each.attempt == 1 else "d", ERROR, 0 if each.attempt == 1 else 1)
                for each in held
            ]
            assert all(lw.runtime.run(leases.settle(KEYS, SESSION, ends, 600_000)))
            if job.state() == "dead" and lw.queue().status().ready == 0:
                break
        look = job.inspect()
        found += [look.state, look.attempts, look.key, look.group, look.args, lw.queue().status().dead]
        assert look.hidden is hide
        seen.append(found)
        lw.queue().dead.delete_all()
    assert seen[0] == seen[1]


def test_mark_is_in_every_place_history_and_the_dead_set(lw: Lockwork) -> None:
    hidden = lw.task(name="hidden", retries=0, hide_arguments=True)(pay)
    jobs = [hidden.enqueue("4111", LONG), hidden.options(delay=60).enqueue("4111")]
    assert all(row.hidden for row in lw.jobs().jobs)
    end(lw, "d")
    assert all(row.hidden for row in lw.jobs().jobs)
    [dead] = lw.queue().dead.search().jobs
    found = lw.queue().dead.get(jobs[0].id)
    assert dead.call.hidden
    assert found is not None
    assert found.call.hidden
    for kind in "sc":
        hidden.enqueue("4111", LONG)
        end(lw, kind)
    flow = lw.chain(hidden.call("4111"), hidden.call("4112")).enqueue()
    assert len(lw.jobs(state="done").jobs) == 3
    assert all(row.hidden for row in lw.jobs().jobs)
    assert all(job.inspect().hidden for job in jobs)
    flow.cancel()


def filled(lw: Lockwork, state: str) -> None:
    """Enqueue jobs of a hidden and of a plain task; every third hidden job has a secret with a 7."""
    hidden = lw.task(name="hidden", hide_arguments=True, key="k{card}", group="g{card}", tags=["shop"])(pay)
    plain = lw.task(name="plain")(pay)
    for number in range(60):
        hidden.enqueue(f"{'secret7' if number % 3 == 0 else 'secret8'} {number}", LONG if number % 2 else "")
        plain.enqueue("5222")
    if state != "ready":
        end(lw, {"dead": "d", "cancelled": "c", "scheduled": "r"}[state])


def all_pages(lw: Lockwork, admin: redis.Redis, **wanted: Any) -> list[Any]:
    """Return the visible pages, and the number of server calls for each page."""
    seen: list[Any] = []
    after = None
    while True:
        before = script_calls(admin)
        page: JobPage = lw.jobs(after=after, limit=5, budget=30, hide_arguments=True, **wanted)
        seen.append((page, script_calls(admin) - before))
        after = page.next
        if after is None:
            return seen


@pytest.mark.parametrize("state", ["ready", "scheduled", "dead", "cancelled"])
@pytest.mark.parametrize("by", ["text", "arg"])
def test_right_guess_looks_like_a_wrong_one(lw: Lockwork, admin: redis.Redis, state: str, by: str) -> None:
    filled(lw, state)
    listed(admin, "default", kind="queues")
    right = all_pages(lw, admin, state=state, **{by: "secret7" if by == "text" else "secret7 0"})
    wrong = all_pages(lw, admin, state=state, **{by: "secret9" if by == "text" else "secret9 0"})
    assert right == wrong
    assert not any(page.jobs for page, _ in right)


@pytest.mark.parametrize("by", ["ksecret", "gsecret7"])
def test_key_and_group_are_not_matched_by_part(lw: Lockwork, by: str) -> None:
    filled(lw, "ready")
    assert lw.jobs(text=by).jobs
    assert not lw.jobs(text=by, hide_arguments=True, limit=1000, budget=10_000, task="hidden").jobs


def test_exact_key_finds_a_hidden_job_without_showing_it(lw: Lockwork) -> None:
    job = lw.task(name="hidden", hide_arguments=True, key="k{card}", group="g{card}")(pay).enqueue("4111")
    for wanted in ({"key": "k4111"}, {"group": "g4111"}, {"text": "hidden"}, {"text": job.id[2:]}):
        [row] = lw.jobs(hide_arguments=True, **wanted).jobs  # type: ignore[arg-type]
        assert (row.id, row.args, row.kwargs, row.key, row.group, row.hidden) == (job.id, None, None, None, None, True)
    [row] = lw.jobs(key="k4111").jobs
    assert (row.args, row.key, row.group) == (("4111",), "k4111", "g4111"), "an app sees its own jobs"


def test_bulk_changes_do_not_reveal_arguments(lw: Lockwork) -> None:
    filled(lw, "ready")
    changed = lw.cancel_jobs(text="secret7", hide_arguments=True)
    assert (changed, changed.undecided) == (0, 0)
    assert lw.cancel_jobs(arg="5222", hide_arguments=True) == 60
    assert lw.cancel_jobs(text="secret7") == 20


def test_hide_arguments_must_be_a_bool(lw: Lockwork) -> None:
    with pytest.raises(ConfigError, match="hide_arguments must be True or False"):
        lw.jobs(hide_arguments=1)  # type: ignore[arg-type]
