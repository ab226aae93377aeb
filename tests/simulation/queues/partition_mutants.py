"""Broken apps and workers of queues with partitions, each with one thing wrong that the checker must catch."""

from __future__ import annotations

from typing import Any

from lockwork.partitions import numbered, routing_name
from lockwork.protocol.queue.enqueue import NewJob
from simulation.process import Actor, Sleep
from simulation.queues.partition_actors import PARTITIONS, PartitionedPlant, Source
from simulation.queues.partition_users import Shop
from simulation.queues.queue_actors import Child, Plant


class IgnoresPlacement(Shop):
    """A name's partition is another one in each process, as if it were told from a hash with a seed."""

    def route(self, task: Any) -> None:
        """Mix the process into each name."""
        usual = task._where

        def where(job: NewJob) -> int:
            name = routing_name(job.record)
            return int(usual(job)) if name is None else numbered(f"{name} {self.number}", PARTITIONS)

        task._where = where


class UsesOnePartition(Shop):
    """Plain jobs all go to the same partition."""

    def route(self, task: Any) -> None:
        """Begin the turns anew with each call."""
        usual = task._where
        task._where = lambda job: 0 if routing_name(job.record) is None else usual(job)


class ReportsAnotherPartition(Shop):
    """A handle tells another partition than that of its job."""

    def heard(self, queue: str, id: str) -> None:
        """Tell the next one."""
        names = [part.queue.name for part in self.plant.parts]
        super().heard(names[names.index(queue) - 1], id)


SHOPS: tuple[type[Shop], ...] = (IgnoresPlacement, UsesOnePartition, ReportsAnotherPartition)


class ServesSomePartitions(PartitionedPlant):
    """Workers know of all partitions but one."""

    def served(self) -> list[Plant]:
        """Leave the last one out."""
        return [desk for desk in super().served() if desk is not self.parts[-1]]


class NacksSomePartitions(PartitionedPlant):
    """What a dead child had of any but the first partition is not given back."""

    def bury(self, child: Child) -> Actor:
        """Look at the first partition only."""
        yield from self.parts[0].give_back(child)


class KeepsWakeups(PartitionedPlant):
    """A worker without a free slot forwards no wake-up. Jobs only wait; runs in which nothing else fails show it."""

    def pass_on(self, child: Child, source: Source) -> Actor:
        """Forget it."""
        source.owed = False
        yield Sleep(0)


PLANTS: tuple[type[PartitionedPlant], ...] = (ServesSomePartitions, NacksSomePartitions, KeepsWakeups)
