"""The simulated world: virtual time, the processes in it, and the driver that performs their effects.

Everything is an event at a virtual time, and all randomness comes from the seed, so a run can be repeated exactly.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, NamedTuple, Protocol

from lockwork.protocol.effects import Argument, Call, Calls, Clock, Indexed, Park, Shards
from simulator.faults import MS, SECOND, ListeningFaults, Mix, draw, listening
from simulator.network import Network
from simulator.process import NEVER, Actor, Cancelled, Process, Sleep, Task
from simulator.server import Build, Command, Server

EPOCH = 1_800_000_000 * SECOND
"""Server time at the beginning of every run."""


class Broken(AssertionError):
    """A rule does not hold."""


@dataclass(frozen=True)
class Step:
    """A script that the server ran: its true and server time (us), its task, and the replies to the reads after it."""

    true: int
    now: int
    task: Task
    script: str
    keys: Sequence[str]
    args: Sequence[Argument]
    reply: Any
    seen: list[Any]


class Checker(Protocol):
    """Checks every step."""

    def looks(self, script: str, keys: Sequence[str]) -> list[Command]:
        """Return the reads to run right after this script."""

    def applied(self, step: Step) -> None:
        """Check a step; raises Broken."""


class _Event(NamedTuple):
    at: int
    order: int
    what: Callable[..., None]
    args: tuple[Any, ...]


class World:
    """One run."""

    def __init__(self, server: Server, seed: int, build: Build, mix: Mix | None = None) -> None:
        self.random: Random = Random(seed)
        self.stranger: Random = Random(f"a stranger in {seed}")
        self.mix: Mix = draw(self.random, self.stranger) if mix is None else mix
        self.chance: Random = Random(f"ears {seed}")
        self.forgetting: Random = Random(f"leavers {seed}")
        """Selects the owners that end without releasing."""
        self.listening_faults: ListeningFaults = listening(self.chance) if mix is None else ListeningFaults()
        self.build: Build = build
        self.server: Server = server
        self.now: int = 0
        self.ahead: int = 0
        """Sum of all steps of the server's clock, us."""
        self.moved_forward: bool = False
        self.stepped: int = NEVER
        """True time of the clock's last step."""
        self.jumped: int = NEVER
        """True time of the clock's last step forward."""
        self.down_until: int = 0
        """The server is unreachable until this true time, us."""
        self.calm: bool = False
        """True after the faults, while the remaining tasks run to their end."""
        self.checker: Checker | None = None
        self.processes: list[Process] = []
        self.tasks: list[Task] = []
        self.trace: list[str] = []
        self._events: list[_Event] = []
        self._order = 0
        self._network = Network(self)
        server.reset()
        if self.listening_faults.monitor:
            server.monitor()

    # -- time -------------------------------------------------------------------------------------------------------

    def after(self, delay: int, what: Callable[..., None], *args: Any) -> None:
        """Schedule a call in `delay` us."""
        self._order += 1
        heapq.heappush(self._events, _Event(self.now + max(0, delay), self._order, what, args))

    def run(self, until: int) -> None:
        """Run events until this true time, or until no foreground task remains."""
        left: Task | None = None
        while self._events and self._events[0].at <= until:
            event = heapq.heappop(self._events)
            self.now = event.at
            event.what(*event.args)
            if left is None or left.background or not left.live:
                left = next((task for task in self.tasks if task.live and not task.background), None)
                if left is None:
                    return
        self.now = until

    @property
    def server_now(self) -> int:
        """The server's clock, in us."""
        return EPOCH + self.now + self.ahead

    def note(self, who: str, what: str) -> None:
        """Add a line to the trace."""
        self.trace.append(f"{self.now / SECOND:10.6f}  {who:<12}  {what}")

    # -- processes and tasks ----------------------------------------------------------------------------------------

    def process(self, name: str) -> Process:
        """Start a process."""
        process = Process(name, self.random.uniform(0, 1000))
        self.processes.append(process)
        self.server.hear(process.channel)
        return process

    def start(self, process: Process, name: str, actor: Callable[[Task], Actor], *, background: bool = False) -> Task:
        """Start a task."""
        task = Task(process, name, _nothing(), background=background)
        task.actor = actor(task)
        self.tasks.append(task)
        self.after(0, self.resume, task, 0, None)
        return task

    def kill(self, process: Process) -> None:
        """End a process at once. Its sent calls may still arrive."""
        self.note(process.name, "KILLED")
        process.alive = False
        if self.listening_faults.machines:
            self.after(self.chance.randint(0, 60 * SECOND), self._deafen, process)
        else:
            self._deafen(process)

    def _deafen(self, process: Process) -> None:
        process.listens = False
        self.server.deafen(process.channel)

    def hang_up(self, process: Process) -> None:
        """Break a process's subscription for a while. When it is back, all waiters of the process check again."""
        self.note(process.name, "HUNG UP")
        self._deafen(process)
        away = self.chance.randint(1 * MS, self.chance.choice([50 * MS, SECOND, 8 * SECOND]))
        process.unheard = max(process.unheard, self.now + away)
        self.after(away, self._listen, process)

    def _listen(self, process: Process) -> None:
        if process.alive:
            self.note(process.name, "LISTENS AGAIN")
            process.listens = True
            self.server.hear(process.channel)
            for ticket in list(process.mail._boxes):
                process.mail.deliver(ticket, "")

    def pause(self, process: Process, microseconds: int) -> None:
        """Pause a process for a while; its clock continues."""
        self.note(process.name, f"PAUSED for {microseconds / SECOND:.2f} s")
        process.paused_until = max(process.paused_until, self.now + microseconds)

    def cancel(self, task: Task) -> None:
        """Interrupt a task at its present wait."""
        if task.live and not task.actor.gi_running:  # type: ignore[attr-defined]
            self.note(task.name, "CANCELLED")
            task.disturbed = self.now
            task.epoch += 1
            self._network.abandon(task, again=False)
            self.resume(task, task.epoch, Cancelled())

    def move_clock(self, microseconds: int) -> None:
        """Move the server's clock."""
        self.note("server", f"CLOCK MOVED by {microseconds / SECOND:+.2f} s")
        self.ahead += microseconds
        self.moved_forward = self.moved_forward or microseconds > 0
        self.stepped = self.now
        if microseconds > 0:
            self.jumped = self.now

    def outage(self, microseconds: int) -> None:
        """Let no call reach the server for a while."""
        self.note("server", f"AWAY for {microseconds / SECOND:.2f} s")
        self.down_until = max(self.down_until, self.now + microseconds)

    def flush_scripts(self) -> None:
        """Let the server forget its scripts."""
        self.note("server", "SCRIPTS FLUSHED")
        self.server.command("SCRIPT", "FLUSH")

    # -- the driver -------------------------------------------------------------------------------------------------

    def resume(self, task: Task, epoch: int, value: Any) -> None:
        """Resume a task with a result or an error, unless the wait numbered `epoch` is over."""
        if not task.live or task.epoch != epoch:
            return
        if task.process.paused_until > self.now:
            self.after(task.process.paused_until - self.now, self.resume, task, epoch, value)
            return
        task.epoch += 1
        task.calling = False
        while True:
            try:
                effect = task.actor.throw(value) if isinstance(value, BaseException) else task.actor.send(value)
            except (StopIteration, Cancelled):
                task.done = True
                return
            if isinstance(effect, Clock):
                value = task.process.clock(self.now)
                continue
            if isinstance(effect, Shards):
                value = 1
                continue
            if isinstance(effect, Indexed):
                value = []
                continue
            assert not isinstance(effect, Calls), "protocols of one server make one call after the other"
            self._begin(task, effect)
            return

    def _begin(self, task: Task, effect: Call | Park | Sleep) -> None:
        if isinstance(effect, Sleep):
            self.after(int(effect.seconds * SECOND), self.resume, task, task.epoch, None)
        elif isinstance(effect, Park):
            self._park(task, effect)
        else:
            task.calling = True
            self._network.send(task, task.epoch, effect, self.now)

    def _park(self, task: Task, park: Park) -> None:
        epoch, mail = task.epoch, task.process.mail

        def deliver(text: str) -> None:
            self.after(0, self.resume, task, epoch, text)

        def time_out() -> None:
            mail.close(park.ticket, deliver)
            self.resume(task, epoch, None)

        early = mail.open(park.ticket, deliver)
        if early is not None:
            self.after(0, self.resume, task, epoch, early)
        else:
            self.after(int((park.until - task.process.clock(self.now)) * SECOND) + 1, time_out)

    def perform(self, task: Task, call: Call) -> Any:
        """Run the script of an arrived call, let the checker check it, and return the reply."""
        name = call.script.name
        looks = self.checker.looks(name, call.keys) if self.checker else []
        applied = self.server.run(self.build.script(name), call.keys, call.args, self.server_now, looks)
        self.note(task.name, f"{name} {_shown(call.args)} -> {_shown(applied.reply)}")
        for channel, text in applied.messages:
            self._network.post(channel, text)
        if self.checker:
            self.checker.applied(
                Step(self.now, self.server_now, task, name, call.keys, call.args, applied.reply, applied.seen)
            )
        return applied.reply


def _shown(values: Any) -> str:
    text = " ".join(map(str, values)) if isinstance(values, list | tuple) else str(values)
    return text if len(text) < 160 else text[:160] + "..."


def _nothing() -> Actor:
    yield Sleep(0)
