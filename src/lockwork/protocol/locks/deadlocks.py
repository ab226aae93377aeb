"""Find which waiters wait for which holders, and deadlocks, with pure functions over a snapshot."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Sequence

from msgspec import Struct

_STARTS = 30
"""A short cycle is searched from at most this number of members of a deadlock."""


class Share(Struct, frozen=True):
    """The units of one resource that one owner holds or waits for."""

    owner: str
    units: int = 1


class Resource(Struct, frozen=True):
    """A lock (capacity 1), read-write lock (a writer takes all units) or semaphore; `line` has its waiters in order.

    Holders that a snapshot omits count as owners who finish, so incomplete data never causes a false report.
    """

    name: str
    capacity: int
    holders: tuple[Share, ...] = ()
    line: tuple[Share, ...] = ()


class Edge(Struct, frozen=True):
    """`waiter` waits for `blocker`, which holds the resource, or is an earlier waiter (`ahead`)."""

    waiter: str
    blocker: str
    resource: str
    ahead: bool = False


class Deadlock(Struct, frozen=True):
    """Owners who wait for each other forever: `members` are all such owners, `cycle` is one short cycle among them."""

    members: tuple[str, ...]
    cycle: tuple[Edge, ...]

    def __str__(self) -> str:
        """Describe the cycle: A holds a and waits for b; B holds b and waits for a."""
        return self.named(str)

    def named(self, name: Callable[[str], str]) -> str:
        """Describe the cycle, with `name` for the names of owners."""
        return "; ".join(f"{name(owner)} {what}" for owner, what in self.steps)

    @property
    def steps(self) -> list[tuple[str, str]]:
        """Each owner of the cycle, with a text that names the resource it holds and the resource it waits for."""
        steps = []
        for at, edge in enumerate(self.cycle):
            before = self.cycle[at - 1]
            stands = "is ahead in line for" if before.ahead else "holds"
            steps.append((edge.waiter, f"{stands} {before.resource} and waits for {edge.resource}"))
        return steps


def graph(resources: Iterable[Resource]) -> list[Edge]:
    """Return the edges from each waiter to the holders, if its units are not free, and to the next other owner ahead.

    The graph stays as small as the snapshot: with several holders, only the first blocked waiter has edges to them.
    Later waiters have an edge to the waiter ahead.
    """
    edges: dict[Edge, None] = {}
    for resource in resources:
        free = resource.capacity - sum(held.units for held in resource.holders)
        holders = {held.owner for held in resource.holders}
        stopped = False
        for place, waiter in enumerate(resource.line):
            if waiter.units > free and (not stopped or len(holders) == 1):
                stopped = True
                edges.update((Edge(waiter.owner, held.owner, resource.name), None) for held in resource.holders)
            ahead = place - 1
            while ahead >= 0 and resource.line[ahead].owner == waiter.owner:
                ahead -= 1
            if ahead >= 0:
                edges[Edge(waiter.owner, resource.line[ahead].owner, resource.name, ahead=True)] = None
    return list(edges)


def reduced(resources: Sequence[Resource]) -> list[Resource]:
    """Finish every owner that can proceed; a remaining waiter waits forever.

    An owner without a waiting request finishes and releases its units; the first waiter proceeds when its units are
    free. These steps never block each other, so their order does not matter.
    """
    remaining = {resource.name: (list(resource.holders), deque(resource.line)) for resource in resources}
    capacity = {resource.name: resource.capacity for resource in resources}
    waits: dict[str, int] = defaultdict(int)
    holds: dict[str, set[str]] = defaultdict(set)
    for resource in resources:
        for waiter in resource.line:
            waits[waiter.owner] += 1
        for held in resource.holders:
            holds[held.owner].add(resource.name)
    done = deque(owner for owner in holds if not waits[owner])
    unchecked = set(remaining)
    while done or unchecked:
        while done:
            owner = done.popleft()
            for name in holds.pop(owner, ()):
                holders, line = remaining[name]
                holders[:] = [held for held in holders if held.owner != owner]
                unchecked.add(name)
        while unchecked:
            name = unchecked.pop()
            holders, line = remaining[name]
            while line and _fits(line[0], capacity[name], holders):
                first = line.popleft()
                holders.append(first)
                holds[first.owner].add(name)
                waits[first.owner] -= 1
                if not waits[first.owner]:
                    done.append(first.owner)
    return [
        Resource(
            resource.name, resource.capacity, tuple(remaining[resource.name][0]), tuple(remaining[resource.name][1])
        )
        for resource in resources
    ]


def find(resources: Sequence[Resource]) -> list[Deadlock]:
    """Return each group of owners who wait for each other forever, without the owners who only wait for the group."""
    edges = graph(reduced(resources))
    onward: dict[str, list[Edge]] = defaultdict(list)
    for edge in edges:
        onward[edge.waiter].append(edge)
    deadlocks = []
    for group in _groups(onward):
        inside = {owner: [edge for edge in onward[owner] if edge.blocker in group] for owner in group}
        if any(inside.values()):
            deadlocks.append(Deadlock(tuple(sorted(group)), _round(inside)))
    return sorted(deadlocks, key=lambda deadlock: deadlock.members)


def _fits(waiter: Share, capacity: int, holders: Sequence[Share]) -> bool:
    used = sum(held.units for held in holders)
    # a waiter may want more than the capacity: its request then sets the capacity, once no units are held
    return used + waiter.units <= capacity or not used


def _groups(onward: dict[str, list[Edge]]) -> Iterator[set[str]]:
    """Return the strongly connected components (Tarjan's algorithm, without recursion because a chain may be long)."""
    number: dict[str, int] = {}
    low: dict[str, int] = {}
    path: list[str] = []
    on_path: set[str] = set()
    for root in sorted(onward):
        if root in number:
            continue
        work = [(root, iter(onward[root]))]
        number[root] = low[root] = len(number)
        path.append(root)
        on_path.add(root)
        while work:
            owner, edges = work[-1]
            for edge in edges:
                other = edge.blocker
                if other not in number:
                    number[other] = low[other] = len(number)
                    path.append(other)
                    on_path.add(other)
                    work.append((other, iter(onward.get(other, ()))))
                    break
                if other in on_path:
                    low[owner] = min(low[owner], number[other])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[owner])
                if low[owner] == number[owner]:
                    group = set(path[path.index(owner) :])
                    del path[-len(group) :]
                    on_path -= group
                    yield group


def _round(inside: dict[str, list[Edge]]) -> tuple[Edge, ...]:
    """Return the shortest cycle through one of the first members."""
    onward = {owner: sorted(edges, key=lambda edge: edge.ahead) for owner, edges in inside.items()}
    best: tuple[Edge, ...] = ()
    for start in sorted(onward)[:_STARTS]:
        came: dict[str, Edge] = {}
        queue = deque([start])
        while queue and start not in came:
            for edge in onward[queue.popleft()]:
                if edge.blocker not in came:
                    came[edge.blocker] = edge
                    queue.append(edge.blocker)
        cycle = [came[start]]  # each member of a component reaches all others
        while cycle[-1].waiter != start:
            cycle.append(came[cycle[-1].waiter])
        if not best or len(cycle) < len(best):
            best = tuple(reversed(cycle))
    return best
