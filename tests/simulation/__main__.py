"""Replay one seed and print everything that happened: `python -m simulation locks 12345`, in `tests/`."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from lockwork.runtime.embedded import start_private
from simulation.locks import elections, lock_options, locks, multilocks, permits, quorums, shared_formats
from simulation.queues import (
    delay_queues,
    flow_queues,
    limit_queues,
    lock_queues,
    partitioned_queues,
    queues,
    schedules,
    stocks,
    unique_queues,
)
from simulation.server import Server
from simulation.synchronizers import barriers, latches, limiters, onces
from simulation.world import Broken


class Traced(Protocol):
    """A run that can be shown."""

    trace: list[str]


RUNS: dict[str, Callable[[Server, int], Traced]] = {
    "barriers": barriers.barriers,
    "delay_queues": delay_queues.delay_queues,
    "election": elections.run,
    "flows": flow_queues.run,
    "latches": latches.latches,
    "limiters": limiters.limiters,
    "limits": limit_queues.run,
    "lock_queues": lock_queues.run,
    "lock_options": lock_options.run,
    "locks": locks.run,
    "multilocks": multilocks.run,
    "onces": onces.onces,
    "partitions": partitioned_queues.run,
    "permits": permits.run,
    "quorums": quorums.run,
    "queue": queues.run,
    "schedules": schedules.run,
    "shared_formats": shared_formats.run,
    "stocks": stocks.stocks,
    "unique": unique_queues.run,
}


def main(kind: str, seed: str) -> int:
    """Play the run `kind` with `seed`; 1 when a rule was broken."""
    if kind not in RUNS:
        print(f"no run is called {kind}: there are {', '.join(RUNS)}")
        return 2
    run = RUNS[kind]
    with tempfile.TemporaryDirectory() as folder, start_private(Path(folder)) as started:
        server = Server(started.url)
        try:
            print("\n".join(run(server, int(seed)).trace))
        except Broken as error:
            print(error)
            return 1
        finally:
            server.close()
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
