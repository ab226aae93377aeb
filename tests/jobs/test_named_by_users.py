"""Jobs with keys, groups and unique names from users' data: they run, and searches find them by the original names."""

from __future__ import annotations

import json
from typing import Any

import pytest
import redis
from click.testing import CliRunner

from lockwork import ConfigError, Lockwork
from lockwork.cli.commands import cli
from lockwork.protocol import names

NASTY = [
    "",
    "two words",
    "two%20words",
    " padded ",
    "a,b;c",
    "{a}b{",
    "100%",
    "a\nb",
    "\x1b[31mred",
    "\u2028\u00a0",
    "\u65e5\u672c \U0001f600",
    "a/b:c|d>",
    "x" * 201,
    "x" * 202,
    "y z" * 500,
]
LONG = "y z" * 500


def test_jobs_of_each_customer_run_in_order(handled: Any) -> None:
    jobs = [(name, number, handled.bill.enqueue(name, number)) for number in range(3) for name in NASTY]
    for name, number, job in jobs:
        assert job.result(30) == number
        seen = job.inspect()
        assert (seen.key, seen.group) == (names.display(name), names.display(name))
    for name in NASTY:
        mine = [job.id for each, _, job in jobs if each == name]
        for given in (name, names.display(name)):
            found = handled.lw.jobs(key=given, state="succeeded", newest=False).jobs
            assert [each.id for each in found if each.id in mine] == mine
            assert {each.key for each in found} == {names.display(name)}


def test_customers_do_not_share_unique_names(handled: Any) -> None:
    jobs = [handled.remind.enqueue(name) for name in NASTY]
    assert all(job.new for job in jobs)
    assert [job.result(30) for job in jobs] == [job.id for job in jobs]


def tasks(lw: Lockwork) -> dict[str, Any]:
    def work(customer: str) -> None: ...

    return {
        "key": lw.task(queue="mail", name="keyed", key="{customer}")(work),
        "group": lw.task(queue="mail", name="grouped", group="{customer}")(work),
    }


@pytest.mark.parametrize("option", ["key", "group"])
def test_waiting_jobs_are_found_by_the_names_of_users(lw: Lockwork, url: str, option: str) -> None:
    task = tasks(lw)[option]
    made = {name: task.enqueue(name) for name in NASTY}
    for name, job in made.items():
        shown = names.display(name)
        assert getattr(job.inspect(), option) == shown
        for text in (name, shown):
            (found,) = lw.jobs("mail", **{option: text}).jobs  # type: ignore[arg-type]
            assert (found.id, getattr(found, option)) == (job.id, shown)
            words = ["jobs", "--url", url, "mail", f"--{option}={text}", "--json"]
            document = json.loads(CliRunner().invoke(cli, words).stdout)
            assert [(each["id"], each[option]) for each in document["jobs"]] == [(job.id, shown)]
        if shown:
            assert job.id in {each.id for each in lw.jobs("mail", text=shown).jobs}
    assert lw.jobs("mail", text="%2C").jobs == [], "escapes are not searched"
    digits = names.display(LONG).rpartition(names.HASHED)[2]
    for text in (digits, f"sha256:{digits[:9]}", names.display(LONG)[20:-20]):
        assert [each.id for each in lw.jobs("mail", text=text).jobs] == [made[LONG].id]


def test_commands_change_only_the_jobs_of_the_named_customer(lw: Lockwork, url: str) -> None:
    task = tasks(lw)["key"]
    made = {name: task.enqueue(name) for name in NASTY}
    for name in ("two words", "", " padded ", LONG):
        found = CliRunner().invoke(cli, ["jobs", "cancel", "--url", url, "mail", f"--key={name}", "--yes"])
        assert found.exit_code == 0, found.output
        assert made.pop(name).state() == "cancelled"
        assert {job.state() for job in made.values()} == {"ready"}


def test_name_of_single_options_is_literal_if_its_braces_are_doubled(lw: Lockwork) -> None:
    task = tasks(lw)["key"]
    assert task.options(key="{{customer}} a").enqueue("b").inspect().key == "{customer} a"
    assert task.options(key="a, b").enqueue("b").inspect().key == "a, b"
    with pytest.raises(ConfigError, match="write {{ and }} for braces that are no placeholders"):
        task.options(key="{")


def test_names_of_different_tasks_are_not_confused(lw: Lockwork) -> None:
    def work(name: str) -> None: ...

    one = lw.task(name="a", unique="{name}")(work)
    other = lw.task(name="a/b", unique="{name}")(work)
    third = lw.task(name="a,b;c", unique="{name}")(work)
    assert [one.enqueue("b/c").new, other.enqueue("c").new, other.enqueue("c").new] == [True, True, False]
    assert [third.enqueue("c").new, third.enqueue("c").new] == [True, False]


def test_jobs_of_one_customer_are_on_one_partition(app_url: str, admin: redis.Redis) -> None:
    with Lockwork(app_url, partitions={"mail": 7}) as lw:
        for name in NASTY:
            each = {option: task.enqueue(name).queue for option, task in tasks(lw).items()}
            each["unique"] = lw.task(queue="mail", name="u", unique="{c}")(lambda c: None).enqueue(name).queue
            each["lock"] = lw.queue("mail").lock(name).queue
            each["stock"] = lw.stock(name, 1, queue="mail").queue
            assert len(set(each.values())) == 1, (name, each)
            with lw.queue("mail").lock(name) as grant:
                assert grant.release_and_enqueue(tasks(lw)["key"].call(name)).queue == each["key"]
