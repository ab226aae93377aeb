"""Flows in builds whose scripts do little in one call, so that later calls do the rest."""

from __future__ import annotations

import hypothesis.strategies as st
import pytest
from hypothesis.stateful import precondition, rule

from flows.model.flow_machine import SHAPES, FlowMachine, Shape
from flows.model.flow_workers import SESSION, WINDOW_MS
from lockwork.protocol.effects import Call
from lockwork.protocol.flows import flows
from lockwork.protocol.queue import leases
from lockwork.protocol.queue.leases import Outcome


class StepwiseFlowMachine(FlowMachine):
    """The flow machine, with cancellations and pushes that stop halfway."""

    @precondition(lambda self: self.leased)
    @rule(data=st.data(), rarely=st.integers(0, 1))
    def cancel_and_die(self, data: st.DataObject, rarely: int) -> None:
        """A caller dies after the first call of a flow's cancellation, and then a running job of the flow succeeds."""
        id = data.draw(st.sampled_from(sorted(self.leased)))
        job = self.jobs()[id]
        if rarely or job.compensation or job.flow.state != "running":
            return
        first = next(flows.cancel(self.queue, job.flow.name, WINDOW_MS))
        assert isinstance(first, Call)
        self.bench.call(first)
        job.flow.now = self.ms
        for other in job.flow.cancel():
            other.asked = True
        outcome = Outcome(id, self.leased.pop(id).token, "s", b"value")
        assert self.bench.run(leases.settle(self.queue, SESSION, [outcome], WINDOW_MS)) == [True]
        self._settled(job, outcome)
        self._carry_on()
        self.after()

    @rule(shape=SHAPES, twice=st.booleans())
    def push_in_small_steps(self, shape: Shape, *, twice: bool) -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(flows, "_BATCH", 2)
            self.push_one(shape, twice=twice, keyed=False)

    def after(self) -> None:
        self._expire()
