"""Jobs with a key or a group that are cancelled, rescheduled, revived or cleared while they wait."""

from __future__ import annotations

import hypothesis.strategies as st
from hypothesis.stateful import precondition, rule

from lockwork.protocol.queue import browse
from lockwork.protocol.queue import job_control as control
from queues.model.groups_machine import WINDOW_MS, GroupsMachine

_WAITING = ("scheduled", "ready", "waits for its key")


class MovedGroupsMachine(GroupsMachine):
    """Actions on single jobs with a key or a group; the job model covers plain jobs."""

    def _special(self, *places: str) -> list[str]:
        return sorted(id for id, job in self.jobs.items() if job.place in places and (job.key or job.group))

    def _leave(self, id: str, place: str) -> None:
        """Remove a job from its place; it gives up its key."""
        job = self.jobs[id]
        if self.holders.get(job.key) == id:
            self.end(id, place)
        job.place = place

    @precondition(lambda self: self._special(*_WAITING))
    @rule(data=st.data(), twice=st.booleans())
    def cancel(self, data: st.DataObject, twice: bool) -> None:
        id = data.draw(st.sampled_from(self._special(*_WAITING)))
        assert self.bench.run(control.cancel(self.queue, id, "sim", WINDOW_MS), twice=twice) == "cancelled"
        self._leave(id, "cancelled")

    @precondition(lambda self: self.leased)
    @rule(data=st.data())
    def ask(self, data: st.DataObject) -> None:
        """Cancel a running job: it ends after any outcome, and its key is then free."""
        id = data.draw(st.sampled_from(sorted(self.leased)))
        assert self.bench.run(control.cancel(self.queue, id, "sim", WINDOW_MS)) == "running"
        self.asked.add(id)

    @precondition(lambda self: self._special(*_WAITING))
    @rule(data=st.data(), wait=st.sampled_from([0, 0, 1500]))
    def move(self, data: st.DataObject, wait: int) -> None:
        id = data.draw(st.sampled_from(self._special(*_WAITING)))
        assert self.bench.run(control.reschedule(self.queue, id, wait)) == "scheduled"
        if wait or self.jobs[id].place == "scheduled":
            self._leave(id, "scheduled")
            self.jobs[id].due = self.ms + wait

    @precondition(lambda self: self._special("cancelled", "dead"))
    @rule(data=st.data())
    def revive(self, data: st.DataObject) -> None:
        id = data.draw(st.sampled_from(self._special("cancelled", "dead")))
        assert self.bench.run(control.revive(self.queue, id)) == "revived"
        job = self.jobs[id]
        job.place, job.due, job.tries, job.crashes = "scheduled", self.ms, 0, 0

    @rule(rarely=st.integers(0, 3))
    def clear(self, rarely: int) -> None:
        if rarely:
            return
        there = [id for id, job in self.jobs.items() if job.place in _WAITING]
        self.requests += 1
        assert self.bench.run(browse.clear(self.queue, f"c{self.requests}", WINDOW_MS)) == len(there)
        for id in there:
            self.jobs[id].place = "cleared"
        self.holders = {key: id for key, id in self.holders.items() if id in self.leased}

    @rule()
    def look(self) -> None:
        """Compare the place of each job with the server's."""
        states = {"scheduled": "scheduled", "ready": "active", "waits for its key": "active", "running": "active"}
        for id in self._special(*states):
            job = self.jobs[id]
            place = "ready" if job.place == "scheduled" and job.due <= self.ms else job.place
            assert self.bench.run(control.inspect(self.queue, id)).state == states[place]
            assert self.bench.run(control.find_place(self.queue, id)).state == place.replace(
                "waits for its key", "ready"
            )
