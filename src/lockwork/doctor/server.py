"""The rules about the server itself."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from lockwork import words
from lockwork.doctor.finding import Finding
from lockwork.errors import ServerRefused
from lockwork.protocol.effects import Clock, Protocol, Shards, script_call

_LATENCY = 0.02
_CLOCK = 5.0
_SLOW = 0.1
"""Minimum seconds of a slow script."""
_LATELY = 3600
"""Maximum age in seconds of reported slow scripts: the server's slow log keeps them until it is full."""
_CALLS = 5


class ServerFacts(Struct, frozen=True):
    """Facts that the server reports about itself."""

    info: dict[str, str]
    latency: float
    """Duration of the fastest of several calls, in seconds."""
    clock: float
    """Server time in seconds since 1970."""
    slow: list[tuple[float, float, str]] | None
    """Newest slow commands: seconds since 1970, and duration in seconds; None without permission to read them."""
    refused: list[str]
    """Data that this user may not read."""

    @property
    def version(self) -> str:
        """Program and version, "" without permission to read them."""
        if valkey := self.info.get("valkey_version"):
            return f"Valkey {valkey}"
        return f"Redis {self.info['redis_version']}" if "redis_version" in self.info else ""


def read_servers() -> Protocol[list[ServerFacts]]:
    """Read the facts about the server; on a Cluster, about each primary in sequence, so that each is timed."""
    servers: list[ServerFacts] = []
    for shard in range((yield Shards())):
        servers += [(yield from _read(shard))]
    return servers


def _read(shard: int) -> Protocol[ServerFacts]:
    latency, clock, info, refused = float("inf"), 0.0, b"", []
    for _ in range(_CALLS):
        began = yield Clock()
        try:
            now, info = yield replace(script_call("server/facts", []), shard=shard)
            clock = now / 1e6
        except ServerRefused as error:
            refused.append(f"INFO: {error}")
            break
        ended = yield Clock()
        latency = min(latency, ended - began)
    slow: list[tuple[float, float, str]] | None = None
    try:
        entries = yield replace(script_call("server/slow_log", [], [64]), shard=shard)
        slow = [(entry[1], entry[2] / 1e6, b" ".join(entry[3][:1]).decode(errors="replace")) for entry in entries]
    except ServerRefused as error:
        refused.append(f"SLOWLOG: {error}")
    facts = dict(line.split(":", 1) for line in info.decode(errors="replace").splitlines() if ":" in line)
    return ServerFacts(facts, latency, clock, slow, refused)


def check_servers(servers: Sequence[ServerFacts], now: float) -> list[Finding]:
    """Apply all rules; `now` is the client's time, seconds since 1970."""
    findings: list[Finding] = []
    for number, facts in enumerate(servers, 1):
        port = facts.info.get("tcp_port", "")
        about = "server" if len(servers) == 1 else f"server {number} of {len(servers)}, port {port}"
        findings += (replace(finding, subject=about) for finding in _check(facts, now))
    return findings


def _check(facts: ServerFacts, now: float) -> list[Finding]:
    if not facts.info:
        text = f"This user may not read the server's settings ({facts.refused[0]})."
        return [Finding("info", "server", text, "Use a user with the role `operator` or `viewer`.")]
    return [*_calls(facts, now), *_slow_scripts(facts), *_persistence(facts.info), *_memory(facts.info)]


def _calls(facts: ServerFacts, now: float) -> Iterator[Finding]:
    if facts.latency > _LATENCY:
        text = f"The fastest of {_CALLS} calls took {words.duration(facts.latency)}."
        fix = "Run the workers in the server's data center, or reduce the load of the server."
        yield Finding("warning", "server", text, fix)
    if abs(facts.clock - now) > _CLOCK:
        text = f"Its clock and this machine's differ by {words.duration(abs(facts.clock - now))}."
        fix = "Set both clocks by NTP: `at=` and the age of jobs use the client's clock."
        yield Finding("warning", "server", text, fix)


def _slow_scripts(facts: ServerFacts) -> Iterator[Finding]:
    if facts.slow is None:
        text = "This user may not read the slow log, so slow scripts were not checked."
        yield Finding("info", "server", text, "Use a user with the role `operator`.")
        return
    slow = [
        took
        for at, took, command in facts.slow
        if command.upper() in ("EVALSHA", "EVAL", "FCALL_RO") and took > _SLOW and at > facts.clock - _LATELY
    ]
    if slow:
        some = words.several(len(slow), "script")
        text = (
            f"{some} took more than {words.duration(_SLOW)} in the last hour, the slowest {words.duration(max(slow))}."
        )
        fix = "See `SLOWLOG GET`: very large jobs, very large batches or a busy machine cause it."
        yield Finding("warning", "server", text, fix)


def _persistence(info: dict[str, str]) -> Iterator[Finding]:
    about = "server"
    if info.get("aof_enabled") != "1":
        if info.get("rdb_last_bgsave_time_sec", "-1") == "-1":
            text = "It has saved nothing since its start: a crash loses all jobs since then."
        else:
            text = "It keeps snapshots only: a crash loses the jobs since the last one."
        yield Finding("warning", about, text, "Set `appendonly yes`.")
    for field, what in [("rdb_last_bgsave_status", "snapshot"), ("aof_last_bgrewrite_status", "rewrite of its log"),
                        ("aof_last_write_status", "write to its log")]:  # fmt: skip
        if info.get(field, "ok") != "ok":
            text = f"Its last {what} failed."
            yield Finding("serious", about, text, "See the server's log: the disk may be full, or not writable.")


def _memory(info: dict[str, str]) -> Iterator[Finding]:
    # the server does not count the buffers of replicas and of its log as used
    most, uncounted = int(info.get("maxmemory", 0)), int(info.get("mem_not_counted_for_evict", 0))
    used = int(info.get("used_memory", 0)) - uncounted
    if most and used > 0.8 * most:
        text = f"It uses {used / most:.0%} of its maxmemory, and refuses writes when that is full."
        fix = "Raise maxmemory, or keep less: lower `result_ttl`, `dead_limit` or `history`."
        yield Finding("serious" if used > 0.95 * most else "warning", "server", text, fix)
    policy = info.get("maxmemory_policy", "noeviction")
    if policy != "noeviction":
        text = f"It may evict jobs and locks (maxmemory-policy {policy})."
        yield Finding("serious", "server", text, "Set `maxmemory-policy noeviction`.")
