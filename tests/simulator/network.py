"""The network between processes and server: it delays, loses and forges calls, replies and wake-ups."""

from __future__ import annotations

import re
from random import Random
from typing import TYPE_CHECKING

from lockwork.errors import ServerUnavailable
from lockwork.protocol.effects import Call
from lockwork.protocol.messages import split
from simulator.faults import MS, SECOND, Mix
from simulator.process import Link, Process, Task

if TYPE_CHECKING:
    from simulator.world import World

_PATIENCE = 5.0
_NUMBER = re.compile(r"(?<= )[0-9]+(?= |$)")
_SEAL = re.compile(r"(?<= )[0-9a-f]{40} ")
_INNER = ("engine", "places")
"""Tickets that a process uses to wake its own threads. In a real process, no outside message reaches them."""
_FORMS = (  # a grant, an offer, and the messages of barriers and latches
    f"{'0' * 40} 1800000000000000 1800000009000000",
    f'{"0" * 40} 1 1900000000000000 ~ j0001 1,3,,;["work",[]]',
    f"{'0' * 40} 1900000000000000",
)
_ODD = ("", "x", "look", "1", "1 2", f"-1 {10**25}", "1 1 ~", "1 1 ~ id 1,4,,;[]", "\x00\udcff", "9" * 5000)


def forged(random: Random, text: str) -> str:
    """Return a stranger's version of a message: unchanged, with other numbers, without a valid seal, or odd words."""
    ticket = text.partition(" ")[0]
    far = random.choice([1, 1000, 20 * SECOND, 3600 * SECOND])
    moved = _NUMBER.sub(lambda found: str(int(found[0]) + (far if random.random() < 0.8 else 0)), text)
    bare, odd = _SEAL.sub("", moved), f"{ticket} {random.choice(_ODD)}"
    return random.choice([text, moved, bare, _SEAL.sub("", text), _SEAL.sub("0" * 40 + " ", moved), odd])


class Network:
    """The connections of one world."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._heard: dict[str, str] = {form: form for form in _FORMS}
        """The last sealed message of each ticket that a stranger received, and the `_FORMS`."""

    def send(self, task: Task, epoch: int, call: Call, began: int) -> None:
        """Send a call, or send it again. began: true time of the first attempt, us."""
        world, random = self._world, self._world.random
        if not task.live or task.epoch != epoch:
            return
        if task.process.paused_until > world.now:
            world.after(task.process.paused_until - world.now, self.send, task, epoch, call, began)
            return
        if world.mix.forged and not world.calm:
            self._meddle(world.mix.forged)
        if not task.process.may_kill and world.build.careful:
            call = call.unguarded()
        draw, mix = random.random(), world.mix
        lost = ""
        if not world.calm:
            lost = "CALL" if draw < mix.unsent else "REPLY" if draw < mix.unsent + mix.unanswered else ""
            lost = "LATE CALL" if mix.tardy and random.random() < mix.tardy else lost
        lost = "CALL" if world.now < world.down_until else lost
        ended = world.now if lost == "CALL" and draw < mix.unsent / 2 else self._end_abandoned(task.process)
        arrival = max(ended + self._latency(), task.process.sent_until + 1)
        if lost in ("", "REPLY"):
            task.process.sent_until = arrival
            world.after(arrival - world.now, self._arrive, task, epoch, call, lost == "REPLY")
        elif lost == "LATE CALL":
            task.link = Link()
            held_up = random.randint(0, random.choice([100 * MS, 2 * SECOND, 10 * SECOND]))
            world.after(arrival - world.now + held_up, self._arrive_late, task, epoch, call, task.link)
        if lost:
            task.disturbed = world.now
            world.note(task.name, f"LOST {lost} {call.script.name}")
            noticed = random.randint(70 * MS, 1000 * MS)
            world.after(noticed, self._again, task, epoch, call, began)

    def _end_abandoned(self, process: Process) -> int:
        """Let the server end the process's abandoned connections, if any; return the true time of their end, us."""
        if not process.abandoned:
            return self._world.now
        links = list(process.abandoned)

        def end() -> None:
            for link in links:
                link.ended = True
                process.abandoned.pop(link, None)

        delay = self._latency()
        self._world.after(delay, end)
        return self._world.now + delay

    def abandon(self, task: Task, *, again: bool) -> None:
        """Abandon the broken connection of a task's call. Depending on the build, the process's next call ends it."""
        ends = self._world.build.ends
        if task.link is not None and task.process.may_kill and (ends == "always" or (again and ends != "never")):
            task.process.abandoned[task.link] = None
        task.link = None

    def _arrive_late(self, task: Task, epoch: int, call: Call, link: Link) -> None:
        if link.ended:
            self._world.note(task.name, f"never arrives: {call.script.name}")
        else:
            self._arrive(task, epoch, call, unanswered=True)

    def _again(self, task: Task, epoch: int, call: Call, began: int) -> None:
        """Retry after a broken connection, as the drivers do, or give up."""
        world, random = self._world, self._world.random
        if not task.live or task.epoch != epoch:
            return
        task.disturbed = world.now
        pause = random.randint(5 * MS, 500 * MS)
        patience = _PATIENCE if call.patience is None else call.patience
        given_up = (world.now - began + pause) / SECOND > patience
        self.abandon(task, again=not given_up)
        if given_up:
            world.note(task.name, f"GAVE UP {call.script.name}")
            world.resume(task, epoch, ServerUnavailable("the simulated server does not answer"))
        else:
            world.after(pause, self.send, task, epoch, call.again(), began)

    def _arrive(self, task: Task, epoch: int, call: Call, unanswered: bool) -> None:
        reply = self._world.perform(task, call)
        if not unanswered:
            self._world.after(self._latency(), self._world.resume, task, epoch, reply)

    def post(self, channel: str, text: str) -> None:
        """Send a wake-up to its process; chance may lose, delay or duplicate it."""
        world, random = self._world, self._world.random
        process = next(process for process in world.processes if process.channel == channel)
        draw, mix = random.random(), Mix() if world.calm else world.mix
        if draw < mix.lost:
            world.note(process.name, f"LOST WAKE-UP {text}")
            process.unheard = world.now
            return
        delay = self._latency()
        if random.random() < mix.late:
            delay = random.randint(0, 2 * SECOND)
            process.unheard = max(process.unheard, world.now + delay)
        world.note(process.name, f"wake-up {text} in {delay / MS:.1f} ms")
        for _ in range(2 if random.random() < mix.twice else 1):
            world.after(delay, self._deliver, process, text)
        if mix.forged:
            if _SEAL.search(text):
                ticket, _, self._heard[ticket] = text.partition(" ")
            self._forge(process, text)

    def _forge(self, process: Process, text: str) -> None:
        """Perhaps let a stranger forge a message from this one, for this or another process, within two seconds."""
        world, random = self._world, self._world.stranger
        if random.random() >= world.mix.forged:
            return
        to = process if random.random() < 0.7 else random.choice(world.processes)
        made = forged(random, text)
        delay = random.choice([0, random.randint(0, 20 * MS), random.randint(0, 2 * SECOND)])
        world.note(to.name, f"FORGED {made!r} in {delay / MS:.1f} ms")
        world.after(delay, self._deliver, to, made)

    def _meddle(self, often: float) -> None:
        """Perhaps let a stranger that knows every ticket wake a waiter with a forged message."""
        world, random = self._world, self._world.stranger
        if random.random() < often:
            world.after(random.randint(0, 200 * MS), self._answer, random.choice(world.processes))

    def _answer(self, process: Process) -> None:
        random = self._world.stranger
        waiting = [ticket for ticket in process.mail._boxes if ticket not in _INNER]
        if process.alive and waiting:
            ticket = random.choice(waiting)
            others = random.choice(list(self._heard.values()))
            made = forged(random, f"{ticket} {self._heard.get(ticket, others)}")
            self._world.note(process.name, f"FORGED {made!r}")
            self._deliver(process, made)

    def _deliver(self, process: Process, text: str) -> None:
        if process.alive:
            process.mail.deliver(*split(text.encode(errors="surrogateescape")))

    def _latency(self) -> int:
        if not self._world.calm and self._world.random.random() < self._world.mix.slow:
            return self._world.random.randint(1 * MS, 60 * MS)
        return self._world.random.randint(50, 1 * MS)
