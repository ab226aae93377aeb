"""One sale, from the first buyer to the audit."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from time import monotonic

from lockwork import Lockwork
from play.audit import AuditResult, audit
from play.evidence import Evidence, KilledWorker, count_events, read_ledger, read_told
from play.failure import DemoFailed, Interrupted
from play.kill import kill_one_at_work
from play.load import Load, Seen
from play.screen import Moment, Screen, counted
from play.signals import Signals
from play.stage import DemoProgram, Stage

_SERVE = Path(__file__).with_name("serve.py")

PROCESSES = 2
CONCURRENCY = 16
_LOOK = 0.1
"""Seconds between two looks at the sale."""
_AIM = 0.005
"""Seconds between two tries to kill a worker: it has an order in its hands for a few hundredths of a second only."""
_CHOOSY = 4.0
"""Seconds after which any worker with a job in its hands will do as the victim; at first it has to have many."""
_STUCK = 20.0
"""Seconds without any progress, once all buyers have gone, after which the sale will never end."""
_READY = 30.0
"""Seconds that the dashboard may take to start."""
_RESTOCK = 10
"""Phones that are put on sale after the audit, whenever there are fewer than that."""


@dataclass(frozen=True, slots=True)
class SalePlan:
    """What is to be played; `home` is the folder of the shop's programs.

    With `dashboard`, it is served, and buyers come after the audit too, until a signal ends the demo.
    """

    buyers: int
    stock: int
    seed: int
    home: Path
    dashboard: bool = False

    @property
    def buyable(self) -> int:
        """Phones that can be sold, one per buyer."""
        return min(self.stock, self.buyers)


@dataclass(frozen=True, slots=True)
class SaleOutcome:
    """A sale that is over."""

    plan: SalePlan
    seen: Seen
    victim: KilledWorker | None
    recovered: int
    seconds: float
    verdict: AuditResult

    @property
    def good(self) -> bool:
        """Whether every promise was kept although a worker was killed."""
        return self.victim is not None and not self.verdict.findings


def play(
    plan: SalePlan, screen: Screen, signals: Signals, audited: Callable[[SaleOutcome], object] = lambda _: None
) -> SaleOutcome:
    """Play a sale, and call `audited` with its end; raises DemoFailed, Interrupted, or a LockworkError."""
    began = monotonic()
    signals.wait(0)
    with Stage(plan.home) as stage, Lockwork(stage.url, patience=3) as lw:
        sale = _Sale(plan, screen, signals, stage, lw)
        if plan.dashboard:
            sale.serve_dashboard()
        sale.open()
        sale.let_buyers_in()
        sale.settle()
        outcome = _outcome(plan, sale.seen, sale.close(), began)
        audited(outcome)
        if plan.dashboard:
            with suppress(Interrupted):
                sale.go_on()
    return outcome


def _outcome(plan: SalePlan, seen: Seen, evidence: Evidence, began: float) -> SaleOutcome:
    victim = next(iter(evidence.victims), None)
    return SaleOutcome(plan, seen, victim, evidence.queue.recovered, monotonic() - began, audit(evidence))


class _Sale:
    def __init__(self, plan: SalePlan, screen: Screen, signals: Signals, stage: Stage, lw: Lockwork) -> None:
        self._plan, self._screen, self._signals, self._stage = plan, screen, signals, stage
        self._ledger, self._told = stage.folder / "ledger.sqlite3", stage.folder / "told.jsonl"
        self._stock = lw.stock("phone", plan.stock, limit=1, queue="orders")
        self._queue = lw.queue("orders")
        self._victim: KilledWorker | None = None
        self._given_back = False
        self._aiming_since: float | None = None
        self._phase = "the doors are open"
        self._began = monotonic()
        self.seen = Seen()

    def serve_dashboard(self) -> None:
        """Start the dashboard, and say where it is."""
        options = ("--port=0", "--allow-actions")
        self._dashboard = self._start("dashboard", "lockwork", "dashboard", *options, output=subprocess.PIPE)
        assert self._dashboard.process.stdout is not None
        with self._dashboard.process.stdout as output:
            if not self._signals.wait(_READY, output.fileno()):
                raise DemoFailed(f"the dashboard was not there after {_READY:.0f} s")
            line = output.readline().decode()
        if not line:
            self._dashboard.process.wait()
            self._stage.check(self._dashboard)
        self._screen.say(line.partition(" (")[0])

    def open(self) -> None:
        """Start the workers and the shop."""
        options = (f"--processes={PROCESSES}", f"--concurrency={CONCURRENCY}", "--grace=1")
        self._worker = self._start("worker", "lockwork", "worker", "tasks:lw", *options)
        door = self._stage.door()
        self._url = f"http://127.0.0.1:{door.getsockname()[1]}"
        self._shop = self._start("shop", str(_SERVE), str(door.fileno()), keep=door.fileno())

    def let_buyers_in(self) -> None:
        """Let the buyers come, kill a worker in the middle of it, and stay until the last buyer has gone."""
        options = (f"--buyers={self._plan.buyers}", f"--seed={self._plan.seed}", f"--told={self._told}")
        load = self._start("load", "load.py", self._url, *options, output=subprocess.PIPE)
        assert load.process.stdout is not None
        with load.process.stdout as output:
            crowd = Load(output.fileno())
            moment = self._look()
            while not crowd.gone:
                aiming = self._victim is None and self._in_the_middle(moment)
                if self._signals.wait(_AIM if aiming else _LOOK, crowd.reports):
                    self.seen = crowd.read()
                if aiming:
                    self._kill(self._enough())
                if self._seconds() - moment.seconds >= _LOOK:
                    moment = self._look()
        self._stage.finish(load)

    def settle(self) -> None:
        """Wait until every order is settled, or nothing moves any more: then the audit will say what is left."""
        self._phase = "the buyers have gone; the last orders are settled"
        jobs, since = self._look().jobs, monotonic()
        while jobs.ready + jobs.scheduled + jobs.running and monotonic() - since < _STUCK:
            self._signals.wait(_LOOK if self._victim else _AIM)
            if not self._victim:  # no worker had enough in its hands while the buyers were there
                self._kill(1)
            before, jobs = jobs, self._look().jobs
            if jobs != before:
                since = monotonic()

    def close(self) -> Evidence:
        """Send the workers and the shop home, and collect the evidence."""
        self._stage.end(self._worker)
        self._stage.end(self._shop)
        entries, deliveries = read_ledger(self._ledger)
        return Evidence(
            stock=self._plan.stock,
            told=read_told(self._told),
            entries=entries,
            deliveries=deliveries,
            books=self._stock.inspect(),
            queue=self._queue.status(),
            victims=[self._victim] if self._victim else [],
        )

    def go_on(self) -> None:
        """Open again, and let a few buyers come every second until Interrupted is raised."""
        self.open()
        load = self._start("load", "load.py", self._url, "--trickle", f"--told={os.devnull}")
        while True:
            self._signals.wait(1)
            self._stage.check(self._worker, self._shop, self._dashboard, load)
            if self._stock.inspect().available < _RESTOCK:
                self._stock.restock(_RESTOCK)

    def _start(self, name: str, *command: str, output: int | None = None, keep: int | None = None) -> DemoProgram:
        self._signals.wait(0)
        environment = {
            "LOCKWORK_URL": self._stage.url,
            "FLASHSALE_LEDGER": str(self._ledger),
            "FLASHSALE_STOCK": str(self._plan.stock),
        }
        return self._stage.start(name, *command, environment=environment, output=output, keep=keep)

    def _look(self) -> Moment:
        self._stage.check(self._worker, self._shop)
        moment = Moment(
            seconds=self._seconds(),
            phase=self._phase,
            seen=self.seen,
            stock=self._stock.inspect(),
            jobs=self._queue.status(),
            orders=count_events(self._ledger),
        )
        if self._victim and not self._given_back and moment.jobs.recovered >= self._victim.in_hand:
            self._given_back = True
            self._screen.say(
                f"{counted(moment.jobs.recovered, 'job')} returned to the queue at once, for other workers"
            )
        self._screen.show(moment)
        return moment

    def _in_the_middle(self, moment: Moment) -> bool:
        # a little earlier in a sale of few phones: it may be over before anybody looks again
        middle = moment.stock.sold >= self._plan.buyable // 2 - 10
        if middle and self._aiming_since is None:
            self._aiming_since = self._seconds()
        return middle

    def _enough(self) -> int:
        """How many jobs a worker must have in its hands to be the victim: fewer and fewer."""
        assert self._aiming_since is not None
        left = 1 - (self._seconds() - self._aiming_since) / _CHOOSY
        return max(1, round(left * min(CONCURRENCY // 2, self._plan.buyable // 16)))

    def _kill(self, least: int) -> None:
        self._victim = kill_one_at_work(self._queue, least)
        if self._victim:
            pid, jobs = self._victim.pid, counted(self._victim.in_hand, "job")
            self._screen.say(f"worker process {pid} was killed (SIGKILL) with {jobs} running")

    def _seconds(self) -> float:
        return monotonic() - self._began
