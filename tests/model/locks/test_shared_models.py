"""The locks in shared formats against their models, and broken ones that the models must notice."""

from __future__ import annotations

import pytest

from model.bench import check, check_caught
from model.locks.shared_machine import PlainMachine, TimestampMachine
from simulation.server import Build, Server

_OURS = "redis.call('GET', key) == token"
PLAIN_MUTANTS = (
    Build("deletes a foreign key", (("plain_release", _OURS, "true"),)),
    Build("renews a foreign key", (("plain_renew", "redis.call('GET', key) == token", "true"),)),
    Build("a renewal shortens", (("plain_renew", "math.max(redis.call('PTTL', key), ", "math.max(0, "),)),
    Build("does not know its own token", (("plain_acquire", "redis.call('GET', key) ~= token", "true"),)),
    Build("SETNX without an expiry", (("plain_acquire", ", 'NX', 'PX', lease)", ", 'NX')"),)),
    Build("replaces an existing expiry", (("plain_acquire", "left == -1 and", "true and"),)),
    Build("leaves the key without an expiry", (("plain_acquire", "missing > 0 and", "false and"),)),
    Build("a repeated release is a loss", (("plain_release", "return again and 1 or 0", "return 0"),)),
)  # fmt: skip
TIMESTAMP_MUTANTS = (
    Build("deletes a foreign key", (("timestamp_release", "owner == digits", "true"),)),
    Build("renews a foreign key", (("timestamp_renew", "owner == digits", "true"),)),
    Build("revives an expired lock", (("timestamp_renew", " and ends > now", ""),)),
    Build("a renewal shortens", (("timestamp_renew", "wanted > ends and", "true and"),)),
    Build("takes a held lock", (("timestamp_acquire", "ends > now then", "ends > now + 10000000 then"),)),
    Build("does not know its own digits", (("timestamp_acquire", "owner ~= digits and ", ""),)),
    Build("never takes over", (("timestamp_acquire", "ends > now then", "true then"),)),
    Build("takes all that has no expiry",
          (("timestamp_acquire", "ends > now then", "ends > now and redis.call('PTTL', key) >= 0 then"),)),
    Build("ends before the lease", (("parts/endtime", "whole = whole + 1", "whole = whole"),)),
    Build("no expiry", (("parts/endtime", ", 'PX', math.ceil((till - now) / 1000))", ")"),)),
)  # fmt: skip


def test_a_plain_lock_matches_its_model(simulated: Server) -> None:
    check(PlainMachine, simulated, Build())


@pytest.mark.parametrize("mutant", PLAIN_MUTANTS, ids=lambda mutant: mutant.name)
def test_a_broken_plain_lock_is_caught(simulated: Server, mutant: Build) -> None:
    check_caught(PlainMachine, simulated, mutant)


def test_a_timestamp_lock_matches_its_model(simulated: Server) -> None:
    check(TimestampMachine, simulated, Build())


@pytest.mark.parametrize("mutant", TIMESTAMP_MUTANTS, ids=lambda mutant: mutant.name)
def test_a_broken_timestamp_lock_is_caught(simulated: Server, mutant: Build) -> None:
    check_caught(TimestampMachine, simulated, mutant)
