"""A random walk through all features of one queue, in combinations that no other machine has.

No model predicts each job's result. After each step the queue is recounted, and at the end every job has ended.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import TypeVar

from lockwork.errors import QueueFull
from lockwork.ids import node_id
from lockwork.protocol.dead import dead
from lockwork.protocol.dead.dead import Bounds, Filter
from lockwork.protocol.effects import Argument, Protocol
from lockwork.protocol.flows import flows
from lockwork.protocol.flows.flows import FlowJob, Policy
from lockwork.protocol.keys import QueueKeys
from lockwork.protocol.queue import browse, enqueue, leases, record_header
from lockwork.protocol.queue import job_control as control
from lockwork.protocol.queue import limits as queue_limits
from lockwork.protocol.queue.enqueue import NewJob
from lockwork.protocol.queue.leases import Leased, Outcome
from lockwork.protocol.queue.record_header import JobLimits
from lockwork.protocol.queue.unique import Terms, push_unique
from models.bench import CHANNEL, Bench
from queues.model.mixed_recount import Recount
from simulator.server import Build, Server

T = TypeVar("T")
QUEUE = QueueKeys("sim", "q")
SESSIONS = ("host/1/a", "host/2/b")
LIMITS = {"one": JobLimits(1), "slow": JobLimits(0, 2, 1000), "both": JobLimits(2, 3, 60_000)}
_WINDOW_MS = 600_000
_TERMS = (
    Terms("done", "keep"), Terms("start", "keep"), Terms("done", "replace"), Terms("start", "debounce"),
    Terms("done", "debounce", 3000), Terms(2000, "keep"), Terms(2000, "replace"),
)  # fmt: skip
_POLICIES: tuple[Policy, ...] = ("fail", "ignore", "compensate")
_RULES: tuple[dict[str, Argument], ...] = (
    {"paused": 1}, {"paused": ""}, {"paused": ""}, {"concurrency": ""}, {"concurrency": 1}, {"concurrency": 3},
    {"rate": ""}, {"rate": "3/1000"}, {"size": ""}, {"size": 30}, {"size": 5},
)  # fmt: skip
_KNOWN = ("", "", "work v1", "work v2 other v2")
"""Tasks and versions that a worker claims to support."""
_FAILURE = b'{"type":"Odd","message":"it failed"}'


class MixedQueue:
    """One random walk; the same seed makes the same steps."""

    def __init__(self, server: Server, build: Build, seed: int) -> None:
        self._server = server
        self._random = random.Random(seed)
        self._bench = Bench(server, build)
        self._count = 0
        self._ids: list[str] = ["unknown"]
        self._flows: list[str] = []
        self._held: dict[str, tuple[str, Leased]] = {}
        self._over: list[tuple[str, Leased]] = []
        self._overran: set[str] = set()
        for session in SESSIONS:
            self._join(session)
        self._steps: tuple[Callable[[], object], ...] = (
            self._push, self._push_until, self._push_unique, self._push_flow, self._settle, self._settle, self._settle,
            self._reserve, self._reserve, self._reserve, self._reserve_suspect, self._cancel, self._reschedule,
            self._revive, self._revive, self._note, self._dead, self._clear, self._recover, self._rule, self._expire,
            self._cancel_flow, self._wait, self._wait, self._look, self._set_clock_back,
        )  # fmt: skip

    def walk(self, steps: int) -> None:
        """Take `steps` steps, then finish all jobs. Raises AssertionError at the first recount that does not agree."""
        for _ in range(steps):
            self._random.choice(self._steps)()
            self._recount().check(self._held, LIMITS, self._overran)
        self._end()
        self._recount().check(self._held, LIMITS, self._overran)
        self._bench.now += 4 * _WINDOW_MS * 1000
        self._run(leases.expire(QUEUE, _WINDOW_MS))
        for _ in range(3):
            self._reserve()
        self._recount().nothing_left()

    def _recount(self) -> Recount:
        return Recount(self._server, QUEUE, SESSIONS)

    def _run(self, protocol: Protocol[T]) -> T:
        return self._bench.run(protocol, twice=self._random.random() < 0.25)

    def _join(self, session: str) -> None:
        self._bench.run(leases.beat(QUEUE, {session: True}, 10**9, 1.0))

    def _next(self) -> str:
        self._count += 1
        return f"{self._count:05}"

    def _new(self, record: bytes, delay: int | None = None) -> NewJob:
        id = f"j{self._next()}"
        self._ids.append(id)
        return NewJob(id, record, self._delay() if delay is None else delay)

    def _record(self, unique: str = "") -> bytes:
        group, key = self._random.choice(["", "", *LIMITS]), self._random.choice(["", "", "k", "l"])
        level, attempts, most = (
            self._random.randrange(3),
            self._random.choice([1, 2, 3]),
            self._random.choice([0, 0, 1, 2]),
        )
        return record_header.head(level, attempts, key, group, LIMITS.get(group), unique, most) + b'["work",[]]'

    def _moment(self, *later: int) -> int:
        return -(self._bench.now // 1000 + self._random.choice(later))

    def _delay(self) -> int:
        return self._random.choice([0, 0, 0, 1500, 30_000, self._moment(-5, 2000)])

    def _refusable(self, protocol: Protocol[object]) -> bool:
        try:
            self._run(protocol)
        except QueueFull:
            return False
        return True

    def _push(self) -> None:
        plain = b"1,2,,;x"
        new = [self._new(self._random.choice([plain, self._record()])) for _ in range(self._random.randrange(1, 4))]
        self._refusable(enqueue.push(QUEUE, new))

    def _push_until(self) -> None:
        limit = self._random.choice([1000, 5000, self._moment(3000)])
        self._refusable(enqueue.push(QUEUE, [self._new(self._record())], expires_ms=limit))

    def _push_unique(self) -> None:
        terms = self._random.choice(_TERMS)
        delay = 1000 if terms.meaning == "debounce" else None
        names = [self._random.choice("ab") for _ in range(self._random.randrange(1, 3))]
        new = [self._new(self._record(terms.mark(f"work/{name}")), delay) for name in names]
        self._refusable(push_unique(QUEUE, new, terms, self._random.choice([None, None, 2500])))

    def _push_flow(self) -> None:
        flow, plan = f"F{self._next()}", []
        for number in range(self._random.randrange(1, 6)):
            parents = self._random.sample(range(1, number + 1), self._random.randrange(min(number, 3) + 1))
            undo = self._random.choice([b"", self._record()])
            policy = self._random.choice(_POLICIES)
            plan.append(FlowJob(self._record(), sorted(parents), self._random.choice([0, 0, 1000]), policy, undo))
        if self._refusable(flows.push(QUEUE, flow, plan, 1, _WINDOW_MS)):
            self._flows.append(flow)
            ids = [node_id(flow, number) for number in range(1, len(plan) + 1)]
            self._ids += [*ids, *(f"{id}u" for id in ids)]

    def _reserve(self) -> int:
        session = self._random.choice(SESSIONS)
        want, channel = self._random.randrange(1, 6), self._random.choice(["", CHANNEL])
        asked = leases.reserve(
            QUEUE, session, want, self._next(), channel, tasks=self._random.choice(_KNOWN), window_ms=_WINDOW_MS
        )
        found = self._run(asked).jobs
        parked = self._recount().parked_since
        for job in found:
            assert job.parked == int(parked.get(job.id, b"0").split()[0]), f"{job.id} does not say since when it waits"
            assert job.id not in self._held, f"{job.id} is leased twice"
            self._held[job.id] = session, job
        return len(found)

    def _reserve_suspect(self) -> int:
        session = self._random.choice(SESSIONS)
        alone = all(of != session for of, _ in self._held.values())
        found = self._run(leases.reserve_suspect(QUEUE, session, self._next())).jobs
        assert alone or not found, "a suspect runs alone"
        for job in found:
            assert job.id not in self._held, f"{job.id} is leased twice"
            self._held[job.id] = session, job
        return len(found)

    def _settle(self, kinds: str = "sssosrdgzuuuuc", share: float = 0.5) -> None:
        session, ends = self._random.choice(SESSIONS), list[Outcome]()
        for id in [id for id, (of, _) in self._held.items() if of == session]:
            if self._random.random() < share:
                self._over.append(self._held.pop(id))
                ends.append(self._outcome(self._over[-1][1], self._random.choice(kinds)))
        late = [self._outcome(job, "s") for of, job in self._over[-9:-3] if of == session]
        mine = {end.id for end in ends}
        sent = [*ends, *(end for end in late[:1] if end.id not in mine)]
        if sent:
            self._run(leases.settle(QUEUE, session, sent, _WINDOW_MS))
            self._overran |= {end.id for end in ends if end.kind == "o"}
            expiring = {end.id for end in ends if end.kind == "u" and b"@" in end.token}
            if expiring:
                now = self._recount()
                assert expiring & now.parked.keys() <= now.expiry.keys(), "a parked job expires at its time"

    def _outcome(self, job: Leased, kind: str) -> Outcome:
        if kind == "u":
            task, version = self._random.choice(["work", "other"]), self._random.choice(["", "v1", "v2"])
            return leases.parked(job, task, version, known=self._random.random() < 0.2)
        kind = "n" if kind == "g" and job.fence % 2 else kind
        value = b"1" if kind in "so" else _FAILURE if kind in "rd" else b""
        delay = 1000 if kind == "r" else self._random.choice([0, 0, 2000]) if kind in "soz" else 0
        return Outcome(job.id, job.token, kind, value, delay)  # type: ignore[arg-type]

    def _any(self) -> str:
        return self._random.choice(self._ids)

    def _cancel(self) -> None:
        self._run(control.cancel(QUEUE, self._any(), "sim", _WINDOW_MS))

    def _reschedule(self) -> None:
        self._run(control.reschedule(QUEUE, self._any(), self._random.choice([0, 0, 1000, 20_000, self._moment(-10)])))

    def _revive(self) -> None:
        self._run(control.revive(QUEUE, self._any(), self._random.choice([0, 1000])))

    def _note(self) -> None:
        if self._held:
            session, job = self._held[self._random.choice(sorted(self._held))]
            self._run(control.note(QUEUE, session, job, self._random.choice(["", "step"]), b"1", 10_000))

    def _dead(self) -> None:
        request, way = self._next(), self._random.randrange(5)
        if way == 0:
            self._run(
                dead.retry(QUEUE, Filter(), request, self._random.choice([None, 1]), anew=self._random.random() < 0.5)
            )
        elif way == 1:
            self._run(dead.retry_one(QUEUE, self._any(), request, anew=True))
        elif way == 2:
            self._run(dead.delete_one(QUEUE, self._any(), request))
        elif way == 3:
            self._run(dead.delete(QUEUE, Filter(), request, 1))
        else:
            bounds = Bounds(self._random.choice([1000, 10**9]), self._random.choice([0, 3, 100]))
            self._run(dead.trim(QUEUE, bounds))

    def _clear(self) -> None:
        if self._random.random() < 0.25:
            self._run(browse.clear(QUEUE, self._next(), _WINDOW_MS))

    def _recover(self) -> None:
        session = self._random.choice(SESSIONS)
        self._run(leases.recover(QUEUE, session, _WINDOW_MS, gone=True, counted=self._random.random() < 0.6))
        self._over += [held for held in self._held.values() if held[0] == session]
        self._held = {id: held for id, held in self._held.items() if held[0] != session}
        self._join(session)

    def _rule(self) -> None:
        self._run(queue_limits.change(QUEUE, self._random.choice(_RULES)))

    def _expire(self) -> None:
        self._run(leases.expire(QUEUE, _WINDOW_MS))

    def _cancel_flow(self) -> None:
        if self._flows:
            self._run(flows.cancel(QUEUE, self._random.choice(self._flows), _WINDOW_MS))

    def _look(self) -> None:
        id = self._any()
        self._run(leases.job_state(QUEUE, id, CHANNEL))
        self._run(control.inspect(QUEUE, id, CHANNEL, _WINDOW_MS))

    def _wait(self) -> None:
        self._bench.now += self._random.choice([1, 300, 1500, 6000, 61_000]) * 1000

    def _set_clock_back(self) -> None:
        if self._random.random() < 0.1:
            self._bench.now -= self._random.choice([500, 5000, 100_000]) * 1000

    def _end(self) -> None:
        """Work until the queue has been empty for a long time."""
        self._run(queue_limits.change(QUEUE, dict.fromkeys(("paused", "concurrency", "rate", "size"), "")))
        idle = 0
        for _ in range(5000):
            idle = 0 if self._reserve() or self._reserve_suspect() or self._held else idle + 1
            for _ in SESSIONS:
                self._settle("sssd", 1)
            self._bench.now += 7_000_000 if idle else 0
            if idle > 40:
                return
        raise AssertionError(f"it never ends: {self._held}")
