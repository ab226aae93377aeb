"""The queue's machine with actions on one job: cancel, reschedule, expire, revive and snooze.

The model has each job's place and notes, and the delivery that may write them.
"""

from __future__ import annotations

import hypothesis.strategies as st
from hypothesis.stateful import precondition, rule

from lockwork.protocol.queue import enqueue, leases, record_header
from lockwork.protocol.queue import job_control as control
from lockwork.protocol.queue.enqueue import NewJob
from lockwork.protocol.queue.job_control import Note
from lockwork.protocol.queue.leases import Leased, Outcome
from models.bench import Bench
from queues.model.queue_machine import BODY, DELIVERIES, SESSIONS, VOID, WINDOW_MS, ModelJob, QueueMachine

_CAP = 1000


class JobMachine(QueueMachine):
    """The rules of the queue, and actions on a single job."""

    def __init__(self, bench: Bench) -> None:
        super().__init__(bench)
        self.counts |= dict.fromkeys(["cancelled", "expired", "revived"], 0)
        self.sent: list[tuple[NewJob, int]] = []
        """Jobs enqueued with an expiry. A late copy of their call may arrive."""

    @rule(session=st.sampled_from(SESSIONS), count=st.integers(1, 3))
    def work(self, session: str, count: int) -> None:
        """Push jobs and lease some, so that enough jobs run."""
        self.beat(session, joins=True)
        self.push([(1, 0)] * count, known=False, twice=False)
        self.reserve(session, 4, twice=False)

    @precondition(lambda self: self.leased)
    @rule(data=st.data(), kind=st.sampled_from("rd"), asked=st.booleans())
    def fail(self, data: st.DataObject, kind: str, asked: bool) -> None:
        """A job fails, some after a cancellation request."""
        id = data.draw(st.sampled_from(sorted(self.leased)))
        session, leased = self.leased[id]
        if asked:
            assert self.bench.run(control.cancel(self.queue, id, "sim", WINDOW_MS)) == "running"
            self.jobs[id].asked = True
        ended = Outcome(id, leased.token, kind, self.value(id), 0)  # type: ignore[arg-type]
        assert self.bench.run(leases.settle(self.queue, session, [ended], WINDOW_MS)) == [True]
        self.ended(id, kind, 0)
        self._see(id)

    # -- calls from outside of the job ------------------------------------------------------------------------------

    @rule(level=st.integers(0, 2), limit=st.sampled_from([1, 800, 4000]), delay=st.sampled_from([0, 0, 1500]),
          absolute=st.booleans(), twice=st.booleans())  # fmt: skip
    def push_until(self, level: int, limit: int, delay: int, *, absolute: bool, twice: bool) -> None:
        """Enqueue a job that expires; `absolute` sends delay and limit as points in time."""
        self.bench.now += 1
        id = f"j{len(self.jobs):03}"
        due, ends = (-(self.ms + delay), -(self.ms + limit)) if absolute else (delay, limit)
        due = due if delay else 0
        new = NewJob(id, record_header.head(level, DELIVERIES) + BODY, due)
        self.bench.now -= 1
        assert self.bench.run(enqueue.push(self.queue, [new], expires_ms=ends), twice=twice) == (0 if twice else 1)
        self.sent.append((new, ends))
        self.jobs[id] = ModelJob(level, expires=self.ms + limit)
        if delay:
            self.jobs[id].place, self.jobs[id].due = "scheduled", self.ms + delay
        else:
            self.ready[level].append(id)

    @precondition(lambda self: self.sent)
    @rule(data=st.data())
    def send_again(self, data: st.DataObject) -> None:
        new, ends = data.draw(st.sampled_from(self.sent[-4:]))
        assert self.bench.run(enqueue.push(self.queue, [new], expires_ms=ends), again=True) == 0
        self._see(new.id)

    @precondition(lambda self: self.jobs)
    @rule(data=st.data(), twice=st.booleans())
    def cancel(self, data: st.DataObject, *, twice: bool) -> None:
        id, job = self._draw(data, "running")
        self.bench.messages.clear()
        found = self.bench.run(control.cancel(self.queue, id, "sim", WINDOW_MS), twice=twice)
        if job.place == "running":
            assert found == "running"
            job.asked = True
        elif job.place in ("ready", "suspect", "scheduled"):
            assert found == "cancelled"
            self._take_out(id, "cancelled")
        else:
            assert found == ("cancelled" if job.place == "cancelled" else "ended")
        self._see(id)

    @precondition(lambda self: self.jobs)
    @rule(data=st.data(), wait=st.sampled_from([0, 0, 1, 1500]), absolute=st.booleans())
    def reschedule(self, data: st.DataObject, wait: int, *, absolute: bool) -> None:
        id, job = self._draw(data, "ready", "scheduled")
        asked = -(self.ms + wait) if absolute and wait else wait
        before = self.ms
        found = self.bench.run(control.reschedule(self.queue, id, asked))
        due = (before if absolute and wait else self.ms) + wait
        if job.place == "running":
            assert found == "running"
        elif job.place not in ("ready", "suspect", "scheduled"):
            assert found == "ended"
        else:
            assert found == "scheduled"
            if wait:
                self._leave_line(id)
                job.place, job.due = "scheduled", due
            elif job.place == "scheduled":
                self._line_up(id)

    @precondition(lambda self: self.jobs)
    @rule(data=st.data(), wait=st.sampled_from([0, 0, 1500]), twice=st.booleans())
    def revive(self, data: st.DataObject, wait: int, *, twice: bool) -> None:
        id, _ = self._draw(data, "dead", "cancelled", "expired")
        self._revive(id, wait, twice=twice)

    def _revive(self, id: str, wait: int, *, twice: bool) -> None:
        job = self.jobs[id]
        found = self.bench.run(control.revive(self.queue, id, wait), twice=twice)
        if job.place not in ("dead", "cancelled", "expired"):
            assert found == ("revived" if twice else "succeeded" if job.place == "succeeded" else "waiting")
            return
        assert found == "revived"
        if job.place != "dead":
            job.steps, job.said = {}, ""
        job.tries, job.crashes, job.expires = 0, 0, None
        self.counts["revived"] += 1
        if wait:
            job.place, job.due = "scheduled", self.ms + wait
        else:
            self._line_up(id)
        self._see(id)

    @rule()
    def look(self) -> None:
        for id in self.jobs:
            self._see(id)

    def _see(self, id: str) -> None:
        job = self.jobs[id]
        found = self.bench.run(control.inspect(self.queue, id, "", WINDOW_MS))
        if self._overdue(job):
            self._expire()
        state = {"ready": "active", "running": "active", "scheduled": "scheduled", "dead": "dead"}
        assert found.state == state.get(self.seen_place(job), "ended")
        if job.place != "succeeded":
            assert found.attempts == job.tries
        assert found.note.progress == job.said
        if job.place in ("cancelled", "expired"):
            assert found.record.endswith(BODY), "it can be run after all"
        else:
            assert found.note.steps == job.steps
        assert found.suspect == (job.place == "suspect")
        if job.place in ("ready", "scheduled", "running"):
            assert found.expires == (None if job.place == "running" else job.expires)

    # -- calls of the running job -------------------------------------------------------------------------------------

    @precondition(lambda self: self.old)
    @rule(data=st.data(), name=st.sampled_from(["", "one", "two"]), value=st.integers(0, 9), twice=st.booleans())
    def write_down(self, data: st.DataObject, name: str, value: int, *, twice: bool) -> None:
        session, leased = data.draw(st.sampled_from(self.old[-6:] + 3 * list(self.leased.values())))
        self._write(session, leased, name, value, twice=twice)

    def _write(self, session: str, leased: Leased, name: str, value: int, *, twice: bool) -> None:
        current = self.leased.get(leased.id) == (session, leased)
        done = self.bench.run(control.note(self.queue, session, leased, name, str(value).encode(), _CAP), twice=twice)
        assert done == current, "only the current delivery writes"
        if current and name:
            self.jobs[leased.id].steps[name] = str(value)
        elif current:
            self.jobs[leased.id].said = str(value)

    @precondition(lambda self: self.leased)
    @rule(delay=st.sampled_from([0, 1500]), data=st.data(), kind=st.sampled_from("zcn"))
    def snooze(self, data: st.DataObject, delay: int, kind: str) -> None:
        """Snooze a job, return it before it started, or report it as cancelled."""
        self._snooze(data.draw(st.sampled_from(sorted(self.leased))), delay, kind)

    def _snooze(self, id: str, delay: int, kind: str) -> None:
        session, leased = self.leased[id]
        ended = Outcome(id, leased.token, kind, b"", delay)  # type: ignore[arg-type]
        assert self.bench.run(leases.settle(self.queue, session, [ended], WINDOW_MS)) == [True]
        del self.leased[id]
        job = self.jobs[id]
        if kind == "c" or job.asked:
            self._cancelled_running(id)
        elif kind == "n" and leased.token.split()[2].startswith(leases.ALONE.encode()):
            job.place, job.suspected, job.expires = "suspect", 0, job.expired_unbegun
        elif kind == "n":
            job.place, job.expires = "ready", job.expired_unbegun
            self.ready[job.level].insert(0, id)
        else:
            job.place, job.due = "scheduled", self.ms + delay

    @precondition(lambda self: self.leased)
    @rule(data=st.data())
    def start_over(self, data: st.DataObject) -> None:
        """Cancel a running job, and rerun it."""
        id = data.draw(st.sampled_from(sorted(self.leased)))
        self._write(*self.leased[id], "", 7, twice=False)
        self._snooze(id, 0, "c")
        self._revive(id, 0, twice=False)

    @precondition(lambda self: self.leased)
    @rule(data=st.data())
    def ask(self, data: st.DataObject) -> None:
        """A worker reads the cancellation requests of its jobs."""
        session = data.draw(st.sampled_from(sorted({holder for holder, _ in self.leased.values()})))
        held = [job for holder, job in self.leased.values() if holder == session]
        found = self.bench.run(control.asked(self.queue, session, held))
        assert found == {job.id for job in held if self.jobs[job.id].asked}

    # -- hooks of the queue's rules -----------------------------------------------------------------------------------

    def before_reserve(self) -> None:
        self._expire()

    def leased_now(self, job: Leased) -> None:
        known = self.jobs[job.id]
        known.expired_unbegun, known.expires = known.expires, None
        assert Note.read(job.note).steps == known.steps, "a job knows its finished steps"

    def line_up(self, id: str) -> None:
        self._line_up(id)

    def settled(self, id: str, kind: str) -> bool:
        job = self.jobs[id]
        if kind == "s":
            job.steps = {}
        elif job.asked:
            self._cancelled_running(id)
            return True
        return False

    def recovered(self, id: str) -> bool:
        if not self.jobs[id].asked:
            return False
        self.counts["recovered"] += 1
        self._cancelled_running(id)
        return True

    def _cancelled_running(self, id: str) -> None:
        job = self.jobs[id]
        job.tries += 1
        job.place, job.asked, job.steps = "cancelled", False, {}
        self.counts["cancelled"] += 1

    def _expire(self) -> None:
        for id, job in self.jobs.items():
            if self._overdue(job):
                self._take_out(id, "expired")

    def _overdue(self, job: ModelJob) -> bool:
        return job.place in ("ready", "scheduled") and job.expires is not None and job.expires <= self.ms

    def _take_out(self, id: str, place: str) -> None:
        self._leave_line(id)
        job = self.jobs[id]
        job.place, job.steps, job.said, job.expires = place, {}, "", None
        self.counts[place] += 1

    def _leave_line(self, id: str) -> None:
        line = self.ready[self.jobs[id].level]
        if id in line:  # its position stays in the list, and the job returns to it when it is ready again
            line[line.index(id)] = VOID + id

    def _line_up(self, id: str) -> None:
        job = self.jobs[id]
        job.place = "ready"
        line = self.ready[job.level]
        if VOID + id in line:
            line[line.index(VOID + id)] = id
        else:
            line.append(id)

    def _draw(self, data: st.DataObject, *rather: str) -> tuple[str, ModelJob]:
        """Draw any job; jobs in these places are more likely."""
        known = sorted(self.jobs)[-8:]
        id = data.draw(st.sampled_from(known + 4 * [id for id in known if self.jobs[id].place in rather]))
        return id, self.jobs[id]
