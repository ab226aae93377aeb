"""Where a flow lives: in one queue, and if that has partitions, in one of them, which a key or a group may decide."""

from __future__ import annotations

from dataclasses import dataclass, replace

from lockwork.errors import ConfigError
from lockwork.partitions import Partitions, routing_name
from lockwork.tasks.call import ResultCall


@dataclass(frozen=True, slots=True)
class Home:
    """What is known of it from the calls that the flow has so far; its jobs end and begin in one atomic step."""

    partitions: Partitions
    queue: str | None = None
    place: str | None = None
    """The partition, once it is decided."""
    decided_by: str = ""

    def with_call(self, call: object) -> Home:
        """The same for a flow that has this call, too; raises ConfigError for one that belongs elsewhere."""
        if not isinstance(call, ResultCall):
            raise ConfigError(f"a flow is made of calls, such as fetch.call(1), not {call!r:.60}")
        if self.queue is not None and call.queue != self.queue:
            raise ConfigError(
                f"a flow lives in one queue, because its jobs end and begin in one atomic step: {call.task!r} belongs "
                f"to queue {call.queue!r}, and the others to {self.queue!r}; give their tasks the same queue"
            )
        name = routing_name(call.record) if call.queue in self.partitions else None
        if name is None:
            return replace(self, queue=call.queue)
        place = self.partitions.place(call.queue, name)
        if self.place is not None and place != self.place:
            raise ConfigError(
                "a flow lives in one partition, because its jobs end and begin in one atomic step: the key or group "
                f"{name!r} of {call.task!r} decides {place!r}, and another one's, {self.decided_by!r}, {self.place!r}; "
                "give them the same, or call task.options(key=None, group=None)"
            )
        return self if self.place is not None else replace(self, queue=call.queue, place=place, decided_by=name)

    def chosen(self) -> str:
        """The queue, or partition, of one run; that of an empty flow is the one in which flows are looked for."""
        return self.place or self.partitions.random(self.queue or "default")
