"""Elections in virtual time: candidates of three processes that resign, stop, hang and die."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

from locks.simulation.election_actors import Candidate, Voters
from locks.simulation.election_checks import ElectionChecker
from simulator.faults import SECOND
from simulator.process import Actor, Process, Sleep, Task
from simulator.runs import RELEASED, finished, incidents
from simulator.server import Build, Server
from simulator.world import World

Making = Callable[[Voters, Task], Candidate]


class Polls:
    """One run: starts, stops and kills candidates, and lets them resign."""

    def __init__(self, server: Server, seed: int, build: Build, candidates: Making) -> None:
        self.world = World(server, seed, build)
        self.voters = Voters(self.world)
        self.checker = ElectionChecker(self.world, self.voters)
        self.voters.checker = self.world.checker = self.checker
        self._random = self.world.random
        self._candidates = candidates
        self._names = (f"p{number}" for number in itertools.count())
        self._watch = self.world.process("watch")

    @property
    def trace(self) -> list[str]:
        """The events of the run, a line each."""
        return self.world.trace

    def begin(self) -> None:
        """Start the candidates, and schedule their incidents."""
        for _ in range(3):
            self._populate()
        self.world.start(self._watch, "watcher", lambda _: self._watcher(), background=True)
        incidents(self.world, lambda: self._kill(self._processes()), 20 * SECOND, self._processes)
        for _ in range(self._random.randint(0, 2)):  # after all other faults, these show successions
            self.world.after(self._random.randint(35 * SECOND, 60 * SECOND), self._kill_leader)

    def _processes(self) -> list[Process]:
        return [process for process in self.world.processes if process is not self._watch]

    def _populate(self) -> None:
        process = self.world.process(next(self._names))
        self.world.start(process, "engine", lambda _: self.voters.renewer(process), background=True)
        for number in range(self._random.randint(1, 2)):
            self.world.start(process, f"c{number}", self._campaign)

    def _campaign(self, task: Task) -> Actor:
        candidate = self._candidates(self.voters, task)
        self.world.start(task.process, f"user of {task.name}", lambda _: self._user(candidate), background=True)
        return candidate.run()

    def _user(self, candidate: Candidate) -> Actor:
        """Let a candidate resign now and then, and stop it in the end."""
        world, random = self.world, self._random
        end = world.now + random.randint(5 * SECOND, 70 * SECOND)
        while world.now < end:
            yield Sleep(min(random.uniform(0.1, 8), (end - world.now) / SECOND))
            if candidate.leadership is not None and random.random() < 0.4:
                world.note(candidate.task.name, "RESIGNS")
                candidate.candidacy.resign(candidate.leadership.grant)
        world.note(candidate.task.name, "IS STOPPED")
        candidate.stop()

    def _kill(self, victims: list[Process]) -> None:
        if alive := [process for process in victims if process.alive]:
            self.world.kill(self._random.choice(alive))
            self.world.after(self._random.randint(0, SECOND), self._populate)

    def _kill_leader(self) -> None:
        self._kill([leadership.task.process for leadership in self.voters.leaderships])

    def _watcher(self) -> Actor:
        while True:
            self.checker.look()
            yield Sleep(0.1)


def play(server: Server, seed: int, build: Build = RELEASED, candidates: Making = Candidate) -> Polls:
    """Play one seed; raises Broken."""
    polls = Polls(server, seed, build, candidates)
    polls.begin()
    finished(polls.world, seed, 30, 400, polls.checker.at_end)
    return polls


def check_leaders(runs: Sequence[Polls]) -> None:
    """Check that candidates lead in these runs, and follow each other."""
    assert sum(run.checker.gains for run in runs) >= len(runs), "a run in which nobody leads proves nothing"
    assert len(runs) == 1 or sum(run.checker.filled for run in runs) >= len(runs), "nor one without a follower"
