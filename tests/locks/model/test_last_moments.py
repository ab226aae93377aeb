"""A lease with less than a millisecond left still counts as held for all readers."""

from __future__ import annotations

from lockwork.protocol import keys
from lockwork.protocol.keys import QueueKeys
from lockwork.protocol.locks import grants, overview
from lockwork.protocol.locks.grants import LOCK, LockScripts, Request
from lockwork.protocol.permits import permits
from lockwork.protocol.stock import stock
from models.bench import BEGIN, CHANNEL, Bench
from simulator.server import Build, Server

_LEASE_MS = 2000
_LATE = _LEASE_MS * 1000 - 500
"""Microseconds after the grant; half a millisecond of the lease is left then."""
_FLOORED = Build("rounds down", (("locks/overview", "math.ceil(us / 1000)", "math.floor(us / 1000)"),))


def _asked(key: str, scripts: LockScripts, *extra: int) -> Request:
    return Request(key, "a", "ann:1:t", "ann.1", CHANNEL, _LEASE_MS, renewed=False, scripts=scripts, extra=extra)


def _left(bench: Bench) -> dict[str, float]:
    """Return the `expires_in` that each reader returns half a millisecond before the end."""
    plain, several = keys.lock("sim", "a"), keys.semaphore("sim", "a")
    rules = stock.StockRules(QueueKeys("sim", "q"), "phone", 5, 0)
    bench.run(grants.acquire(_asked(plain, LOCK), 0))
    bench.run(grants.acquire(_asked(several, permits.SCRIPTS, 1, 3), 0))
    held = bench.run(stock.reserve(rules, "r1", "ann", 1, _LEASE_MS, "", None))
    assert bench.now < BEGIN + 100, "all of them were granted at about the same time"
    bench.now = BEGIN + _LATE
    bench.named = [plain.removeprefix("sim:"), several.removeprefix("sim:")]
    found = {
        "lock": bench.run(grants.state(plain)).expires_in,
        "semaphore": bench.run(permits.state(several, holders=1)).holders[0].expires_in,
        "met": bench.run(stock.reserve(rules, "r1", "ann", 1, _LEASE_MS, "", None)).expires_in,
        "listed": bench.run(stock.reservations(rules, "", 9))[0].expires_in,
    }
    looked = bench.run(stock.read_reservation(rules, held.id))
    assert looked is not None
    found["looked"] = looked.expires_in
    locks = bench.run(overview.read_locks("sim")).locks
    return found | {f"all: {one.kind}": one.holders[0].expires_in for one in locks}


def test_no_inspection_shows_a_held_lock_as_expired(simulated: Server) -> None:
    assert set(_left(Bench(simulated, Build())).values()) == {0.001}


def test_a_reader_that_rounds_down_is_caught(simulated: Server) -> None:
    left = _left(Bench(simulated, _FLOORED))
    assert (left["all: lock"], left["all: semaphore"]) == (0, 0)


def test_a_minimum_is_shown_to_its_end(simulated: Server) -> None:
    bench, key = Bench(simulated, Build()), keys.lock("sim", "a")
    granted = bench.run(grants.acquire(_asked(key, LOCK), 0))
    bench.run(grants.release(key, "ann:1:t", granted.fence, _LEASE_MS))
    bench.now += _LATE
    bench.named = [key.removeprefix("sim:")]
    (kept,) = bench.run(overview.read_locks("sim")).locks
    assert not kept.holders
    assert kept.kept_for == 0.001
