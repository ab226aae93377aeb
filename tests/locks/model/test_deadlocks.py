"""Deadlocks found by reduction, compared with a search through all orders of events."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from lockwork.protocol.locks import deadlocks
from lockwork.protocol.locks.deadlocks import Edge, Resource, Share

Stuck = Callable[[Sequence[Resource]], set[str]]


@st.composite
def systems(draw: st.DrawFn) -> list[Resource]:
    """Draw up to four resources of any kind and up to five owners, who may wait for several resources."""
    found = []
    owners = st.sampled_from("ABCDE")
    for name in "abcd"[: draw(st.integers(1, 4))]:
        capacity = draw(st.sampled_from([1, 1, 2, 3]))
        holders: list[Share] = []
        while sum(held.units for held in holders) < capacity and draw(st.booleans()):
            room = capacity - sum(held.units for held in holders)
            holders.append(Share(draw(owners), draw(st.integers(1, room))))
        line = draw(st.lists(st.builds(Share, owners, st.integers(1, capacity)), max_size=3))
        found.append(Resource(name, capacity, tuple(holders), tuple(line)))
    return found


def for_ever(system: Sequence[Resource]) -> set[str]:
    """Return the owners that still wait at the end of all possible histories."""
    ends: list[set[str]] = []
    seen: set[tuple[Resource, ...]] = set()
    todo = [tuple(system)]
    while todo:
        state = todo.pop()
        if state in seen:
            continue
        seen.add(state)
        after = list(steps(state))
        if not after:
            ends.append({waiter.owner for resource in state for waiter in resource.line})
        todo += after
    return set.intersection(*ends)


def steps(state: tuple[Resource, ...]) -> list[tuple[Resource, ...]]:
    """Return all possible next states."""
    waiting = {waiter.owner for resource in state for waiter in resource.line}
    found: list[tuple[Resource, ...]] = [
        tuple(replace(each, holders=tuple(held for held in each.holders if held.owner != owner)) for each in state)
        for owner in {held.owner for resource in state for held in resource.holders} - waiting
    ]
    for at, resource in enumerate(state):
        if resource.line:
            first, *rest = resource.line
            if sum(held.units for held in resource.holders) + first.units <= resource.capacity:
                holders = tuple(sorted((*resource.holders, first), key=lambda share: (share.owner, share.units)))
                found.append((*state[:at], replace(resource, holders=holders, line=tuple(rest)), *state[at + 1 :]))
    return found


def waiting_on(system: Sequence[Resource]) -> set[str]:
    """Return the owners that wait for ever, in a deadlock or behind one, according to the reduction."""
    return {waiter.owner for resource in deadlocks.reduced(system) for waiter in resource.line}


def check(stuck: Stuck) -> None:
    @settings(max_examples=400)
    @given(systems())
    def agrees(system: list[Resource]) -> None:
        assert stuck(system) == for_ever(system)

    agrees()


def any_cycle(system: Sequence[Resource]) -> set[str]:
    """A wrong search that calls each cycle a deadlock, although another holder of a semaphore may finish."""
    edges = deadlocks.graph(system)
    reach = {edge.waiter: {edge.blocker} for edge in edges}
    for edge in edges:
        reach[edge.waiter].add(edge.blocker)
    for _ in edges:
        for ends in reach.values():
            ends |= {far for near in ends for far in reach.get(near, ())}
    return {waiter for waiter in reach if any(other in reach.get(other, ()) for other in reach[waiter])}


def out_of_turn(system: Sequence[Resource]) -> set[str]:
    """A wrong search that grants a request as soon as enough units are free, out of order."""
    return waiting_on([replace(each, line=tuple(sorted(each.line, key=lambda w: w.units))) for each in system])


def keeps_it(system: Sequence[Resource]) -> set[str]:
    """A wrong search that ignores holders that do not wait, as if they never released."""
    waiting = {waiter.owner for each in system for waiter in each.line}
    held = [replace(each, holders=tuple(h for h in each.holders if h.owner in waiting)) for each in system]
    return {
        waiter.owner
        for each in held
        for waiter in each.line
        if waiter.units + sum(h.units for h in each.holders) > each.capacity
    }


def test_wait_without_timeout() -> None:
    check(waiting_on)


@pytest.mark.parametrize("twin", [any_cycle, out_of_turn, keeps_it])
def test_a_broken_search_is_caught(twin: Any) -> None:
    with pytest.raises(AssertionError):
        check(twin)


@settings(max_examples=400)
@given(systems())
def test_every_deadlock_is_named_and_true(system: list[Resource]) -> None:
    found = deadlocks.find(system)
    stuck = for_ever(system)
    assert bool(found) == bool(stuck)
    left = set(deadlocks.graph(deadlocks.reduced(system)))
    for deadlock in found:
        assert set(deadlock.members) <= stuck
        assert set(deadlock.cycle) <= left
        for edge, following in zip(deadlock.cycle, (*deadlock.cycle[1:], deadlock.cycle[0]), strict=True):
            assert edge.blocker == following.waiter
            assert edge.waiter in deadlock.members


def lock(name: str, holder: str, *line: str) -> Resource:
    return Resource(name, 1, (Share(holder),), tuple(Share(owner) for owner in line))


def test_two_callers_take_two_locks_in_opposite_order() -> None:
    (found,) = deadlocks.find([lock("a", "A", "B"), lock("b", "B", "A")])
    assert str(found) == "A holds a and waits for b; B holds b and waits for a"
    assert found.members == ("A", "B")


def test_one_that_waits_behind_a_deadlock_is_not_in_it() -> None:
    system = [lock("a", "A", "B", "C"), lock("b", "B", "A")]
    (found,) = deadlocks.find(system)
    assert found.members == ("A", "B")
    assert waiting_on(system) == {"A", "B", "C"}


def test_a_cycle_of_three_and_a_cycle_of_two() -> None:
    round_of_three = [lock("a", "A", "C"), lock("b", "B", "A"), lock("c", "C", "B")]
    found = deadlocks.find([*round_of_three, lock("x", "X", "Y"), lock("y", "Y", "X")])
    assert [each.members for each in found] == [("A", "B", "C"), ("X", "Y")]
    assert str(found[0]) == "A holds a and waits for b; B holds b and waits for c; C holds c and waits for a"


def test_a_semaphore_with_another_holder_that_can_finish() -> None:
    pool = Resource("pool", 2, (Share("A"), Share("D")), (Share("B"),))
    assert deadlocks.find([pool, lock("b", "B", "A")]) == []


def test_a_reader_behind_a_writer_that_waits_for_it() -> None:
    everything = 1 << 30
    doc = Resource("doc", everything, (Share("A"),), (Share("W", everything), Share("B")))
    (found,) = deadlocks.find([doc, lock("b", "B", "A")])
    assert found.members == ("A", "B", "W")
    assert Edge("B", "W", "doc", ahead=True) in found.cycle


def test_a_holder_that_waits_for_more_of_its_own_lock() -> None:
    (found,) = deadlocks.find([Resource("gpu", 2, (Share("A"),), (Share("A", 2),))])
    assert str(found) == "A holds gpu and waits for gpu"


def test_a_long_line_needs_no_recursion() -> None:
    chain = [lock(f"r{at}", f"o{at:05}", f"o{(at + 1) % 5000:05}") for at in range(5000)]
    (found,) = deadlocks.find(chain)
    assert len(found.members) == 5000


def test_the_graph_of_a_long_line_is_small() -> None:
    many = tuple(Share(f"h{at}") for at in range(200))
    line = tuple(Share(f"w{at}") for at in range(200))
    edges = deadlocks.graph([Resource("pool", 200, many, line), Resource("l", 1, (Share("x"),), line)])
    assert len(edges) == (200 + 199) + (200 + 199)
    assert Edge("w0", "h7", "pool") in edges
    assert Edge("w7", "w6", "pool", ahead=True) in edges
    assert Edge("w7", "x", "l") in edges
