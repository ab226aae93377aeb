"""Rules of a queue with partitions: each partition is a correct queue, and keys and unique names hold across all.

The checker does not compute a name's partition. It catches the errors that follow if two processes disagree about it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from queues.simulation.partition_actors import PartitionedPlant
from queues.simulation.partition_users import Shop
from queues.simulation.queue_view import LIVE, Place
from queues.simulation.queue_watch import QueueWatch
from queues.simulation.unique_queue_actors import NAMES, UniquePlant
from queues.simulation.unique_queue_checks import UniqueChecker
from simulator.server import Command
from simulator.world import Broken, Step, World

_WAITS = ("ready", "due", "line", "suspect")


class PartitionsChecker:
    """Checks every step on any partition."""

    def __init__(self, world: World, plant: PartitionedPlant, shops: Sequence[Shop]) -> None:
        self.parts: dict[str, UniqueChecker] = {part.queue.name: _checker(world, part) for part in plant.parts}
        self._plant = plant
        self._shops = shops
        self._homes: dict[str, str] = {}
        """The partition of each job when the checker first saw it."""
        self._due: dict[str, int] = {}
        """Last due time of each job, ms."""
        self._begun: set[str] = set()

    def _part(self, keys: Sequence[str]) -> UniqueChecker:
        return next(self.parts[part.queue.name] for part in self._plant.parts if keys[0].startswith(part.queue.base))

    def looks(self, script: str, keys: Sequence[str]) -> list[Command]:
        """Read the partition of the script."""
        return self._part(keys).looks(script, keys)

    def applied(self, step: Step) -> None:
        """Check a step on its partition, and keys and names across all partitions."""
        part = self._part(step.keys)
        before = part.view.places
        part.applied(step)
        places = part.view.places
        name = next(name for name, checker in self.parts.items() if checker is part)
        for id in places.keys() - before.keys():
            if self._homes.setdefault(id, name) != name:
                raise Broken(f"{id} is in {name}, and came to {self._homes[id]} before")
        leased = [id for id, place in places.items() if place[0] == "run" and before.get(id) != place]
        self._begun.update(leased)
        for id in leased:
            self._check_key(id)
        self._due |= {id: int(place[2]) for id, place in places.items() if place[0] == "due"}
        self._check_names()

    def _everywhere(self) -> list[tuple[str, Place]]:
        return [item for checker in self.parts.values() for item in checker.view.places.items()]

    def _check_key(self, leased: str) -> None:
        """Check that jobs of a key run one at a time, in the order of their due times."""
        key, home = self._plant.made[leased].key, self._homes[leased]
        if not key:
            return
        for id, place in self._everywhere():
            if self._plant.made[id].key != key or self._homes[id] == home:
                continue  # within a partition, its own checker knows more
            if place[0] == "run":
                raise Broken(f"one at a time per key: {leased} runs in {home}, and {id} of {key} in {self._homes[id]}")
            if place[0] in _WAITS and self._due.get(id, 0) < self._due.get(leased, 0):
                raise Broken(f"in order: {leased} runs in {home}, and {id} of {key} waits in {self._homes[id]}")

    def _check_names(self) -> None:
        """Check that a name has one job at most: one before its first attempt, or one before its end, by its terms."""
        calls = self._plant.parts[0].calls
        alive = {"start": Counter[str](), "done": Counter[str]()}
        for id, place in self._everywhere():
            call = calls.get(id)
            if call is not None and place[0] in LIVE and (until := NAMES[call.name].until) in alive:
                alive[str(until)][call.name] += until == "done" or id not in self._begun
        if twice := [name for names in alive.values() for name, count in names.items() if count > 1]:
            raise Broken(f"one job of each name: {twice} have more")

    def settled(self) -> bool:
        """Return True if every job on the server has ended."""
        return all(checker.settled() for checker in self.parts.values())

    def at_end(self) -> None:
        """Check that each acknowledged job has ended in its handle's partition, and plain jobs are spread evenly."""
        for checker in self.parts.values():
            checker.at_end()
        for shop in self._shops:
            counts = [shop.turns[name] for name in self.parts]
            if max(counts) - min(counts) > 1 + shop.unsure:
                raise Broken(f"in turn: of the plain calls of shop {shop.number}, {counts} went to each partition")


def _checker(world: World, part: UniquePlant) -> UniqueChecker:
    checker = UniqueChecker(world, part)
    checker.refused = part.refused
    return checker


class PartitionsWatch:
    """Checks the time limits of all partitions."""

    def __init__(self, watches: Sequence[QueueWatch]) -> None:
        self._watches = watches

    def look(self) -> None:
        """Check the time limits; raises Broken."""
        for watch in self._watches:
            watch.look()
