"""Mutants of apps and workers of queues with partitions, each with one fault that the checker must catch."""

from __future__ import annotations

from typing import Any

from lockwork.partitions import numbered, routing_name
from lockwork.protocol.queue.enqueue import NewJob
from queues.simulation.partition_actors import PARTITIONS, PartitionedPlant, Source
from queues.simulation.partition_users import Shop
from queues.simulation.queue_actors import Child, Plant
from simulator.process import Actor, Sleep


class IgnoresPlacement(Shop):
    """Computes another partition for a name in each process, as with a seeded hash."""

    def route(self, task: Any) -> None:
        """Mix the number of the process into each name."""
        usual = task._where

        def where(job: NewJob) -> int:
            name = routing_name(job.record)
            return int(usual(job)) if name is None else numbered(f"{name} {self.number}", PARTITIONS)

        task._where = where


class UsesOnePartition(Shop):
    """Plain jobs all go to the same partition."""

    def route(self, task: Any) -> None:
        """Send plain jobs to the first partition."""
        usual = task._where
        task._where = lambda job: 0 if routing_name(job.record) is None else usual(job)


class ReportsAnotherPartition(Shop):
    """Reports another partition in a handle than its job has."""

    def heard(self, queue: str, id: str) -> None:
        """Report the previous partition."""
        names = [part.queue.name for part in self.plant.parts]
        super().heard(names[names.index(queue) - 1], id)


SHOPS: tuple[type[Shop], ...] = (IgnoresPlacement, UsesOnePartition, ReportsAnotherPartition)


class ServesSomePartitions(PartitionedPlant):
    """Workers serve all partitions except the last."""

    def served(self) -> list[Plant]:
        """Leave out the last partition."""
        return [desk for desk in super().served() if desk is not self.parts[-1]]


class NacksSomePartitions(PartitionedPlant):
    """Returns only a dead child's jobs of the first partition."""

    def bury(self, child: Child) -> Actor:
        """Return the jobs of the first partition."""
        yield from self.parts[0].give_back(child)


class KeepsWakeups(PartitionedPlant):
    """A worker without a free slot forwards no wake-up. Jobs only wait; runs without other faults show it."""

    def pass_on(self, child: Child, source: Source) -> Actor:
        """Forget the wake-up."""
        source.owed = False
        yield Sleep(0)


PLANTS: tuple[type[PartitionedPlant], ...] = (ServesSomePartitions, NacksSomePartitions, KeepsWakeups)
