"""A plain Python model of unique jobs: the owner of each name, and the result of each duplicate call."""

from __future__ import annotations

import hypothesis.strategies as st
from hypothesis.stateful import precondition, rule

from lockwork.protocol.dead import dead
from lockwork.protocol.dead.dead import Filter
from lockwork.protocol.queue import browse, record_header, records
from lockwork.protocol.queue import job_control as control
from lockwork.protocol.queue import status as queue_status
from lockwork.protocol.queue.enqueue import NewJob
from lockwork.protocol.queue.unique import Terms, push_unique
from queues.model.unique_model import UniqueJob
from queues.model.unique_workers import DELIVERIES, WINDOW_MS, UniqueWorkers

_PAUSE = 1000
_TERMS = (
    Terms("done", "keep"),
    Terms("done", "keep"),
    Terms("start", "keep"),
    Terms("done", "replace"),
    Terms("start", "replace"),
    Terms("start", "debounce"),
    Terms("done", "debounce", 1500),
    Terms(2000, "keep"),
    Terms(2000, "replace"),
)
_KEYS = ["", "k", "k", "l"]
_REPLACING = [terms for terms in _TERMS if terms.meaning != "keep"]
_ENDED = ("dead", "cancelled", "expired")


class UniqueMachine(UniqueWorkers):
    """Producers and operators in addition to workers and the clock."""

    # -- producers --------------------------------------------------------------------------------------------------

    @rule(
        terms=st.sampled_from(_TERMS),
        calls=st.lists(st.tuples(st.sampled_from("aabc"), st.sampled_from(_KEYS)), min_size=1, max_size=3),
        delay=st.sampled_from([0, 0, 1500]),
        expires=st.sampled_from([None, None, 1200]),
        twice=st.booleans(),
    )
    def push(self, terms: Terms, calls: list[tuple[str, str]], delay: int, expires: int | None, *, twice: bool) -> None:
        self._push(terms, calls, delay, expires, twice=twice)

    def _push(
        self, terms: Terms, calls: list[tuple[str, str]], delay: int, expires: int | None, *, twice: bool
    ) -> None:
        wait = _PAUSE if terms.meaning == "debounce" else delay
        batch = []
        for name, key in calls:
            id = f"j{self._request()}"
            head = record_header.head(1, DELIVERIES, key, unique=terms.mark(f"task/{name}"))
            batch.append(NewJob(id, head + id.encode(), wait))
        found = self.bench.run(push_unique(self.queue, batch, terms, expires), twice=twice)
        ends = None if expires is None else self.ms + expires
        expected = [
            self.model.arrive(
                new.id,
                UniqueJob(name, terms.until, key, new.record, self.ms + wait, ends),
                terms,
                self.ms,
                delayed=wait > 0,
            )
            for new, (name, key) in zip(batch, calls, strict=True)
        ]
        assert found == expected
        taken = self.bench.hash(self.queue.unique)
        assert all(int(value.split()[1]) > self.ms for value in taken.values()), "what is over is swept away"
        self.compare()

    @precondition(lambda self: self._at("waits", "dead"))
    @rule(
        data=st.data(), terms=st.sampled_from(_REPLACING), key=st.sampled_from(_KEYS), delay=st.sampled_from([0, 1500])
    )
    def push_again(self, data: st.DataObject, terms: Terms, key: str, delay: int) -> None:
        """Enqueue with the name of a waiting or dead job."""
        name = self.jobs[data.draw(st.sampled_from(self._at("waits", "dead")))].name
        self._push(terms, [(name, key)], delay, None, twice=False)

    @precondition(lambda self: self.jobs)
    @rule(data=st.data(), twice=st.booleans())
    def cancel(self, data: st.DataObject, *, twice: bool) -> None:
        id = data.draw(st.sampled_from(self._at("waits", "running", *_ENDED) or ["none"]))
        found = self.bench.run(control.cancel(self.queue, id, "sim", WINDOW_MS), twice=twice)
        if id == "none":
            assert found == "unknown"
        elif self.jobs[id].place == "waits":
            assert found == "cancelled"
            self.jobs[id].noted, self.jobs[id].expires = False, None
            self.model.end(id, "cancelled")
        elif self.jobs[id].place == "running":
            assert found == "running"
            self.jobs[id].asked = True

    @precondition(lambda self: self._at("waits"))
    @rule(data=st.data(), wait=st.sampled_from([0, 1500]))
    def move(self, data: st.DataObject, wait: int) -> None:
        id = data.draw(st.sampled_from(self._at("waits")))
        assert self.bench.run(control.reschedule(self.queue, id, wait)) == "scheduled"
        if wait or self.jobs[id].due > self.ms:
            self.jobs[id].due = self.ms + wait

    @precondition(lambda self: any(self.jobs[id].until == "done" for id in self.leased))
    @rule(data=st.data(), terms=st.sampled_from(_REPLACING), key=st.sampled_from(_KEYS))
    def fail_and_be_replaced(self, data: st.DataObject, terms: Terms, key: str) -> None:
        """A job with finished steps fails, and a new call replaces it before its retry."""
        self.finish_steps()
        id = data.draw(st.sampled_from(sorted(id for id in self.leased if self.jobs[id].until == "done")))
        self._settle(id, "r", 1500, twice=False)
        self._push(terms, [(self.jobs[id].name, key)], 0, None, twice=False)

    # -- operators --------------------------------------------------------------------------------------------------

    @precondition(lambda self: self._at(*_ENDED))
    @rule(data=st.data(), wait=st.sampled_from([0, 1500]), twice=st.booleans())
    def revive(self, data: st.DataObject, wait: int, *, twice: bool) -> None:
        id = data.draw(st.sampled_from(self._at(*_ENDED)))
        found = self.bench.run(control.revive(self.queue, id, wait), twice=twice)
        if not self.model.take_again(id):
            assert found == "taken"
            return
        assert found == "revived"
        job = self.jobs[id]
        job.noted = job.noted and job.place == "dead"
        job.place, job.due, job.tries, job.crashes, job.expires = "waits", self.ms + wait, 0, 0, None

    @precondition(lambda self: self._at("dead"))
    @rule(anew=st.booleans())
    def retry_the_dead(self, *, anew: bool) -> None:
        moved = self.bench.run(dead.retry(self.queue, Filter(), self._request(), None, anew=anew))
        again = [
            id for _, id in sorted((self.jobs[id].died, id) for id in self._at("dead")) if self.model.take_again(id)
        ]
        assert moved == len(again)
        for id in again:
            job = self.jobs[id]
            job.place, job.due, job.expires = "waits", self.ms, None
            if anew:
                job.tries = job.crashes = 0
        self.compare()

    @precondition(lambda self: self._at("dead"))
    @rule(data=st.data(), rarely=st.integers(0, 3))
    def delete(self, data: st.DataObject, rarely: int) -> None:
        if rarely:
            return
        id = data.draw(st.sampled_from(self._at("dead")))
        assert self.bench.run(dead.delete_one(self.queue, id, self._request()))
        self.jobs[id].place = "deleted"

    @rule(rarely=st.integers(0, 3))
    def clear(self, rarely: int) -> None:
        if not rarely:
            waits = self._at("waits")
            assert self.bench.run(browse.clear(self.queue, self._request(), WINDOW_MS)) == len(waits)
            for id in waits:
                self.model.end(id, "cleared")

    @precondition(lambda self: any(not self.jobs[id].key for id in self._at("waits")))
    @rule(data=st.data(), rarely=st.integers(0, 2))
    def lose(self, data: st.DataObject, rarely: int) -> None:
        """Delete a job's record directly on the server."""
        if not rarely:
            id = data.draw(st.sampled_from([id for id in self._at("waits") if not self.jobs[id].key]))
            self.bench.lose_field(self.queue.jobs, id)
            self.jobs[id].place = "lost"

    # -- invariants ---------------------------------------------------------------------------------------------------

    @rule()
    def compare(self) -> None:
        """Check the owner of each unique name, and that no name without an owner is stored."""
        books = self.bench.hash(self.queue.groups)
        owners = {name[2:]: value.split()[0] for name, value in books.items() if name.startswith("u ")}
        assert owners == {f"task/{name}": id for name, (id, _) in self.model.names.items()}
        times = self.bench.hash(self.queue.unique)
        for name, (id, until) in self.model.times.items():
            assert until <= self.ms or times[f"task/{name}"] == f"{id} {until}"
        alive = self._at("waits", "running", "dead")
        assert self.bench.fields(self.queue.jobs) == set(alive)
        noted = {id for id in alive if self.jobs[id].noted or self.jobs[id].asked}
        assert self.bench.fields(self.queue.job_notes) - set(self._at("lost")) == noted, "steps are a call's own"
        tries = self.bench.hash(self.queue.tries)
        due = self.bench.scores(self.queue.due)
        for id in self._at("waits"):
            job = self.jobs[id]
            counts = records.counts(tries.get(id, "0").encode())
            assert counts == (job.tries, job.crashes, 0), "attempts are a call's own"
            assert job.due <= self.ms or (due.get(id) == job.due and f"@ {id}" not in books), "it waits in one place"
        status, _ = self.bench.run(queue_status.status(self.queue))
        assert (status.running, status.dead) == (len(self.leased), len(self._at("dead")))
