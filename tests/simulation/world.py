"""The simulated world: virtual time, and the driver that performs effects in it, with faults.

Everything that happens is an event at a time; chance comes from the seed alone, so a run can be repeated exactly.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, NamedTuple, Protocol

from lockwork.errors import ServerUnavailable
from lockwork.protocol.effects import Argument, Call, Clock, Park
from simulation.faults import MS, SECOND, Mix, draw
from simulation.process import Actor, Cancelled, Link, Process, Sleep, Task
from simulation.server import Build, Command, Server

EPOCH = 1_800_000_000 * SECOND
"""Server time at the beginning of every run."""
_PATIENCE = 5.0


class Broken(AssertionError):
    """A rule does not hold."""


@dataclass(frozen=True)
class Step:
    """A script that the server ran: when, in true and in server time, for whom, and what was seen after it."""

    true: int
    now: int
    task: Task
    script: str
    keys: Sequence[str]
    args: Sequence[Argument]
    reply: Any
    seen: list[Any]


class Checker(Protocol):
    """Looks at every step."""

    def looks(self, script: str, keys: Sequence[str]) -> list[Command]:
        """What to read on the server right after this script."""

    def applied(self, step: Step) -> None:
        """Look at a step; raises Broken."""


class _Event(NamedTuple):
    at: int
    order: int
    what: Callable[..., None]
    args: tuple[Any, ...]


class World:
    """One run."""

    def __init__(self, server: Server, seed: int, build: Build, mix: Mix | None = None) -> None:
        self.random: Random = Random(seed)
        self.mix: Mix = draw(self.random) if mix is None else mix
        self.build: Build = build
        self.server: Server = server
        self.now: int = 0
        self.ahead: int = 0
        """How far the server's clock was moved, in all."""
        self.moved_forward: bool = False
        self.down_until: int = 0
        """True time until which the server cannot be reached, us."""
        self.calm: bool = False
        """No more faults: what is under way comes to its end."""
        self.checker: Checker | None = None
        self.processes: list[Process] = []
        self.tasks: list[Task] = []
        self.trace: list[str] = []
        self._events: list[_Event] = []
        self._order = 0
        server.reset()

    # -- time -------------------------------------------------------------------------------------------------------

    def after(self, delay: int, what: Callable[..., None], *args: Any) -> None:
        """Let something happen in `delay` us."""
        self._order += 1
        heapq.heappush(self._events, _Event(self.now + max(0, delay), self._order, what, args))

    def run(self, until: int) -> None:
        """Let time pass until `until`, or until no task is left."""
        while self._events and self._events[0].at <= until:
            event = heapq.heappop(self._events)
            self.now = event.at
            event.what(*event.args)
            if not any(task.live and not task.background for task in self.tasks):
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
        self.after(0, self._resume, task, 0, None)
        return task

    def kill(self, process: Process) -> None:
        """End a process at once; what it has sent may still arrive."""
        self.note(process.name, "KILLED")
        process.alive = False
        self.server.deafen(process.channel)

    def pause(self, process: Process, microseconds: int) -> None:
        """Stop a process for a while: its time goes on, its code does not."""
        self.note(process.name, f"PAUSED for {microseconds / SECOND:.2f} s")
        process.paused_until = max(process.paused_until, self.now + microseconds)

    def cancel(self, task: Task) -> None:
        """Interrupt a task at whatever it waits for."""
        if task.live and not task.actor.gi_running:  # type: ignore[attr-defined]
            self.note(task.name, "CANCELLED")
            task.disturbed = self.now
            task.epoch += 1
            self._abandon(task, again=False)
            self._resume(task, task.epoch, Cancelled())

    def move_clock(self, microseconds: int) -> None:
        """Move the server's clock."""
        self.note("server", f"CLOCK MOVED by {microseconds / SECOND:+.2f} s")
        self.ahead += microseconds
        self.moved_forward = self.moved_forward or microseconds > 0

    def outage(self, microseconds: int) -> None:
        """Let no call reach the server for a while."""
        self.note("server", f"AWAY for {microseconds / SECOND:.2f} s")
        self.down_until = max(self.down_until, self.now + microseconds)

    def flush_scripts(self) -> None:
        """Let the server forget its scripts."""
        self.note("server", "SCRIPTS FLUSHED")
        self.server.command("SCRIPT", "FLUSH")

    # -- the driver -------------------------------------------------------------------------------------------------

    def _resume(self, task: Task, epoch: int, value: Any) -> None:
        """Go on with a task, with a result or an error, unless it waits for something else by now."""
        if not task.live or task.epoch != epoch:
            return
        if task.process.paused_until > self.now:
            self.after(task.process.paused_until - self.now, self._resume, task, epoch, value)
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
            self._begin(task, effect)
            return

    def _begin(self, task: Task, effect: Call | Park | Sleep) -> None:
        if isinstance(effect, Sleep):
            self.after(int(effect.seconds * SECOND), self._resume, task, task.epoch, None)
        elif isinstance(effect, Park):
            self._park(task, effect)
        else:
            task.calling = True
            self._send(task, task.epoch, effect, self.now)

    def _park(self, task: Task, park: Park) -> None:
        epoch, mail = task.epoch, task.process.mail

        def deliver(text: str) -> None:
            self.after(0, self._resume, task, epoch, text)

        def time_out() -> None:
            mail.close(park.ticket, deliver)
            self._resume(task, epoch, None)

        early = mail.open(park.ticket, deliver)
        if early is not None:
            self.after(0, self._resume, task, epoch, early)
        else:
            self.after(int((park.until - task.process.clock(self.now)) * SECOND) + 1, time_out)

    def _send(self, task: Task, epoch: int, call: Call, began: int) -> None:
        if not task.live or task.epoch != epoch:
            return
        if task.process.paused_until > self.now:
            self.after(task.process.paused_until - self.now, self._send, task, epoch, call, began)
            return
        draw, mix = self.random.random(), self.mix
        lost = ""
        if not self.calm:
            lost = "CALL" if draw < mix.unsent else "REPLY" if draw < mix.unsent + mix.unanswered else ""
            lost = "LATE CALL" if mix.tardy and self.random.random() < mix.tardy else lost
        lost = "CALL" if self.now < self.down_until else lost
        ended = self.now if lost == "CALL" and draw < mix.unsent / 2 else self._end_abandoned(task.process)
        arrival = max(ended + self._latency(), task.process.sent_until + 1)
        if lost in ("", "REPLY"):
            task.process.sent_until = arrival
            self.after(arrival - self.now, self._arrive, task, epoch, call, lost == "REPLY")
        elif lost == "LATE CALL":
            task.link = Link()
            held_up = self.random.randint(0, self.random.choice([100 * MS, 2 * SECOND, 10 * SECOND]))
            self.after(arrival - self.now + held_up, self._arrive_late, task, epoch, call, task.link)
        if lost:
            task.disturbed = self.now
            self.note(task.name, f"LOST {lost} {call.script.name}")
            noticed = self.random.randint(70 * MS, 1000 * MS)
            self.after(noticed, self._again, task, epoch, call, began)

    def _end_abandoned(self, process: Process) -> int:
        """Let the server end the connections that were given up, if there are any; returns when it has done so."""
        if not process.abandoned:
            return self.now
        links = list(process.abandoned)

        def end() -> None:
            for link in links:
                link.ended = True
                process.abandoned.pop(link, None)

        delay = self._latency()
        self.after(delay, end)
        return self.now + delay

    def _abandon(self, task: Task, *, again: bool) -> None:
        """The connection of its call is known to be broken, or is closed: whoever calls next ends it first."""
        if task.link is not None and (self.build.ends == "always" or (again and self.build.ends != "never")):
            task.process.abandoned[task.link] = None
        task.link = None

    def _arrive_late(self, task: Task, epoch: int, call: Call, link: Link) -> None:
        if link.ended:
            self.note(task.name, f"never arrives: {call.script.name}")
        else:
            self._arrive(task, epoch, call, unanswered=True)

    def _again(self, task: Task, epoch: int, call: Call, began: int) -> None:
        """The connection broke: try again like the drivers do, or give up."""
        if not task.live or task.epoch != epoch:
            return
        task.disturbed = self.now
        pause = self.random.randint(5 * MS, 500 * MS)
        patience = _PATIENCE if call.patience is None else call.patience
        given_up = (self.now - began + pause) / SECOND > patience
        self._abandon(task, again=not given_up)
        if given_up:
            self.note(task.name, f"GAVE UP {call.script.name}")
            self._resume(task, epoch, ServerUnavailable("the simulated server does not answer"))
        else:
            self.after(pause, self._send, task, epoch, call.again(), began)

    def _arrive(self, task: Task, epoch: int, call: Call, unanswered: bool) -> None:
        name = call.script.name
        looks = self.checker.looks(name, call.keys) if self.checker else []
        applied = self.server.run(self.build.script(name), call.keys, call.args, self.server_now, looks)
        self.note(task.name, f"{name} {_shown(call.args)} -> {_shown(applied.reply)}")
        for channel, text in applied.messages:
            self._post(channel, text)
        if not unanswered:
            self.after(self._latency(), self._resume, task, epoch, applied.reply)
        if self.checker:
            self.checker.applied(
                Step(self.now, self.server_now, task, name, call.keys, call.args, applied.reply, applied.seen)
            )

    def _post(self, channel: str, text: str) -> None:
        """Send a wake-up to its process, if chance lets it."""
        process = next(process for process in self.processes if process.channel == channel)
        draw, mix = self.random.random(), Mix() if self.calm else self.mix
        if draw < mix.lost:
            self.note(process.name, f"LOST WAKE-UP {text}")
            process.unheard = self.now
            return
        delay = self._latency()
        if self.random.random() < mix.late:
            delay = self.random.randint(0, 2 * SECOND)
            process.unheard = max(process.unheard, self.now + delay)
        self.note(process.name, f"wake-up {text} in {delay / MS:.1f} ms")
        for _ in range(2 if self.random.random() < mix.twice else 1):
            self.after(delay, self._deliver, process, text)

    def _deliver(self, process: Process, text: str) -> None:
        if process.alive:
            ticket, _, rest = text.partition(" ")
            process.mail.deliver(ticket, rest)

    def _latency(self) -> int:
        if not self.calm and self.random.random() < self.mix.slow:
            return self.random.randint(1 * MS, 60 * MS)
        return self.random.randint(50, 1 * MS)


def _shown(values: Any) -> str:
    text = " ".join(map(str, values)) if isinstance(values, list | tuple) else str(values)
    return text if len(text) < 160 else text[:160] + "..."


def _nothing() -> Actor:
    yield Sleep(0)
