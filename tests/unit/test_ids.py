"""Ids: unique without coordination, and in the order of creation."""

from __future__ import annotations

import os
import random
import re
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from lockwork import ids
from lockwork.protocol.keys import checked
from lockwork.protocol.queue.records import made
from lockwork.protocol.schedules.schedules import slot_id


def test_ids_sort_by_creation_time() -> None:
    made = [ids.new_id() for _ in range(20_000)]
    assert made == sorted(made)
    assert len(set(made)) == len(made)
    assert {len(id) for id in made} == {16}
    assert checked(made[0], "an id") == made[0]


def test_clock_that_steps_back_does_not_repeat_or_reorder_ids(monkeypatch: pytest.MonkeyPatch) -> None:
    before = ids.new_id()
    monkeypatch.setattr("lockwork.ids.time.time_ns", lambda: 1_000_000_000_000_000_000)
    after = [ids.new_id() for _ in range(3)]
    assert before < after[0] < after[1] < after[2]


def test_threads_at_once_never_make_the_same() -> None:
    start = threading.Barrier(8)

    def make() -> list[str]:
        start.wait()
        return [ids.new_id() for _ in range(5_000)]

    with ThreadPoolExecutor(8) as pool:
        parts = [future.result() for future in [pool.submit(make) for _ in range(8)]]
    assert all(part == sorted(part) for part in parts)
    assert len({id for part in parts for id in part}) == 40_000


def test_forked_child_makes_different_ids() -> None:
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writer, "".join(ids.new_id() for _ in range(50)).encode())
        os._exit(0)
    mine = {ids.new_id() for _ in range(50)}
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        text = pipe.read().decode()
    os.waitpid(child, 0)
    theirs = {text[at : at + 16] for at in range(0, len(text), 16)}
    assert len(theirs) == 50
    assert not mine & theirs


def matches(id: str, task: str | None, tag: str | None, key: str | None = None) -> bool:
    """Do what Lua's string.find(id, pattern, 17) does with a suffix pattern."""
    pattern = ids.suffix_pattern(task, tag, key).replace("%-", r"\-").removeprefix("^")
    return re.match(pattern, id[16:]) is not None


def test_suffix_of_an_id_matches_its_task_its_key_and_each_tag() -> None:
    chosen = random.Random(5)
    names = [f"{word}{number}" for word in ("app.send_", "größe ", "x") for number in range(300)]
    passed = dict.fromkeys(("task", "key", "tag", "no key", "no tags"), 0)
    for task in names:
        tags, key = chosen.sample(names, chosen.choice([0, 0, 1, 3])), chosen.choice([None, task])
        id = ids.new_id() + ids.job_suffix(task, tags, key)
        assert len(id) == (23 if tags or key else 18)
        assert ids.made_at(id) is not None
        for tag in (*tags, None):
            for name in (task, None):
                assert matches(id, name, tag)
                assert key is None or matches(id, name, tag, key)
        passed["task"] += matches(id, chosen.choice(names), None)
        passed["key" if key else "no key"] += matches(id, None, None, chosen.choice(names))
        passed["tag" if tags else "no tags"] += matches(id, None, chosen.choice(names))
    assert passed["no key"] == passed["no tags"] == 0
    assert max(passed["task"], passed["key"]) < 10
    assert passed["tag"] < 50


@pytest.mark.parametrize("end", ["00001", "00001u", "20000", "123456"])
def test_id_of_a_flows_job_names_the_flow_and_the_number(end: str) -> None:
    flow = ids.new_id()
    assert ids.node_of(f"{flow}.{end}") == (flow, int(end.rstrip("u")))
    assert ids.enqueued_at(f"{flow}.{end}") == ids.made_at(flow)


@pytest.mark.parametrize("id", ["", "order.1", ".00001", "order.00001x", "order-00001", "a.b@2026-02-03T00:00:00Z"])
def test_other_id_is_of_no_flow(id: str) -> None:
    assert ids.node_of(id) is None


def test_node_id_is_read_back() -> None:
    assert ids.node_of(ids.node_id("order.7", 12)) == ("order.7", 12)


def test_ids_of_flows_have_no_suffix() -> None:
    assert ids.made_at(f"{ids.new_id()}.00001u") is None


@pytest.mark.parametrize("slot", [1_795_524_480_000, 1_795_524_480_250])
def test_job_of_a_slot_has_the_time_of_its_slot(slot: int) -> None:
    id = slot_id("a@b", slot)
    assert ids.slot_of(id) == ("a@b", slot)
    assert ids.made_at(id) == slot
    assert made(id) == slot / 1000


def test_job_of_a_manually_run_schedule_belongs_to_it() -> None:
    id = ids.new_id()
    assert ids.slot_of(f"a@b@{id}") == ("a@b", ids.made_at(id))
    assert made(f"a@b@{id}") == made(id)


@pytest.mark.parametrize(
    "id", ["a@2026-02-30T00:00:00Z", "a@", "@2026-02-03T00:00:00Z", "a@2026-02-03", "@@@@@@@@@@@@@@@@"]
)
def test_malformed_slot_id_has_no_time(id: str) -> None:
    assert ids.made_at(id) is None
    assert made(id) is None
