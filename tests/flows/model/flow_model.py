"""A plain Python model of flows: blocked jobs, runnable jobs, and the effect of an outcome on the other jobs."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from lockwork.protocol.flows.flows import Policy

WAITING = ("scheduled", "ready")
ENDINGS = {"s": "succeeded", "f": "dead", "c": "cancelled", "n": "skipped"}


@dataclass
class ModelJob:
    """One job or one compensation."""

    flow: ModelFlow
    number: int
    parents: frozenset[int] = frozenset()
    policy: Policy = "fail"
    delay: int = 0
    undo: bool = False
    """True if the job has a compensation."""
    causes: frozenset[int] = frozenset()
    """The job runs only if one of these fails."""
    caused: bool = False
    compensation: bool = False
    keyed: bool = False
    place: str = "blocked"
    due: int = 0
    tries: int = 0
    crashes: int = 0
    revived: bool = False
    """True if an operator ran it again."""
    asked: bool = False
    cancelled_at: int = 0
    ended: str = ""
    """"s", "f", "c" or "n"; after "c", the number of the job that failed, if a failure was the cause."""

    @property
    def before(self) -> frozenset[int]:
        """All jobs that it waits for."""
        return self.parents | self.causes

    @property
    def id(self) -> str:
        return f"{self.flow.name}.{self.number:05}" + "u" * self.compensation


@dataclass
class ModelFlow:
    """A flow. `now` is the time (ms) of the next event."""

    name: str
    jobs: dict[int, ModelJob] = field(default_factory=dict)
    state: str = "running"
    now: int = 0
    ended_at: int = 0
    failure: int = 0
    stopped: bool = False
    undoing: bool = False
    stack: list[int] = field(default_factory=list)
    compensations: list[ModelJob] = field(default_factory=list)
    compensated: int = 0
    uncompensated: int = 0
    todo: deque[int] = field(default_factory=deque)

    def count(self, letter: str) -> int:
        return sum(job.ended[:1] == letter for job in self.jobs.values())

    def begin(self) -> None:
        for job in self.jobs.values():
            if not job.before:
                self._release(job)

    def end(self, job: ModelJob, letter: str, cause: str = "") -> None:
        """End a job. `carry_on` then handles its children."""
        job.place = ENDINGS[letter]
        if letter == "c":
            job.cancelled_at = self.now
        if job.compensation:
            if job is self.compensations[-1] and self.state == "compensating" and not job.ended:
                self.compensated += letter == "s"
                self.uncompensated += letter != "s"
                self._undo_next()
            job.ended = job.ended or letter
            return
        if job.ended:
            return
        job.ended = letter + cause
        if letter == "s":
            if job.undo:
                self.stack.append(job.number)
        elif letter != "n" and not cause:
            if job.policy != "ignore" and not self.failure:
                self.failure = job.number
            self.undoing |= job.policy == "compensate"
        self.todo.append(job.number)

    def cancel(self) -> list[ModelJob]:
        """Cancel all jobs that have not ended; return the running ones."""
        self.stopped = True
        for job in self.jobs.values():
            if not job.ended and job.place != "running":
                self.end(job, "c")
        return [job for job in self.jobs.values() if not job.ended]

    def carry_on(self) -> None:
        while self.todo:
            number = self.todo.popleft()
            parent = self.jobs[number]
            passes = not self.stopped and (parent.ended == "s" or parent.policy == "ignore")
            cause = "" if self.stopped else parent.ended[1:] or str(number)
            for job in self.jobs.values():
                if number not in job.before or job.place != "blocked":
                    continue
                job.caused |= number in job.causes and self.has_failed(number)
                if number in job.parents and not passes:
                    self.end(job, "n" if parent.ended == "n" else "c", "" if parent.ended == "n" else cause)
                elif number in job.causes and not job.caused and self._all_ended(job.causes):
                    self.end(job, "n")
                elif self._all_ended(job.before):
                    self._release(job)
        if self.state == "running" and all(job.ended for job in self.jobs.values()):
            self.state = "compensating"
            if not self.undoing:
                self.stack.clear()
            self._undo_next()

    def has_failed(self, number: int) -> bool:
        """Return True if a job is dead, or was cancelled because another is."""
        ended = self.jobs[number].ended
        return ended == "f" or (len(ended) > 1 and self.jobs[int(ended[1:])].ended == "f")

    def _all_ended(self, numbers: frozenset[int]) -> bool:
        return all(self.jobs[number].ended and number not in self.todo for number in numbers)

    def _release(self, job: ModelJob) -> None:
        job.place, job.due = "scheduled", self.now + job.delay

    def _undo_next(self) -> None:
        if self.stack:
            job = ModelJob(self, self.stack.pop(), compensation=True, place="scheduled", due=self.now)
            self.compensations.append(job)
        else:
            self.state, self.ended_at = "ended", self.now
