"""The graph of waiters and owners: a box for each owner, and a shared box for equal waiters."""

from __future__ import annotations

from lockwork.dashboard.waiting import Graph, graph
from lockwork.protocol.locks.deadlocks import Deadlock, Edge
from lockwork.protocol.locks.overview import Overview


def drawn(*edges: Edge, stuck: tuple[str, ...] = ()) -> Graph:
    deadlocks = (Deadlock(stuck, edges),) if stuck else ()
    found = graph(Overview((), edges, deadlocks), str.upper)
    assert found is not None
    return found


def test_waiters_for_the_same_lock_are_one_box() -> None:
    made = drawn(*(Edge(f"w{number}", "holder", "lock a") for number in range(5)))
    assert [(node.label, len(node.owners), node.lock) for node in made.nodes] == [
        ("5 waiters", 5, "lock a"), ("HOLDER", 1, ""),
    ]  # fmt: skip
    assert len(made.arrows) == 1


def test_waiters_that_others_wait_for_and_few_have_boxes_of_their_own() -> None:
    edges = [Edge(waiter, "holder", "lock a") for waiter in ("w1", "w2", "w3")]
    made = drawn(*edges, Edge("last", "w1", "lock b"))
    assert {node.label for node in made.nodes} == {"HOLDER", "W1", "W2", "W3", "LAST"}


def test_members_of_a_deadlock_are_never_folded() -> None:
    made = drawn(Edge("x", "y", "lock a"), Edge("y", "x", "lock b"), stuck=("x", "y"))
    assert [(node.label, node.lock, node.stuck) for node in made.nodes] == [
        ("X", "lock a", True), ("Y", "lock b", True),
    ]  # fmt: skip
    assert all(arrow.stuck for arrow in made.arrows)


def test_graph_without_waiters_is_none() -> None:
    assert graph(Overview((), (), ()), str) is None
