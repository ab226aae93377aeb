"""Unique names as plain Python: which job has which, and what becomes of a call."""

from __future__ import annotations

from dataclasses import dataclass

from lockwork.protocol.queue.unique import Arrived, Terms


@dataclass
class UniqueJob:
    """A job that has a name, and where it is."""

    name: str
    until: str | int
    key: str
    record: bytes
    due: int
    expires: int | None
    place: str = "waits"
    tries: int = 0
    crashes: int = 0
    noted: bool = False
    asked: bool = False
    died: int = 0

    def overdue(self, now: int) -> bool:
        """Whether it will never run."""
        return self.place == "waits" and self.expires is not None and self.expires <= now


class UniqueModel:
    """What the server should know; times in ms."""

    def __init__(self) -> None:
        self.jobs: dict[str, UniqueJob] = {}
        self.names: dict[str, tuple[str, int | None]] = {}
        """Names that are taken until their jobs begin or end: the job, and when it is due at the latest."""
        self.times: dict[str, tuple[str, int]] = {}
        """Names that are taken until a time."""

    def known_holder(self, name: str) -> str | None:
        """The job whose name it is, unless its record is lost."""
        id = self.names.get(name, ("", None))[0]
        return id if id and self.jobs[id].place != "lost" else None

    def holder(self, name: str, now: int) -> tuple[str, int | None] | None:
        """The job that another call of the name meets, and when it is due at the latest."""
        id = self.known_holder(name)
        if id and not self.jobs[id].overdue(now):
            return self.names[name]
        id, until = self.times.get(name, ("", 0))
        return (id, None) if until > now else None

    def free(self, id: str) -> None:
        """The job does not need its name any more."""
        name = self.jobs[id].name
        if self.names.get(name, ("", None))[0] == id:
            del self.names[name]

    def end(self, id: str, place: str) -> None:
        """The job has come to its end, which is this one."""
        self.jobs[id].place = place
        self.jobs[id].asked = False
        self.free(id)

    def take_again(self, id: str) -> bool:
        """Whether a job that runs again may have its name again, which it then has."""
        job = self.jobs[id]
        if isinstance(job.until, int):
            return True
        if self.known_holder(job.name) not in (None, id):
            return False
        self.names[job.name] = (id, None)
        return True

    def arrive(self, id: str, job: UniqueJob, terms: Terms, now: int, *, delayed: bool) -> Arrived:
        """What becomes of a call."""
        holder = self.holder(job.name, now)
        if holder is None:
            self.jobs[id] = job
            if isinstance(terms.until, int):
                self.names.pop(job.name, None)
                self.times[job.name] = (id, now + terms.until)
            else:
                self.names[job.name] = (id, now + terms.longest_ms if terms.longest_ms else None)
            return Arrived(id, "new")
        met, latest = holder
        known = self.jobs[met]
        if terms.meaning == "keep" or known.place != "waits":
            return Arrived(met, "kept")
        known.record, known.key, known.until, known.expires = job.record, job.key, job.until, job.expires
        known.tries, known.crashes, known.noted = 0, 0, False
        if not delayed:
            return Arrived(met, "replaced")
        known.due = job.due if latest is None else max(now, min(job.due, latest))
        return Arrived(met, "moved")
