"""Locks in other programs' formats in virtual time: Lockwork users and foreign clients on one key, and mutants.

A plain lock ends when its key expires, which the server measures in real time. So every script runs in a wrapper. It
first sets the key's expiry to the remaining virtual time, or deletes the key. Time does not pass within a script.
"""

from __future__ import annotations

import itertools
from contextlib import suppress
from dataclasses import dataclass, field

from locks.simulation.lock_actors import Belief, Players
from locks.simulation.shared_format_checks import KEY, SharedChecker
from lockwork.errors import LockTimeout, LockworkError
from lockwork.protocol.effects import Call, Clock
from lockwork.protocol.effects import Protocol as Asking
from lockwork.protocol.formats import plain, timestamp
from lockwork.protocol.locks import grants
from lockwork.protocol.locks.grants import Granted, LockScripts, Renewal, Request, local_deadline
from lockwork.protocol.locks.leases import Lease
from lockwork.protocol.scripts import Script
from simulator.faults import SECOND
from simulator.load import crowd
from simulator.process import Actor, Cancelled, Process, Sleep, Task
from simulator.runs import finished, incidents
from simulator.server import NOW, Build, Server
from simulator.world import World

_WRAPPED = """
local wrapped_now, before = tonumber(ARGV[#ARGV]), {}
for at, key in ipairs(KEYS) do
  local ends = tonumber(redis.call('GET', key .. ':ends') or '0')
  if ends > wrapped_now then redis.call('PEXPIRE', key, math.ceil((ends - wrapped_now) / 1000))
  elseif ends > 0 then redis.call('DEL', key) end
  before[at] = redis.call('PTTL', key)
end
local function body()
%s
end
local reply = body()
for at, key in ipairs(KEYS) do
  local left = redis.call('PTTL', key)
  if left ~= before[at] then
    redis.call('SET', key .. ':ends', string.format('%%.0f', left > 0 and wrapped_now + left * 1000 or 0))
  end
end
return reply
"""
_FOREIGN = {
    # SET NX PX, as redis-py's Lock
    "foreign_set": NOW + "return {redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) and 1 or 0, "
    "now + (ARGV[2] - 1) * 1000, now, ARGV[1]}",
    # SETNX with its end, cut to whole seconds; the lock is free after that second. Its EXPIRE is a separate call
    "foreign_setnx": NOW + "local value = string.format('%d', math.floor(now / 1000000) + math.floor(ARGV[2] / 1000))\n"
    "return {redis.call('SETNX', KEYS[1], value), (value + 1) * 1000000, now, value}",
    # its takeover when TTL is negative: a SET without an expiry. A careful client also checks the time
    "foreign_takeover": NOW + "local found = tonumber(redis.call('GET', KEYS[1]) or '') or 0\n"
    "if (found + 1) * 1000000 > now or redis.call('PTTL', KEYS[1]) >= 0 then return {0, 0, now, ''} end\n"
    "local value = string.format('%d', math.floor(now / 1000000) + math.floor(ARGV[2] / 1000))\n"
    "redis.call('SET', KEYS[1], value)\n"
    "return {1, (value + 1) * 1000000, now, value}",
    # SETNX with an id; its EXPIRE is a separate call
    "foreign_setnx_id": NOW
    + "return {redis.call('SETNX', KEYS[1], ARGV[1]), now + (ARGV[2] - 1) * 1000, now, ARGV[1]}",
    "foreign_expire": "if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end\n"
    "return redis.call('PEXPIRE', KEYS[1], ARGV[2])",
    "foreign_delete": "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0",
}


@dataclass(frozen=True)
class SharedBuild(Build):
    """A build whose keys expire in virtual time."""

    kind: str = ""
    """The format that a mutant breaks; empty: both."""

    @property
    def label(self) -> str:
        return f"{self.kind} {self.name}"

    def _assembled(self, name: str) -> Script:
        source = _FOREIGN[name] if name in _FOREIGN else super()._assembled(name).source
        return Script(name, _WRAPPED % source)


MISSING_MS = 4000
RELEASED = SharedBuild()
_OURS = "redis.call('GET', key) == token"
MUTANTS = (
    SharedBuild("takes a held lock", (("formats/plain_acquire", "'NX', 'PX'", "'PX'"),), kind="plain"),
    SharedBuild("any owner may renew", (("formats/plain_renew", _OURS, "redis.call('GET', key)"),), kind="plain"),
    SharedBuild(
        "reports a renewal without doing it",
        (("formats/plain_renew", "redis.call('PEXPIRE', key, left)", ""),),
        kind="plain",
    ),
    SharedBuild(
        "reports a later end than it sets", (("formats/plain_acquire", "(lease - 1)", "(lease + 900)"),), kind="plain"
    ),
    SharedBuild(
        "takes it a little early",
        (("formats/timestamp_acquire", "ends > now then", "ends > now + 500000 then"),),
        kind="timestamp",
    ),
    SharedBuild(
        "enters in the last second of a cut value",
        (("formats/parts/endtime", "#decimals < 9 and", "false and"),),
        kind="timestamp",
    ),
    SharedBuild(
        "any owner may release", (("formats/timestamp_release", "ends and owner == digits", "ends"),), kind="timestamp"
    ),
    SharedBuild(
        "any owner may renew", (("formats/timestamp_renew", "owner == digits and", "owner and"),), kind="timestamp"
    ),
    SharedBuild(
        "reports a renewal without doing it",
        (("formats/timestamp_renew", "write(key, owner, wanted, per)", "wanted - 1000"),),
        kind="timestamp",
    ),
)


@dataclass
class Sharers(Players):
    """Lockwork users and foreign clients of one format."""

    kind: str = "plain"
    tokens: itertools.count[int] = field(default_factory=itertools.count)

    @property
    def scripts(self) -> LockScripts:
        return plain.SCRIPTS if self.kind == "plain" else timestamp.SCRIPTS

    def _acquiring(self, asked: Request, wait: float | None) -> Asking[Granted]:
        if self.kind == "plain":
            return plain.acquire(asked, wait, MISSING_MS)
        return timestamp.acquire(asked, wait, "s")

    def _turn(self, task: Task, name: str) -> Actor:
        random, number = self.world.random, next(self.numbers)
        token = f"r{number}" if self.kind == "plain" else f"{random.randrange(10**5)}{number % 10**4:04}".rjust(9, "0")
        lease_ms, renewed = random.choice([1000, 2000, 4000, 15000]), random.random() < 0.7
        asked = Request(name, name, token, f"r{number}", task.process.channel, lease_ms, renewed, scripts=self.scripts)
        waiting = self.waiting.setdefault(name, {})
        waiting[task] = asked
        try:
            granted = yield from self._acquiring(asked, random.choice([None, None, None, 0, random.uniform(0.1, 5)]))
        except LockTimeout:
            return
        finally:
            del waiting[task]
        renewal = Renewal(name, token, 0, lease_ms, self.scripts)
        lease = Lease(renewal, granted, (yield Clock()), renewed=renewed, on_lost=lambda: None)
        yield from self._hold(task, lease)
        with suppress(LockworkError):
            yield from grants.release(name, token, 0, scripts=self.scripts)
        self.ended.append(renewal)

    def _hold(self, task: Task, lease: Lease) -> Actor:
        random, belief = self.world.random, Belief(task, lease, 0)
        beliefs = self.beliefs.setdefault(lease.renewal.key, [])
        beliefs.append(belief)
        task.process.book.add(lease)
        task.process.mail.deliver("engine", "ring")
        with suppress(Cancelled):
            yield Sleep(random.choice([0.0, random.uniform(0, 0.2), random.uniform(0, 5)]))
        beliefs.remove(belief)
        task.process.book.remove(lease)
        lease.lost = True

    def foreigner(self, task: Task, rounds: int) -> Actor:
        """Act as a careful client of another library: try, hold, and delete only its own value."""
        random = self.world.random
        for _ in range(rounds):
            with suppress(Cancelled, LockworkError):
                yield Sleep(random.uniform(0, 2))
                yield from self._foreign_turn(task)

    def _foreign_turn(self, task: Task) -> Actor:
        random, lease_ms = self.world.random, self.world.random.choice([1000, 3000, 8000])
        sent = yield Clock()
        name = random.choice(["foreign_set", "foreign_setnx_id"] if self.kind == "plain" else ["foreign_setnx"])
        args = (f"f{next(self.tokens)}", lease_ms)
        taken, ends, now, value = yield Call(Script(name, ""), [KEY], args, patience=0.0)
        if not taken and self.kind == "timestamp":
            name = "foreign_takeover"
            taken, ends, now, value = yield Call(Script(name, ""), [KEY], args, patience=0.0)
        if not taken:
            return
        own = value.decode()
        if "setnx" in name and (
            random.random() < 0.2  # it dies
            or not (yield Call(Script("foreign_expire", ""), [KEY], [own, lease_ms + 2000], patience=0.0))
        ):
            return
        renewal = Renewal(KEY, own, 0, lease_ms)
        lease = Lease(renewal, Granted(0, local_deadline(sent, now, ends)), sent, renewed=False, on_lost=lambda: None)
        yield from self._hold(task, lease)
        yield Call(Script("foreign_delete", ""), [KEY], [own], patience=0.0)


def run(server: Server, seed: int, build: Build = RELEASED) -> World:
    """Lockwork users and foreign clients on one key; raises Broken."""
    world = World(server, seed, build if isinstance(build, SharedBuild) else RELEASED)
    chosen = world.random.choice(["plain", "timestamp"])
    players = Sharers(world, kind=getattr(build, "kind", "") or chosen)
    checker = SharedChecker(world, players, players.kind)
    world.checker = checker
    rounds = world.random.randint(2, 5)

    def populate(process: Process) -> None:
        world.start(process, "engine", lambda task: players.renewer(process), background=True)
        for number in range(world.random.randint(1, 2)):
            world.start(process, f"c{number}", lambda task: players.contender(task, [KEY], rounds))
        world.start(process, "foreign", lambda task: players.foreigner(task, rounds))

    kill = crowd(world, populate, world.random.randint(1, 3))
    incidents(world, kill, 20 * SECOND, set_right=True)
    return finished(world, seed, 30, 400, checker.at_end)
