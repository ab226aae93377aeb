"""A plain Python model of sessions that end: jobs returned uncounted, and wake-ups forwarded."""

from __future__ import annotations

import hypothesis.strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule

from lockwork.protocol.keys import QueueKeys
from lockwork.protocol.queue import leases, sessions
from lockwork.protocol.queue.leases import Buried
from models.bench import CHANNEL, Bench
from queues.model.queue_machine import QueueMachine

_SESSIONS = ["host/1/a", "host/2/b"]
_WINDOW_MS = 3_600_000
_CROWD = [f"crowd{at}" for at in range(120)]


class NackAll(QueueMachine):
    """A queue with supervisors that end stopped sessions: only deliveries of jobs with a cap count then."""

    @rule(session=st.sampled_from(_SESSIONS))
    def ask_to_stop(self, session: str) -> None:
        """The session's worker gets SIGTERM. If it dies before it has stopped, its jobs return uncounted."""
        self.beat(session, joins=False, stops=True)

    @rule(session=st.sampled_from(_SESSIONS))
    def give_back(self, session: str) -> None:
        held = [id for id, (holder, _) in self.leased.items() if holder == session]
        buried: list[Buried] = []
        ending = leases.recover(self.queue, session, _WINDOW_MS, gone=True, counted=False, on_buried=buried.extend)
        given = self.bench.run(ending)
        self.alive.pop(session, None)
        places = self._back(held, counted=False)
        assert (given, len(buried)) == (places["ready"], places["dead"])
        self._check_buried(buried)


class IdleWorkers(RuleBasedStateMachine):
    """Workers that sleep on an empty queue. One of them is subscribed; the processes of the others are gone."""

    def __init__(self, bench: Bench) -> None:
        super().__init__()
        self.bench = bench
        self.queue = QueueKeys("sim", "q")
        self.asleep: list[str] = []
        self.bench.run(leases.beat(self.queue, {"host/1/a": True}, 3_600_000, 1.0))
        self.requests = 0
        self.crowded = False

    @precondition(lambda self: not self.crowded)
    @rule()
    def many_die(self) -> None:
        """Add many workers of a machine that is gone, in front of the live one."""
        self.crowded = True
        for channel in _CROWD:
            self.sleep(channel)
        self.sleep(CHANNEL)

    @rule(channel=st.sampled_from([CHANNEL, "gone1", "gone2"]))
    def sleep(self, channel: str) -> None:
        self.requests += 1
        self.bench.run(leases.reserve(self.queue, "host/1/a", 1, f"{self.requests}", channel))
        if channel in self.asleep:
            self.asleep.remove(channel)
        self.asleep.append(channel)

    @rule(channel=st.sampled_from([CHANNEL, "gone1", "gone2", "awake"]), awake=st.booleans())
    def pass_on(self, channel: str, *, awake: bool) -> None:
        self.bench.messages.clear()
        told = self.bench.run(sessions.forward_wakeup(self.queue, "host/1/a", channel, 0, _WINDOW_MS, awake=awake))
        slept = channel in self.asleep
        if slept:
            self.asleep.remove(channel)
        if slept and not awake:
            assert not told, "who has not been woken has nothing to pass on"
        else:
            heard = CHANNEL in self.asleep
            assert told == heard, "a wake-up is lost only when nobody sleeps"
            # the call removed the unreachable workers in front from the list
            self.asleep = self.asleep[self.asleep.index(CHANNEL) + 1 :] if heard else []
            assert self.bench.messages == ([(CHANNEL, self.queue.jobs)] if heard else [])
