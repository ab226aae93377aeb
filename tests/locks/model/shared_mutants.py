"""Mutants of the locks in shared formats."""

from __future__ import annotations

from simulator.server import Build

_OURS = "redis.call('GET', key) == token"
PLAIN_MUTANTS = (
    Build("deletes a foreign key", (("formats/plain_release", _OURS, "true"),)),
    Build("renews a foreign key", (("formats/plain_renew", "redis.call('GET', key) == token", "true"),)),
    Build("a renewal shortens", (("formats/plain_renew", "math.max(redis.call('PTTL', key), ", "math.max(0, "),)),
    Build("does not know its own token", (("formats/plain_acquire", "redis.call('GET', key) ~= token", "true"),)),
    Build("SETNX without an expiry", (("formats/plain_acquire", ", 'NX', 'PX', lease)", ", 'NX')"),)),
    Build("replaces an existing expiry", (("formats/plain_acquire", "left == -1 and", "true and"),)),
    Build("leaves the key without an expiry", (("formats/plain_acquire", "missing > 0 and", "false and"),)),
    Build("a repeated release is a loss", (("formats/plain_release", "return again and 1 or 0", "return 0"),)),
)  # fmt: skip
TIMESTAMP_MUTANTS = (
    Build("deletes a foreign key", (("formats/timestamp_release", "owner == digits", "true"),)),
    Build("renews a foreign key", (("formats/timestamp_renew", "owner == digits", "true"),)),
    Build("revives an expired lock", (("formats/timestamp_renew", " and ends > now", ""),)),
    Build("a renewal shortens", (("formats/timestamp_renew", "wanted > ends and", "true and"),)),
    Build("takes a held lock", (("formats/timestamp_acquire", "ends > now then", "ends > now + 10000000 then"),)),
    Build("does not know its own digits", (("formats/timestamp_acquire", "owner ~= digits and ", ""),)),
    Build("never takes over", (("formats/timestamp_acquire", "ends > now then", "true then"),)),
    Build("takes all that has no expiry",
          (("formats/timestamp_acquire", "ends > now then", "ends > now and redis.call('PTTL', key) >= 0 then"),)),
    Build("ends before the lease", (("formats/parts/endtime", "whole = whole + 1", "whole = whole"),)),
    Build("no expiry", (("formats/parts/endtime", ", 'PX', math.ceil((till - now) / 1000))", ")"),)),
)  # fmt: skip
