"""Ids: unique without asking anybody, and in the order they were made."""

from __future__ import annotations

import os
import random
import re
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from lockwork import ids
from lockwork.protocol.keys import checked


def test_ids_sort_by_creation_time() -> None:
    made = [ids.new_id() for _ in range(20_000)]
    assert made == sorted(made)
    assert len(set(made)) == len(made)
    assert {len(id) for id in made} == {16}
    assert checked(made[0], "an id") == made[0]


def test_a_clock_that_steps_back_does_not_repeat_or_reorder(monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_a_forked_child_makes_others_than_its_parent() -> None:
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


def matches(id: str, task: str | None, tag: str | None) -> bool:
    """What Lua's string.find(id, pattern, 17) does with such a pattern."""
    pattern = ids.suffix_pattern(task, tag).replace("%-", r"\-").removeprefix("^")
    return re.match(pattern, id[16:]) is not None


def test_suffix_of_an_id_matches_its_task_and_each_tag() -> None:
    chosen = random.Random(5)
    names = [f"{word}{number}" for word in ("app.send_", "größe ", "x") for number in range(300)]
    passed = [0, 0, 0]
    for task in names:
        tags = chosen.sample(names, chosen.choice([0, 0, 1, 3]))
        id = ids.new_id() + ids.job_suffix(task, tags)
        assert len(id) == (21 if tags else 18)
        assert ids.made_at(id) is not None
        assert matches(id, task, None)
        assert all(matches(id, None, tag) and matches(id, task, tag) for tag in tags)
        passed[0] += matches(id, chosen.choice(names), None)
        passed[1 + bool(tags)] += matches(id, None, chosen.choice(names))
    assert passed[0] < 10
    assert passed[1] == 0
    assert passed[2] < 50
