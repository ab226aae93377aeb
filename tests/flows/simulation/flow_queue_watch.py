"""Time limits of flows: for steps that a call left unfinished, and for the notification of waiting callers."""

from __future__ import annotations

from contextlib import suppress

from flows.simulation.flow_queue_actors import FlowPlant
from flows.simulation.flow_queue_checks import FlowChecker
from lockwork.errors import LockworkError
from lockwork.protocol.flows import flows
from queues.simulation.queue_watch import QueueWatch
from simulator.faults import SECOND
from simulator.process import Actor, Cancelled, Sleep, Task
from simulator.world import Broken, World


class FlowWatch(QueueWatch):
    """Checks the time limits of a queue with flows."""

    def __init__(self, world: World, plant: FlowPlant, checker: FlowChecker, *, faultless: bool) -> None:
        super().__init__(world, plant, checker, faultless=faultless)
        self._flows = plant
        self._forgotten = checker.forgotten
        self._late: dict[str, int] = {}
        """True time since a flow is unfinished."""
        self._over: dict[str, int] = {}
        """True time when the watch first saw that a flow had ended."""

    def _idle(self) -> None:
        super()._idle()
        now, view = self._world.now, self._checker.view
        self._late = {flow: self._late.get(flow, now) for flow in view.unfinished}
        for flow, record in view.flows.items():
            if record["state"] == "ended":
                self._over.setdefault(flow, now)
        for flow, since in self._late.items():
            if now - since > self.bound and not self._clock_moves and self.somebody_idles():
                raise Broken(f"{flow} has something left to do for {(now - since) / SECOND:.2f} s, and a worker idles")

    def waiter(self, task: Task) -> Actor:
        """Wait for the ends of some flows."""
        random = self._world.random
        with suppress(LockworkError, Cancelled):
            for _ in range(4):
                yield Sleep(random.uniform(0, 4))
                if self._flows.stored:
                    flow, timeout = random.choice(self._flows.stored), random.uniform(0, 12)
                    began = self._world.now
                    found = yield from flows.ended(self._plant.queue, flow, task.process.channel, timeout)
                    self._told(task, flow, began, began + int(timeout * SECOND), found)

    def _told(self, task: Task, flow: str, began: int, deadline: int, found: flows.FlowDetails | None) -> None:
        """Q9: check that a caller learns of its flow's end, or in time that the flow has not ended."""
        now, over = self._world.now, self._over.get(flow)
        quiet = task.undisturbed_since(began)
        if found is None and over is not None and self._forgotten(flow):
            return
        if found is None:
            raise Broken(f"{flow} was stored, and is said to be unknown")
        if quiet and now > deadline + SECOND // 2:
            raise Broken(f"Q9: a caller heard of {flow} {(now - deadline) / SECOND:.2f} s after its deadline")
        if found.state == "ended":
            if self._checker.view.flows[flow]["state"] != "ended":
                raise Broken(f"Q9: a caller heard that {flow} has ended, and it has not")
            if over is not None and self._faultless and now - max(over, began) > SECOND:
                raise Broken(f"Q9: a caller heard {(now - over) / SECOND:.2f} s later that {flow} had ended")
        elif over is not None and over < (deadline - SECOND // 5 if quiet else began):
            raise Broken(f"Q9: {flow} had ended in time, and a caller was told {found}")
