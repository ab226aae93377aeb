"""Workers on one server, the history of their jobs, and faults of the workers."""

from __future__ import annotations

import contextlib
import json
import os
import random
import re
import signal
import time
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from types import MappingProxyType

import pytest

from chaos.job_checks import Trouble
from history import History
from lockwork import Lockwork
from lockwork.protocol.dead.dead import DeadJob
from lockwork.protocol.queue.status import QueueStatus
from processes import Started, alive, until, worker

APPS = Path(__file__).parent / "apps"
_GIVEN_UP = re.compile(
    r"worker process (\d+) ended|session of worker process (\d+) is over|worker session [^/]+/(\d+)/"
)


def _step(number: int) -> None: ...


def _in_order(number: int, key: str) -> None: ...


def _shared(number: int, tenant: str) -> None: ...


class WorkerProcesses:
    """Simulated machines with two worker processes each; killed machines are replaced."""

    def __init__(
        self,
        stack: ExitStack,
        url: str,
        folder: Path,
        size: int,
        *,
        lease: str,
        places: int,
        broken: str = "",
        partitions: Mapping[str, int] = MappingProxyType({}),
    ) -> None:
        self.history = History(folder / "history")
        self.app = stack.enter_context(Lockwork(url, partitions=partitions, patience="60s"))
        self.step = self.app.task(name="step", retries=0)(_step)
        self.in_order = self.app.task(name="in_order", retries=0, key="{key}")(_in_order)
        shared = self.app.task(name="shared", retries=0, group="{tenant}", group_concurrency=3)
        self.shared = shared(_shared)
        self.troubles: list[Trouble] = []
        self.kills = self.stops = 0
        """Processes that got SIGKILL, and SIGSTOP."""
        self._stack, self._url, self._broken, self._partitions = stack, url, broken, partitions
        self._options = ("--processes", "2", "--concurrency", str(places), "--lease", lease, "--grace", "1s")
        self._logs: list[str] = []
        """Logs of killed machines."""
        self._frozen: dict[Started, tuple[list[int], float, float]] = {}
        self.workers = [self._one_more() for _ in range(size)]
        until(lambda: len(self.app.queue().workers()) == 2 * size, "all have joined")

    def _one_more(self) -> Started:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("CHAOS_HISTORY", self.history.path)
            patch.setenv("CHAOS_BROKEN", self._broken)
            patch.setenv("CHAOS_PARTITIONS", json.dumps(dict(self._partitions)))
            return self._stack.enter_context(worker("load_jobs:lw", *self._options, url=self._url, folder=APPS))

    def status(self) -> QueueStatus:
        return self.app.queue().status()

    def kill(self, draw: random.Random) -> None:
        """Kill one worker process, or now and then a whole machine."""
        running = [machine for machine in self.workers if machine not in self._frozen]
        up = [(machine, children) for machine in running if (children := machine.children())]
        if not up:
            return
        machine, children = draw.choice(up)
        whole = draw.random() < 0.1
        if whole:
            self.kill_machine(machine)
        else:
            self._kill([draw.choice(children)])

    def kill_machine(self, machine: Started) -> None:
        """Kill a worker with all its processes, and start another one."""
        self._kill([machine.pid, *machine.children()])
        machine.end()
        self._logs.append(machine.errors)
        self.workers[self.workers.index(machine)] = self._one_more()

    def _kill(self, pids: list[int]) -> None:
        for pid in pids:
            _send(pid, signal.SIGKILL)
            self.troubles.append(Trouble(pid, (at := time.time()), at))
        self.kills += len(pids)

    def freeze(self, draw: random.Random, seconds: float) -> None:
        """Stop a machine; `thawed` continues it after this time."""
        up = [machine for machine in self.workers if machine not in self._frozen]
        if len(up) < 2:
            return
        machine = draw.choice(up)
        pids = [machine.pid, *machine.children()]
        self._frozen[machine] = pids, time.time(), time.monotonic() + seconds
        for pid in pids:
            _send(pid, signal.SIGSTOP)
        self.stops += len(pids)

    def thawed(self) -> bool:
        """Continue machines whose time is over; return True if none is frozen."""
        for machine, (pids, since, end) in list(self._frozen.items()):
            if time.monotonic() >= end:
                del self._frozen[machine]
                for pid in pids:
                    _send(pid, signal.SIGCONT)
                self.troubles += [Trouble(pid, since, time.time()) for pid in pids]
        return not self._frozen

    def finish(self, patience: float = 90) -> QueueStatus:
        """Wait until no job is left."""
        until(lambda: (status := self.status()).ready + status.scheduled + status.running == 0, "all ended", patience)
        ended = [machine.errors for machine in self.workers if machine.process.poll() is not None]
        assert not ended, f"a supervisor ended: {ended}"
        return self.status()

    def keep(self, folder: Path) -> None:
        """Write the faults and the logs of all machines into files, to find the reason of a problem."""
        (folder / "faults.json").write_text(json.dumps([[each.pid, each.since, each.until] for each in self.troubles]))
        (folder / "logs").write_text("\n".join([*self._logs, *(machine.errors for machine in self.workers)]))

    def dead(self) -> list[DeadJob]:
        """Return the first page of dead jobs, which suffices to report a problem."""
        return self.app.queue().dead.search().jobs

    def given_up(self) -> set[int]:
        """Return the worker processes that died or lost their lease, according to the supervisors' logs."""
        found: set[int] = set()
        for log in [*self._logs, *(machine.errors for machine in self.workers)]:
            for numbers in _GIVEN_UP.findall(log):
                found.update(int(number) for number in numbers if number)
        return found


def _send(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        if alive(pid):
            os.kill(pid, number)
