"""Every model by name: the machine that compares scripts with it, and the mutants that it must notice."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from hypothesis.stateful import RuleBasedStateMachine

from flows.model import flow_mutants
from flows.model.flow_machine import FlowMachine
from flows.model.stepwise_flow_machine import StepwiseFlowMachine
from locks.model import (
    lock_mutants,
    lock_option_mutants,
    multilock_mutants,
    permit_mutants,
    quorum_mutants,
    register_mutants,
    shared_mutants,
)
from locks.model.lock_machine import LockMachine
from locks.model.lock_options_machine import LockOptionsMachine
from locks.model.multilock_machine import MultilockMachine
from locks.model.permits_machine import PermitsMachine, ReadersMachine
from locks.model.quorum_machine import QuorumMachine
from locks.model.register_machine import RegisterMachine
from locks.model.shared_machine import PlainMachine, TimestampMachine
from lockwork.protocol import messages
from models.bench import Bench
from mutants import Mutant, Patch
from queues.model import (
    dead_mutants,
    delay_queue_mutants,
    group_mutants,
    job_mutants,
    limit_mutants,
    lock_jobs_mutants,
    offer_mutants,
    own_ids_mutants,
    priority_mutants,
    queue_mutants,
    session_mutants,
    stock_mutants,
    task_limits_mutants,
    unique_mutants,
)
from queues.model.dead_machine import DeadMachine
from queues.model.delay_queue_machine import DelayQueueMachine
from queues.model.groups_machine import GroupsMachine, ManyGroupsMachine
from queues.model.job_machine import JobMachine
from queues.model.limits_machine import LimitedJobsMachine, LimitsMachine
from queues.model.lock_jobs_machine import LockJobsMachine
from queues.model.moved_groups_machine import MovedGroupsMachine
from queues.model.offers_machine import CancelledOffers, Offers, OpenOffers
from queues.model.own_ids_machine import OwnIdsMachine
from queues.model.priorities_machine import PrioritiesMachine
from queues.model.queue_machine import QueueMachine
from queues.model.sessions_machine import IdleWorkers, NackAll
from queues.model.stock_waiters_machine import StockWaitersMachine
from queues.model.task_limits_machine import TaskLimitsMachine
from queues.model.unique_machine import UniqueMachine
from schedules.model import created_mutants, schedule_mutants
from schedules.model.created_machine import CreatedMachine
from schedules.model.schedule_machine import ScheduleMachine
from simulator.server import Build, Server
from synchronizers.model import barrier_mutants, latch_mutants, limiter_mutants, once_mutants
from synchronizers.model.barrier_machine import BarrierMachine, StepwiseBarrierMachine
from synchronizers.model.latch_machine import LatchMachine
from synchronizers.model.limiter_machine import (
    LimiterMachine,
    SeveralMachine,
    SeveralWindowsMachine,
    WindowMachine,
)
from synchronizers.model.once_machine import OnceMachine


@dataclass(frozen=True)
class Model:
    """A model. Its machine runs against a build of the scripts, and must fail with each mutant."""

    machine: Callable[[Bench], RuleBasedStateMachine]
    builds: Sequence[Build] = ()
    """Mutants of the scripts."""
    patches: Mapping[str, Patch] = field(default_factory=dict)
    """Mutants of Python code, by name."""
    build: Build | None = field(default_factory=Build)
    """The build that matches the model; None if a machine with more rules checks it."""

    def machine_with(self, server: Server, build: Build) -> Any:
        """Return a function that makes a machine; Hypothesis calls it for each example, but takes it for a class."""
        return lambda: self.machine(Bench(server, build))

    def mutants(self) -> Iterator[Mutant]:
        """List all mutants of this model."""
        for build in self.builds:
            yield Mutant(build.name, {"build": build})
        for name, patch in self.patches.items():
            yield Mutant(name, {"build": self.build}, patch)


def _stepwise(builds: Sequence[Build], edit: tuple[str, str, str], *, wanted: bool) -> list[Build]:
    """Return the builds with this edit, which makes scripts work in small steps, or the builds without it."""
    return [build for build in builds if (edit in build.edits) == wanted]


_FLOWS, _FLOW_STEPS = flow_mutants.MUTANTS, flow_mutants.SMALL_STEPS
_BARRIERS, _BARRIER_STEPS = barrier_mutants.MUTANTS, barrier_mutants.ONE_BY_ONE
_ANY_SEAL: Mapping[str, Patch] = {
    "believes any seal": (messages, "opened", lambda _secret, _ticket, text: text.partition(" ")[2] or None)
}
"""A worker then runs jobs forged by a stranger who received an offer."""

MODELS: Mapping[str, Model] = {
    "barrier": Model(BarrierMachine, _stepwise(_BARRIERS, _BARRIER_STEPS, wanted=False)),
    "barrier in small steps": Model(
        StepwiseBarrierMachine,
        _stepwise(_BARRIERS, _BARRIER_STEPS, wanted=True),
        build=Build("one by one", (_BARRIER_STEPS,)),
    ),
    "cancelled offers": Model(CancelledOffers, offer_mutants.CANCEL_MUTANTS),
    "dead set": Model(DeadMachine, dead_mutants.MUTANTS),
    "delay queue": Model(DelayQueueMachine, delay_queue_mutants.MUTANTS),
    "flows": Model(FlowMachine, _stepwise(_FLOWS, _FLOW_STEPS, wanted=False)),
    "flows in small steps": Model(
        StepwiseFlowMachine,
        _stepwise(_FLOWS, _FLOW_STEPS, wanted=True),
        build=Build("small steps", (_FLOW_STEPS,)),
    ),
    "groups": Model(GroupsMachine, group_mutants.MUTANTS, build=None),
    "idle workers": Model(IdleWorkers, session_mutants.IDLE_MUTANTS),
    "jobs": Model(JobMachine, job_mutants.MUTANTS),
    "latch": Model(LatchMachine, latch_mutants.MUTANTS),
    "limited jobs": Model(LimitedJobsMachine, limit_mutants.JOB_MUTANTS),
    "limited offers": Model(Offers, offer_mutants.LIMIT_MUTANTS),
    "limiter": Model(LimiterMachine, limiter_mutants.BUCKETS),
    "limiter with several rates": Model(SeveralMachine, limiter_mutants.SEVERAL),
    "limiter with several windows": Model(SeveralWindowsMachine, limiter_mutants.SEVERAL_WINDOWS),
    "limiter with a window": Model(WindowMachine, limiter_mutants.WINDOWS),
    "limits": Model(LimitsMachine, limit_mutants.MUTANTS),
    "lock": Model(LockMachine, lock_mutants.MUTANTS),
    "lock of a queue": Model(LockJobsMachine, lock_jobs_mutants.MUTANTS),
    "lock options": Model(LockOptionsMachine, lock_option_mutants.MUTANTS),
    "many groups": Model(
        ManyGroupsMachine,
        group_mutants.MANY_GROUPS_MUTANTS,
        build=Build("few groups a call", (group_mutants.FEW,)),
    ),
    "moved groups": Model(MovedGroupsMachine, group_mutants.MOVED_MUTANTS),
    "multilock": Model(MultilockMachine, multilock_mutants.MUTANTS),
    "offers": Model(OpenOffers, offer_mutants.MUTANTS, _ANY_SEAL),
    "once": Model(OnceMachine, once_mutants.MUTANTS),
    "own ids": Model(OwnIdsMachine, own_ids_mutants.MUTANTS),
    "plain lock": Model(PlainMachine, shared_mutants.PLAIN_MUTANTS),
    "queue": Model(QueueMachine, queue_mutants.MUTANTS),
    "priorities": Model(PrioritiesMachine, priority_mutants.MUTANTS),
    "quorum": Model(QuorumMachine, quorum_mutants.MUTANTS, quorum_mutants.PATCHES),
    "register": Model(RegisterMachine, register_mutants.MUTANTS),
    "returned jobs": Model(NackAll, session_mutants.NACK_MUTANTS),
    "rwlock": Model(ReadersMachine),
    "schedules": Model(ScheduleMachine, schedule_mutants.MUTANTS),
    "schedules at run time": Model(CreatedMachine, created_mutants.MUTANTS),
    "task limits": Model(TaskLimitsMachine, task_limits_mutants.MUTANTS),
    "semaphore": Model(PermitsMachine, permit_mutants.MUTANTS),
    "stock": Model(StockWaitersMachine, stock_mutants.MUTANTS),
    "timestamp lock": Model(TimestampMachine, shared_mutants.TIMESTAMP_MUTANTS),
    "unique jobs": Model(UniqueMachine, unique_mutants.MUTANTS),
}
