"""A plain Python model of a queue's lock whose release enqueues a job: both happen once, or neither."""

from __future__ import annotations

import hypothesis.strategies as st
from hypothesis.stateful import precondition, rule

from locks.model.lock_machine import LockMachine, _Grant
from lockwork.protocol.effects import Call
from lockwork.protocol.keys import QueueKeys
from lockwork.protocol.locks.grants import Renewal
from lockwork.protocol.queue import leases, record_header
from lockwork.protocol.queue import status as queue_status
from lockwork.protocol.queue.enqueue import NewJob, release_and_push
from lockwork.protocol.queue.leases import Outcome
from models.bench import Bench

_QUEUE = QueueKeys("sim", "q")
_SESSION = "host/1/a"
_LEASE_MS = 3_600_000
_RECORD = record_header.head(1, 3) + b'["work",[1]]'


class LockJobsMachine(LockMachine):
    """The rules of a lock that belongs to a queue, and of that queue's jobs."""

    key = _QUEUE.lock("a")

    def __init__(self, bench: Bench) -> None:
        super().__init__(bench)
        self.sent: list[tuple[Call, bool]] = []
        """Release calls, each with True if it released the lock."""
        self.enqueued = self.done = 0
        bench.run(leases.beat(_QUEUE, {_SESSION: True}, _LEASE_MS, 1.0))

    @rule(
        owner=st.sampled_from(["ann", "bob", "eve", "joe"]),
        data=st.data(),
        keep=st.sampled_from([0, 0, 2000]),
        twice=st.booleans(),
    )
    def release_with_a_job(self, owner: str, data: st.DataObject, keep: int, twice: bool) -> None:
        """Release a current or ended grant with a job, with the right owner or another one."""
        fence = data.draw(st.sampled_from([fence for _, fence in self.old[-5:]] or [1]))
        mine = self.grant is not None and (self.grant.owner, self.grant.fence) == (owner, fence)
        self.bench.messages.clear()
        job = NewJob(f"j{len(self.sent)}", _RECORD)
        release = release_and_push(_QUEUE, Renewal(self.key, owner, fence, 1), keep, job)
        call = next(release)
        assert isinstance(call, Call)
        released = bool(self.bench.call(call))
        grant = self.grant
        assert released == (mine and grant is not None and grant.ends > self.bench.now), "only the owner, and in time"
        if mine:
            self.requests[owner] += 1
            if released and keep:
                self.grant = _Grant("", fence, self.bench.now + keep * 1000)
            else:
                self._pass()
        self.enqueued += released
        self.sent.append((call, released))
        if twice:
            assert bool(self.bench.call(call.again(), later=0)) == released, "sent again, it says the same"

    @precondition(lambda self: self.sent)
    @rule(data=st.data())
    def send_again(self, data: st.DataObject) -> None:
        """Repeat a release whose reply was lost, after other calls."""
        call, released = data.draw(st.sampled_from(self.sent[-4:]))
        if not released and self.grant is not None and not self._live():
            return  # the call would end an expired grant, and the other rules check that
        assert bool(self.bench.call(call.again())) == released, "sent again, it says the same, and does nothing"

    @rule()
    def work(self) -> None:
        """A worker runs one job to success."""
        batch = self.bench.run(leases.reserve(_QUEUE, _SESSION, 1, f"q{self.bench.now}", ""))
        assert len(batch.jobs) == min(1, self.enqueued - self.done)
        for job in batch.jobs:
            settled = self.bench.run(leases.settle(_QUEUE, _SESSION, [Outcome(job.id, job.token, "s")], _LEASE_MS))
            assert settled == [True]
            self.done += 1

    @rule()
    def count(self) -> None:
        status, _ = self.bench.run(queue_status.status(_QUEUE))
        assert (status.enqueued, status.ready) == (self.enqueued, self.enqueued - self.done), "a job per release"
