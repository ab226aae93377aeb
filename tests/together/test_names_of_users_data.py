"""Names with special characters: objects of different names stay separate, and lists show the names."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from click.testing import CliRunner

from clusters import clustered
from lockwork import LimitReached, LockTimeout, Lockwork, RateLimited, SoldOut
from lockwork.cli.commands import cli
from lockwork.protocol import names

NASTY = [
    "",
    "two words",
    "two%20words",
    "a,b;c",
    "{a}b{",
    "}",
    "100%",
    "a\nb",
    "\x1b[31mred\x00",
    "\u2028\u00a0",
    "\u65e5\u672c \U0001f600",
    "a/b:c|d>",
    "x" * 199 + "1",
    "x" * 201,
    "x" * 202,
    "y z" * 500,
    "\ud800",
    "\ud801",
]
"""Names of customers, which must not share an object."""
CLUSTER_NAMES = ["{a}", "{", "}{", "{}", "a b", "{{a}}", "{a}{b}", "", "x{" * 150]


def ids(names: list[str]) -> list[str]:
    return [f"{number}-{ascii(name)[:20]}" for number, name in enumerate(names)]


def held_apart(make: Callable[[Lockwork, str], Any]) -> Callable[[Lockwork, Lockwork, list[str]], None]:
    """Acquire all names at once, and check that no other caller can acquire any."""

    def check(lw: Lockwork, other: Lockwork, nasty: list[str]) -> None:
        grants = [make(lw, name).acquire(wait=0) for name in nasty]
        for name, grant in zip(nasty, grants, strict=True):
            assert grant.name == name
            with pytest.raises(LockTimeout) as refused:
                make(other, name).acquire(wait=0)
            assert repr(names.display(name)) in str(refused.value)
        for grant in grants:
            grant.release()
        for name in nasty:
            make(other, name).acquire(wait=20).release()

    return check


def limited_apart(lw: Lockwork, other: Lockwork, nasty: list[str]) -> None:
    for name in nasty:
        lw.limiter(name, "1/h").acquire(wait=0)
    for name in nasty:
        with pytest.raises(RateLimited) as refused:
            other.limiter(name, "1/h").acquire(wait=0)
        assert repr(names.display(name)) in str(refused.value)
    assert {each.name for each in lw.limiters().limiters} == set(map(names.display, nasty))
    for name in nasty:
        assert [each.name for each in lw.limiters(glob_literal(name)).limiters] == [names.display(name)]


def glob_literal(name: str) -> str:
    """Return the name, if its characters have no meaning in patterns."""
    return name.replace("[", "[[]")


def latched_apart(lw: Lockwork, other: Lockwork, nasty: list[str]) -> None:
    for number, name in enumerate(nasty):
        assert lw.latch(name, 100).count_down(number + 1) == 99 - number
    assert [other.latch(name, 100).inspect().left for name in nasty] == [99 - at for at in range(len(nasty))]


def gathered_apart(lw: Lockwork, other: Lockwork, nasty: list[str]) -> None:
    for name in nasty:
        assert other.barrier(name, 1).inspect().generation == 0
        assert lw.barrier(name, 1).wait(0) == 0


def run_once_each(lw: Lockwork, other: Lockwork, nasty: list[str]) -> None:
    for number, name in enumerate(nasty):
        assert lw.once(name).run(same, number) == number
    assert [other.once(name).run(same, -1) for name in nasty] == list(range(len(nasty)))


def same(number: int) -> int:
    return number


def written_apart(lw: Lockwork, other: Lockwork, nasty: list[str]) -> None:
    for number, name in enumerate(nasty):
        lw.fenced(name).set(number, number + 1)
    for number, name in enumerate(nasty):
        found = other.fenced(name).get()
        assert found is not None
        assert found.value == number


def delayed_apart(lw: Lockwork, other: Lockwork, nasty: list[str]) -> None:
    for number, name in enumerate(nasty):
        assert lw.delay_queue(name).add(str(number)) == 1
    for number, name in enumerate(nasty):
        assert [entry.id for entry in other.delay_queue(name).pop(5)] == [str(number)]


def sold_apart(lw: Lockwork, other: Lockwork, nasty: list[str]) -> None:
    for name in nasty:
        lw.stock(name, 1).reserve("ada")
    for name in nasty:
        with pytest.raises(SoldOut) as refused:
            other.stock(name, 1).reserve("bob")
        assert repr(names.display(name)) in str(refused.value)
    assert {each.name for each in lw.stocks()} == set(map(names.display, nasty))


def bought_apart(lw: Lockwork, other: Lockwork, nasty: list[str]) -> None:
    phones, again = lw.stock("phone", 1000, limit=1), other.stock("phone", 1000, limit=1)
    bought = {name: phones.reserve(name, key=name) for name in nasty}
    assert all(each.created for each in bought.values())
    for name, reservation in bought.items():
        assert again.reserve(name, key=name).id == reservation.id
        with pytest.raises(LimitReached) as refused:
            again.reserve(name)
        assert repr(names.display(name)) in str(refused.value)
        found = again.get(reservation)
        assert found is not None
        assert reservation.buyer == found.buyer == names.display(name)
        assert [each.id for each in again.reservations(name)] == [reservation.id]


def led_apart(lw: Lockwork, other: Lockwork, nasty: list[str]) -> None:
    for name in nasty:
        with lw.election(name) as candidate:
            assert candidate.wait(20)
            status = other.election(name).inspect()
            assert status.leader is not None
            assert status.leader.owner.startswith(lw.runtime.process)


KINDS: dict[str, Callable[[Lockwork, Lockwork, list[str]], None]] = {
    "lock": held_apart(lambda lw, name: lw.lock(name)),
    "sticky": held_apart(lambda lw, name: lw.lock(name, sticky=True)),
    "queuelock": held_apart(lambda lw, name: lw.queue("mail").lock(name)),
    "semaphore": held_apart(lambda lw, name: lw.semaphore(name, 1)),
    "rwlock": held_apart(lambda lw, name: lw.rwlock(name).write()),
    "limiter": limited_apart,
    "latch": latched_apart,
    "barrier": gathered_apart,
    "once": run_once_each,
    "register": written_apart,
    "delay queue": delayed_apart,
    "stock": sold_apart,
    "buyer": bought_apart,
    "election": led_apart,
}


@pytest.mark.parametrize("kind", KINDS)
def test_names_stay_separate_and_are_shown(lw: Lockwork, other: Lockwork, kind: str) -> None:
    KINDS[kind](lw, other, NASTY)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with clustered(tmp_path_factory.mktemp("names")) as nodes:
        yield nodes.url


@pytest.mark.parametrize("kind", KINDS)
def test_braces_are_no_hash_tags_on_a_cluster(cluster: str, kind: str) -> None:
    prefix = f"own-{kind.replace(' ', '-')}"
    with Lockwork(cluster, prefix=prefix) as lw, Lockwork(cluster, prefix=prefix) as other:
        KINDS[kind](lw, other, CLUSTER_NAMES)


def test_multilock_of_names_on_a_cluster(cluster: str) -> None:
    with Lockwork(cluster) as lw, Lockwork(cluster) as other, lw.multilock(*CLUSTER_NAMES):
        for name in CLUSTER_NAMES:
            assert other.lock(name).locked()


@pytest.mark.parametrize("name", NASTY, ids=ids(NASTY))
def test_lock_is_listed_with_its_name_and_its_tags(lw: Lockwork, url: str, name: str) -> None:
    shown = names.display(name)
    with lw.lock(name, tags=[name, "other"]), lw.queue("mail").lock(name), lw.semaphore(name, 3):
        found = {lock.kind: lock for lock in lw.locks().locks}
        assert {kind: lock.name for kind, lock in found.items()} == {
            "lock": shown,
            "queuelock": f"mail/{shown}",
            "semaphore": shown,
        }
        assert found["lock"].holders[0].holder.tags == (shown, "other")
        owner = lw.lock(name).owner()
        assert owner is not None
        assert owner.tags == (shown, "other")
        assert {lock.name for lock in lw.locks(glob_literal(name)).locks} == {shown}
        document = json.loads(command(url, "locks", "--json"))
        assert {each["name"] for each in document["locks"]} == {shown, f"mail/{shown}"}


def command(url: str, *words: str) -> str:
    """Run a command, and return its output."""
    found = CliRunner(env={"LOCKWORK_URL": url}).invoke(cli, words)
    assert found.exit_code == 0, found.exception or found.output
    return found.stdout


@pytest.mark.parametrize("how", ["given", "shown"])
@pytest.mark.parametrize("name", NASTY, ids=ids(NASTY))
def test_command_releases_the_named_lock(lw: Lockwork, url: str, name: str, how: str) -> None:
    neighbors = [each for each in NASTY if each != name]
    for each in NASTY:
        lw.lock(each).acquire()
    word = name if how == "given" else names.display(name)
    command(url, "locks", "release", "--yes", "--", word)
    assert not lw.lock(name).locked()
    assert all(lw.lock(each).locked() for each in neighbors)
    lw.release_all()
