"""Every run of the simulator by name, with its numbers of seeds and the mutants that its rules must catch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Protocol

from flows.simulation import cross_queue_mutants, cross_queues, flow_queue_mutants, flow_queues
from locks.simulation import (
    election_mutants,
    elections,
    lock_mutants,
    lock_option_mutants,
    lock_options,
    locks,
    multilocks,
    permit_mutants,
    permits,
    quorum_mutants,
    quorums,
    shared_formats,
)
from lockwork.protocol import messages
from lockwork.protocol.server_clock import ServerClock
from mutants import Mutant, Patch
from queues.simulation import (
    blocked_queues,
    delay_queues,
    limit_queue_mutants,
    limit_queues,
    lock_queues,
    partition_mutants,
    partitioned_queues,
    queue_mutants,
    queues,
    rolling_queue_mutants,
    rolling_queues,
    stocks,
    task_limit_queues,
    unique_queue_mutants,
    unique_queues,
)
from schedules.simulation import created, schedules
from simulator.server import Build
from synchronizers.simulation import barriers, latches, limiters, onces


class Traced(Protocol):
    """The result of a run."""

    @property
    def trace(self) -> list[str]:
        """The events of the run, a line each."""


@dataclass(frozen=True)
class Run:
    """A run. `play` takes a server, a seed, and options that make it a mutant."""

    play: Callable[..., Traced]
    blocks: int
    """Number of blocks of seeds that the tests play; see `simulator.seeds`."""
    replays: int
    """Number of seeds that the tests play twice."""
    builds: Sequence[Build] = ()
    """Mutants of the scripts."""
    variants: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    """Mutants of Python code, by the option of `play` that takes them."""
    patches: Mapping[str, Patch] = field(default_factory=dict)
    """Mutants of Python code that no option takes, by name."""
    check: Callable[[Sequence[Any]], None] = lambda _: None
    """Checks that the results of a block of seeds prove something."""

    def mutants(self) -> Iterator[Mutant]:
        """List all mutants of this run."""
        for build in self.builds:
            yield Mutant(build.label, {"build": build})
        for option, variants in self.variants.items():
            for variant in variants:
                yield Mutant(variant.__name__, {option: variant})
        for name, patch in self.patches.items():
            yield Mutant(name, patch=patch)


_ANY_SEAL: Mapping[str, Patch] = {"believes any seal": (messages, "compare_digest", lambda *_: True)}
"""A client that accepts any seal trusts a stranger that may only listen and PUBLISH."""
_NO_STEPS: Mapping[str, Patch] = {"a heartbeat notices no clock step": (ServerClock, "heard", lambda *_: 0.0)}
"""Such a heartbeat recovers all other sessions if the server's clock jumps by a lease, so their jobs run twice."""

RUNS: Mapping[str, Run] = {
    "barriers": Run(barriers.barriers, blocks=2, replays=3, builds=barriers.MUTANTS, patches=_ANY_SEAL),
    "blocked_queues": Run(blocked_queues.run, blocks=1, replays=2, patches=blocked_queues.MUTANTS),
    "delay_queues": Run(delay_queues.delay_queues, blocks=3, replays=3, builds=delay_queues.MUTANTS),
    "election": Run(
        elections.play,
        blocks=2,
        replays=3,
        builds=election_mutants.BUILDS,
        variants={"candidates": election_mutants.CANDIDATES},
        check=elections.check_leaders,
    ),
    "flows across queues": Run(cross_queues.run, blocks=1, replays=1, builds=cross_queue_mutants.MUTANTS),
    "flows": Run(flow_queues.run, blocks=1, replays=2, builds=flow_queue_mutants.MUTANTS),
    "latches": Run(latches.latches, blocks=2, replays=3, builds=latches.MUTANTS, patches=_ANY_SEAL),
    "limiters": Run(limiters.limiters, blocks=2, replays=3, builds=limiters.MUTANTS),
    "limits": Run(limit_queues.run, blocks=1, replays=2, builds=limit_queue_mutants.MUTANTS),
    "lock_options": Run(
        lock_options.run,
        blocks=2,
        replays=3,
        builds=lock_option_mutants.MUTANTS,
        variants={"keeper": lock_option_mutants.KEEPERS},
    ),
    "lock_queues": Run(lock_queues.run, blocks=1, replays=2, builds=lock_queues.MUTANTS),
    "locks": Run(locks.run, blocks=9, replays=3, builds=list(chain(*lock_mutants.LOCKS.values())), patches=_ANY_SEAL),
    "multilocks": Run(multilocks.run, blocks=2, replays=3, builds=multilocks.MUTANTS),
    "onces": Run(onces.onces, blocks=2, replays=3, builds=onces.MUTANTS),
    "partitions": Run(
        partitioned_queues.play,
        blocks=1,
        replays=2,
        variants={"shop": partition_mutants.SHOPS, "plant": partition_mutants.PLANTS},
    ),
    "permits": Run(permits.run, blocks=2, replays=3, builds=permit_mutants.MUTANTS, patches=_ANY_SEAL),
    "queue": Run(
        queues.run,
        blocks=2,
        replays=3,
        builds=list(chain(*queue_mutants.MUTANTS.values())),
        patches={**_ANY_SEAL, **_NO_STEPS},
    ),
    "quorums": Run(
        quorums.run,
        blocks=2,
        replays=3,
        builds=quorum_mutants.BUILDS,
        variants={"counting": quorum_mutants.COUNTINGS},
        check=quorums.check_grants,
    ),
    "rolling": Run(rolling_queues.run, blocks=1, replays=2, builds=rolling_queue_mutants.MUTANTS),
    "schedules at run time": Run(created.run, blocks=1, replays=3, builds=created.MUTANTS),
    "schedules": Run(schedules.run, blocks=1, replays=3, builds=schedules.MUTANTS),
    "shared_formats": Run(shared_formats.run, blocks=4, replays=3, builds=shared_formats.MUTANTS),
    "stocks": Run(stocks.stocks, blocks=2, replays=3, builds=stocks.MUTANTS),
    "task limits": Run(task_limit_queues.run, blocks=1, replays=2, builds=task_limit_queues.MUTANTS),
    "unique": Run(unique_queues.run, blocks=1, replays=2, builds=unique_queue_mutants.MUTANTS),
}
