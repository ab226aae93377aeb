"""Unique names in plain Python: the owner of each name, and the result of each call."""

from __future__ import annotations

from dataclasses import dataclass

from lockwork.protocol.queue.unique import Arrived, Terms


@dataclass
class UniqueJob:
    """A job with a unique name, and its place."""

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
        """Return True if the job has expired and will never run."""
        return self.place == "waits" and self.expires is not None and self.expires <= now


class UniqueModel:
    """The state that the server should have; times in ms."""

    def __init__(self) -> None:
        self.jobs: dict[str, UniqueJob] = {}
        self.names: dict[str, tuple[str, int | None]] = {}
        """Names taken until their job starts or ends: the job's id, and its latest due time if it is debounced."""
        self.times: dict[str, tuple[str, int]] = {}
        """Names taken for a period: the job's id, and the end of the period."""

    def known_holder(self, name: str) -> str | None:
        """Return the id of the job that owns the name, unless its record is lost."""
        id = self.names.get(name, ("", None))[0]
        return id if id and self.jobs[id].place != "lost" else None

    def holder(self, name: str, now: int) -> tuple[str, int | None] | None:
        """Return the id of the job that a call with this name meets now, and its latest due time."""
        id = self.known_holder(name)
        if id and not self.jobs[id].overdue(now):
            return self.names[name]
        id, until = self.times.get(name, ("", 0))
        return (id, None) if until > now else None

    def free(self, id: str) -> None:
        """Free the name of a job, if the job owns it."""
        name = self.jobs[id].name
        if self.names.get(name, ("", None))[0] == id:
            del self.names[name]

    def end(self, id: str, place: str) -> None:
        """End a job at this place, and free its name."""
        self.jobs[id].place = place
        self.jobs[id].asked = False
        self.free(id)

    def take_again(self, id: str) -> bool:
        """Let a rerun job take its name again; return False if another job owns it."""
        job = self.jobs[id]
        if isinstance(job.until, int):
            return True
        if self.known_holder(job.name) not in (None, id):
            return False
        self.names[job.name] = (id, None)
        return True

    def arrive(self, id: str, job: UniqueJob, terms: Terms, now: int, *, delayed: bool) -> Arrived:
        """Enqueue a job in the model, and return the expected result."""
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
