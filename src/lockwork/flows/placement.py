"""The queues and partitions of a flow's jobs."""

from __future__ import annotations

from typing import Any, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from lockwork.errors import ConfigError
from lockwork.partitions import Partitions, routing_name
from lockwork.tasks.call import ResultCall


class Place(NamedTuple):
    """The queue of a call, and the partition if the call's key or group decides it."""

    queue: str
    partition: str | None = None


class FlowPlacement(Struct, frozen=True):
    """The queues and partitions of a flow, as far as its calls decide them.

    A call whose key or group decides its partition goes there. All other calls of a queue go to one partition: the
    first that a call decides, or else a random one. That partition of the first call's queue is the flow's home.
    """

    partitions: Partitions
    queues: tuple[str, ...] = ()
    """The queues of the calls; the first is the home's."""
    decided: tuple[Place, ...] = ()
    """The first decided partition of each queue."""
    spans: bool = False
    """True if the calls have several queues or partitions."""

    def with_call(self, call: object) -> FlowPlacement:
        """Return the placement with this call added; raises ConfigError for anything but a call."""
        if not isinstance(call, ResultCall):
            raise ConfigError(f"a flow consists of calls, such as fetch.call(1), not {call!r:.60}")
        place = self.place(call)
        if place.queue not in self.queues:
            queues = (*self.queues, place.queue)
            return replace(self, queues=queues, decided=self._decided(place), spans=len(queues) > 1)
        if place.partition is None or place in self.decided:
            return self
        decided = self._decided(place)
        return replace(self, decided=decided, spans=self.spans or decided is self.decided)

    def _decided(self, place: Place) -> tuple[Place, ...]:
        known = place.partition is None or place.queue in dict(self.decided)
        return self.decided if known else (*self.decided, place)

    def place(self, call: ResultCall[Any]) -> Place:
        """Return the place of a call, as far as the call decides it."""
        name = routing_name(call.record) if call.queue in self.partitions else None
        return Place(call.queue, None if name is None else self.partitions.place(call.queue, name))

    def chosen(self) -> RunPlacement:
        """Return the partitions of one run; an empty flow goes to the default queue."""
        decided, queues = dict(self.decided), self.queues or ("default",)
        partitions = {queue: decided.get(queue) or self.partitions.random(queue) for queue in queues}
        return RunPlacement(partitions[queues[0]], partitions, self.spans)


class RunPlacement(Struct, frozen=True):
    """The places of one run of a flow."""

    home: str
    partitions: dict[str, str]
    """The partition of each queue, for calls that do not decide it."""
    spans: bool
    """True if the flow has jobs, or compensations, outside of its home."""

    def elsewhere(self, place: Place | None) -> str:
        """Return the queue or partition of a place, "" for the home and for no place."""
        if place is None:
            return ""
        name = place.partition or self.partitions[place.queue]
        return "" if name == self.home else name
