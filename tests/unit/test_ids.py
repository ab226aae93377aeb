"""Ids: unique without asking anybody, and in the order they were made."""

from __future__ import annotations

import os
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
