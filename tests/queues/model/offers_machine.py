"""A plain Python model of offers: plain jobs that the server sends to idle workers along with their wake-ups.

Two apps enqueue. Each guesses the idle worker from the server's last reply. Two of the three workers have a live
process. A message may arrive, get lost, or arrive after its job was leased by asking.
"""

from __future__ import annotations

import re
from collections import Counter

import hypothesis.strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

from lockwork.protocol.effects import Clock, Park
from lockwork.protocol.keys import QueueKeys, channel
from lockwork.protocol.messages import Hints
from lockwork.protocol.queue import enqueue, leases, record_header, sessions
from lockwork.protocol.queue import job_control as control
from lockwork.protocol.queue import limits as queue_limits
from lockwork.protocol.queue.enqueue import NewJob
from lockwork.protocol.queue.leases import Batch, Leased, Outcome, SessionOver
from models.bench import Bench

_SESSIONS = ["host/1/a", "host/2/b", "host/3/deaf"]
_LEASE_MS = 5000
_WINDOW_MS = 3_600_000
_BODY = b'["work",[1]]'
_LARGE = 20_000
_GONE = 60_000_000
"""Age (us) of a sleep whose worker should have asked again; the server then drops the worker."""
_RULES: dict[str, tuple[str | int, ...]] = {"paused": (1, ""), "concurrency": (1, ""), "rate": ("5/1000", "")}


def _read(queue: QueueKeys, batch: Batch, text: str) -> Leased | None:
    """Return the job that an idle worker, asleep since this batch, reads from a message."""
    sleeping = leases.idle(queue, batch, Hints())
    assert isinstance(next(sleeping), Clock)
    effect = sleeping.send(0.0)
    assert isinstance(effect, Park)
    try:
        effect = sleeping.send(text)
        assert isinstance(effect, Clock)
        sleeping.send(0.0)
    except StopIteration as done:
        found: Leased | None = done.value
        return found
    raise AssertionError("it goes on sleeping")


class Offers(RuleBasedStateMachine):
    """Apps, workers and a clock."""

    def __init__(self, bench: Bench) -> None:
        super().__init__()
        self.bench = bench
        self.queue = QueueKeys("sim", "q")
        self.apps = [QueueKeys("sim", "q") for _ in range(2)]
        self.count = 0
        self.requests = 0
        self.ready: list[str] = []
        self.asleep: list[str] = []
        """Idle sessions; the session that has slept longest is first."""
        self.since: dict[str, int] = {}
        self.offered: dict[str, str] = {}
        """Jobs offered to sessions that have not received the message."""
        self.marks: list[str] = []
        """Sessions that were offered a job and have not asked since, with or without the message; the oldest first."""
        self.held: dict[str, tuple[str, Leased]] = {}
        self.last = dict.fromkeys(_SESSIONS, 0)
        self.fence = 0
        self.slept: dict[str, Batch] = {}
        """Reply to each sleeping session that still waits for a message."""
        self.said: dict[str, str] = {}
        """The newest message with a job to each session."""
        self.cancelled: set[str] = set()
        """Jobs that a worker held when they were cancelled."""
        self.crashes: Counter[str] = Counter()
        """Number of workers that died with each job."""
        self.alive: dict[str, int] = {}
        self.in_force: set[str] = set()
        for session in _SESSIONS:
            self.beat(session)
            if "deaf" not in session:
                bench.hear(channel("sim", session))

    @rule(session=st.sampled_from(_SESSIONS))
    def beat(self, session: str) -> None:
        self.bench.run(leases.beat(self.queue, {session: True}, _LEASE_MS, 1.0))
        self.alive[session] = self.bench.now // 1000 + _LEASE_MS

    @rule(ms=st.sampled_from([1, 100, 1200, 6000, 70_000, -3000]))
    def wait(self, ms: int) -> None:
        self.bench.now += ms * 1000

    @rule(name=st.sampled_from(list(_RULES)), on=st.booleans())
    def set(self, name: str, on: bool) -> None:
        if on:
            self.in_force.add(name)
        else:
            self.in_force.discard(name)
        self.bench.messages.clear()
        self.bench.run(queue_limits.change(self.queue, {name: _RULES[name][0 if on else 1]}))
        woken = [] if "paused" in self.in_force else [each for each in self.asleep if "deaf" not in each]
        self._told(woken)
        if "paused" not in self.in_force:
            self.asleep.clear()

    @rule(session=st.sampled_from(_SESSIONS))
    def sleep(self, session: str) -> None:
        """Ask for jobs although there may be none."""
        self.ask(session, 1)

    @rule(session=st.sampled_from(_SESSIONS), want=st.integers(1, 2))
    def ask(self, session: str, want: int, twice: bool = False) -> None:
        self.requests += 1
        asked = leases.reserve(
            self.queue, session, want, f"{self.requests:x}", channel("sim", session), last=self.last[session]
        )
        try:
            batch = self.bench.run(asked, twice=twice)
        except SessionOver:
            return
        self._awake(session)
        self.slept.pop(session, None)
        offered = self.offered.pop(session, None)
        found = [job.id for job in batch.jobs]
        if offered is not None:
            assert found == [offered], "what was offered, and not heard of, is the answer"
        else:
            room = self._room(want)
            assert len(found) <= room
            assert found == self.ready[: len(found)], "first come, first served"
            assert "rate" in self.in_force or len(found) == min(room, len(self.ready))
            self.ready = self.ready[len(found) :]
        for job in batch.jobs:
            self._take(session, job)
        if not found:
            self.slept[session] = batch
            self.asleep.append(session)
            # if the rate is used up, the server sorts the worker by the time that it named; the limits model checks
            # that time
            rated = "rate" in self.in_force
            self.since[session] = self._scores()[session] if rated else self.bench.now
            self.asleep = [each for each in self.asleep if self.since[each] > self.bench.now - _GONE]
            self.asleep.sort(key=lambda each: (self.since[each], each))  # the clock may have been set back

    @rule(session=st.sampled_from(_SESSIONS))
    def ask_twice(self, session: str) -> None:
        """Ask, and repeat the call as if the first reply had been lost."""
        self.ask(session, 2, twice=True)

    @rule(app=st.integers(0, 1), guess=st.sampled_from(["", *_SESSIONS]), large=st.integers(0, 6))
    def push(self, app: int, guess: str, large: int) -> None:
        """Enqueue a job. guess: the idle worker that a reply once named to the app."""
        keys = self.apps[app]
        keys.sleeper = guess = channel("sim", guess) if guess else keys.sleeper
        id = f"j{self.count:03}"
        self.count += 1
        record = record_header.head(1, 3) + (_BODY if large else b"x" * _LARGE)
        taker = next((each for each in self.asleep if channel("sim", each) == guess), None)
        may = "rate" not in self.in_force and self._room(1) and not self.ready and large
        alive = taker is not None and self.alive.get(taker, 0) > self.bench.now // 1000
        self.bench.messages.clear()
        assert self.bench.run(enqueue.push(keys, [NewJob(id, record)])) == 1
        busy = any(holder == taker for holder, _ in self.held.values())
        if taker is not None and may and alive and not busy and "deaf" not in taker:
            self.asleep.remove(taker)
            self._offer(taker, id, record)
            return
        self.ready.append(id)
        woken = self._woken()
        self._told(woken)
        if self.asleep:
            assert keys.sleeper == channel("sim", self.asleep[0]), "who has slept longest is the next"
        elif woken:
            assert keys.sleeper == channel("sim", woken[0])

    def _awake(self, session: str) -> None:
        for those in (self.asleep, self.marks):
            if session in those:
                those.remove(session)

    def _offer(self, taker: str, id: str, record: bytes) -> None:
        self.offered[taker] = id
        self.marks.append(taker)
        ((to, text),) = self.bench.messages
        assert to == channel("sim", taker), "who is guessed to sleep is told"
        key, _, attempt, fence, mark, its, *body = text.split(" ", 6)
        assert (key, attempt, mark, its) == (self.queue.jobs, "1", "~", id)
        assert body == [record.decode()]
        assert int(fence) > self.fence, "fences rise"
        self.fence = int(fence)
        self.said[taker] = text.partition(" ")[2]

    def _woken(self) -> list[str]:
        """Return the worker that the server wakes for a job in the queue: the first live one."""
        if not self._room(1):
            return []
        if "rate" in self.in_force:
            # the server may wake no worker, or a later one, because the first would come too early: the limits model
            # checks this
            heard = [to.removeprefix("sim:wake:") for to, _ in self.bench.messages]
            assert {*heard} <= {*self.asleep}
            assert len(heard) <= 1
            self._look_who_sleeps()
            return heard
        while self.asleep:
            first = self.asleep.pop(0)
            if "deaf" not in first:
                return [first]
        return []

    @rule(session=st.sampled_from(_SESSIONS))
    def hear(self, session: str) -> None:
        """A waiting worker receives the newest message with a job. The fence shows whether the message is late."""
        if (text := self.said.get(session)) is None or session not in self.slept:
            return
        batch = self.slept.pop(session)
        heard = _read(self.queue, batch, text)
        if heard is None and int(text.split(" ")[2]) < batch.fence:
            return  # the message seems old; the worker gets the job when it asks
        offered = self.offered.pop(session, None)
        assert (heard and heard.id) == offered, "heard once, and not what was found by asking"
        if heard is not None:
            self._take(session, heard)

    @rule(session=st.sampled_from(_SESSIONS), of=st.sampled_from(_SESSIONS), data=st.data())
    def forge(self, session: str, of: str, data: st.DataObject) -> None:
        """A stranger sends a worker another worker's message, a changed message, or its own text."""
        if session not in self.slept:
            return
        said = self.said.get(of, "x")
        later = re.sub(r" [0-9]{16} ", f" {self.fence + 1000} ", said)
        texts = [
            later + "x",
            said[::-1],
            said.partition(" ")[2],
            later.partition(" ")[2],
            "x",
            *([said] * (of != session)),
        ]
        heard = _read(self.queue, self.slept[session], data.draw(st.sampled_from(texts)))
        assert heard is None, "nobody but the server hands jobs out"

    @rule(session=st.sampled_from(_SESSIONS), awake=st.booleans())
    def pass_on(self, session: str, awake: bool) -> None:
        self.bench.messages.clear()
        passing = sessions.forward_wakeup(
            self.queue, session, channel("sim", session), self.last[session], _WINDOW_MS, awake=awake
        )
        told = self.bench.run(passing)
        self.slept.pop(session, None)
        slept, marked = session in self.asleep, session in self.marks
        self._awake(session)
        if (offered := self.offered.pop(session, None)) is not None:
            self._back(offered)
        used = slept or (marked and offered is None)
        woken = [] if used and not awake else self._woken()
        assert told == bool(woken)
        self._told(woken)

    def _back(self, id: str) -> None:
        """Put a job that its worker did not start first in the queue. A cancelled job has ended instead."""
        if id not in self.cancelled:
            self.ready.insert(0, id)
            return
        assert any(self.bench.hash(results).get(id, "").startswith("c") for results in self.queue.results)

    @rule(data=st.data(), kind=st.sampled_from("sg"))
    def settle(self, data: st.DataObject, kind: str) -> None:
        if not self.held:
            return
        self._settle(data.draw(st.sampled_from(sorted(self.held))), kind)

    def _settle(self, id: str, kind: str) -> None:
        session, job = self.held.pop(id)
        outcome = Outcome(job.id, job.token, "s" if kind == "s" else "g")
        settled = self.bench.run(leases.settle(self.queue, session, [outcome], _WINDOW_MS))
        assert settled == [True], "who was given a job has its lease"
        if kind == "g":
            self._back(job.id)
        # the call wakes workers for free slots; the limits model checks which ones
        self._look_who_sleeps()

    @rule(session=st.sampled_from(_SESSIONS))
    def end(self, session: str, *, gone: bool = True) -> None:
        """A worker's process dies: its jobs, also an unread offer, return to the queue, and the delivery counts."""
        mine = {id for id, (holder, _) in self.held.items() if holder == session}
        offered = self.offered.pop(session, None)
        # a heartbeat that finds the session overdue passes the deadline that it read
        ended = int(self.bench.scores(self.queue.workers).get(session, 0))
        had = {*mine, *filter(None, [offered])}
        died = len(had) <= 1  # several jobs would become suspects, and suspects are not offered
        recovery = leases.recover(self.queue, session, _WINDOW_MS, gone=gone, counted=died, ended=ended)
        back = self.bench.run(recovery)
        # a worker that has not asked since its offer has not started the job, unless its process is known to be dead
        counted = had if died and (gone or session not in self.marks) else set()
        self.crashes.update(counted)
        buried = {id for id in counted if self.crashes[id] == record_header.MAX_CRASHES} - self.cancelled
        assert back == len(had - self.cancelled - buried)
        tries = self.bench.hash(self.queue.tries)
        for id in had - self.cancelled:
            assert tries.get(id, "0") == (f"{count}/{count}" if (count := self.crashes[id]) else "0")
        for id in mine:
            del self.held[id]
        self._awake(session)
        self.alive.pop(session, None)
        self.said.pop(session, None)
        self._look_who_sleeps()
        ready = self.bench.list(self.queue.ready[1])
        dead = set(self.bench.scores(self.queue.dead))
        back_or_dead = {*self.ready, *mine, *([offered] if offered else [])}
        assert {*ready} | dead >= back_or_dead - self.cancelled
        assert not self.cancelled & {*ready}
        self.ready = ready

    @rule(session=st.sampled_from(_SESSIONS))
    def lapse(self, session: str) -> None:
        """A worker's machine freezes until its lease has ended."""
        if session in self.alive:
            self.bench.now = max(self.bench.now, self.alive[session] * 1000 + 1000)
            self.end(session, gone=False)

    def _look_who_sleeps(self) -> None:
        names = [name for _, name in sorted((score, name) for name, score in self._scores().items() if score >= 0)]
        assert {*names} <= {*self.asleep}
        self.asleep = names

    def _scores(self) -> dict[str, int]:
        return {
            name.removeprefix("sim:wake:"): int(score)
            for name, score in self.bench.scores(self.queue.idle_workers).items()
        }

    def _told(self, woken: list[str]) -> None:
        assert sorted(self.bench.messages) == sorted((channel("sim", each), self.queue.jobs) for each in woken)

    def _room(self, want: int) -> int:
        if "paused" in self.in_force:
            return 0
        running = len(self.held) + len(self.offered)
        return max(0, min(want, 1 - running)) if "concurrency" in self.in_force else want

    def _take(self, session: str, job: Leased) -> None:
        self.held[job.id] = (session, job)
        self.last[session] = job.fence
        self.fence = max(self.fence, job.fence)

    def teardown(self) -> None:
        """Check that offered jobs count as running, and that a worker with an offer is not idle."""
        running = self.bench.hash(self.queue.stats).get("running", "0")
        assert int(running) == len(self.held) + len(self.offered)
        scores = self.bench.scores(self.queue.idle_workers)
        assert {name for name, score in scores.items() if score >= 0} == {channel("sim", each) for each in self.asleep}
        assert {name for name, score in scores.items() if score < 0} == {channel("sim", each) for each in self.marks}


class OpenOffers(Offers):
    """A queue that is never paused or limited, so that each walk makes many offers."""

    def set(self, name: str, on: bool) -> None:
        """Override without a rule: the queue has no limits."""

    @rule(session=st.sampled_from(_SESSIONS))
    def rest(self, session: str) -> None:
        """A worker runs all jobs that are ready, and falls asleep."""
        self.beat(session)
        while session not in self.asleep:
            self.ask(session, 2)
            self.run(session)

    @rule(session=st.sampled_from(_SESSIONS), beside=st.sampled_from(_SESSIONS))
    def offer(self, session: str, beside: str) -> None:
        """Two workers fall asleep, and a job is enqueued for one of them."""
        self.rest(beside)
        self.rest(session)
        self.push(0, session, 1)

    @rule(session=st.sampled_from(_SESSIONS))
    def run(self, session: str) -> None:
        """A worker receives its offer and runs all its jobs."""
        self.hear(session)
        for id in sorted(id for id, (holder, _) in self.held.items() if holder == session):
            self._settle(id, "s")


class CancelledOffers(OpenOffers):
    """Offers with cancellations of held and offered jobs. Walks with cancellations make fewer offers."""

    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        """Cancel a job that a worker holds or was offered."""
        if running := sorted({*self.held, *self.offered.values()}):
            id = data.draw(st.sampled_from(running))
            assert self.bench.run(control.cancel(self.queue, id, "sim", _WINDOW_MS)) == "running"
            self.cancelled.add(id)
