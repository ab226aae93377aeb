"""The rules about the server itself."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from lockwork.doctor.rules import Finding, lasting
from lockwork.errors import ServerRefused
from lockwork.protocol.effects import Clock, Protocol, script_call

_LATENCY = 0.02
_CLOCK = 5.0
_SLOW = 0.1
"""Seconds that a slow command of Lockwork must have taken."""
_CALLS = 5


@dataclass(frozen=True, slots=True)
class ServerFacts:
    """The server, as it describes itself."""

    info: dict[str, str]
    latency: float
    """Seconds of the fastest of some calls."""
    clock: float
    """Its time, seconds since 1970."""
    slow: list[tuple[float, str]] | None
    """The newest slow commands, in seconds; None if this user may not read them."""
    refused: list[str]
    """What this user may not read."""


def read_server() -> Protocol[ServerFacts]:
    """Read the facts about the server."""
    latency, clock, info, refused = float("inf"), 0.0, b"", []
    for _ in range(_CALLS):
        began = yield Clock()
        try:
            now, info = yield script_call("server_facts", [])
            clock = now / 1e6
        except ServerRefused as error:
            refused.append(f"INFO: {error}")
            break
        ended = yield Clock()
        latency = min(latency, ended - began)
    slow: list[tuple[float, str]] | None = None
    try:
        entries = yield script_call("slow_log", [], [64])
        slow = [(entry[2] / 1e6, b" ".join(entry[3][:1]).decode(errors="replace")) for entry in entries]
    except ServerRefused as error:
        refused.append(f"SLOWLOG: {error}")
    facts = dict(line.split(":", 1) for line in info.decode(errors="replace").splitlines() if ":" in line)
    return ServerFacts(facts, latency, clock, slow, refused)


def check_server(facts: ServerFacts, now: float) -> list[Finding]:
    """Apply all rules; `now` is the client's time, seconds since 1970."""
    if not facts.info:
        text = f"This user may not read the server's facts ({facts.refused[0]})."
        return [Finding("info", "server", text, "Use a user with the role `operator` or `viewer`.")]
    return [*_calls(facts, now), *_persistence(facts.info), *_memory(facts.info)]


def _calls(facts: ServerFacts, now: float) -> Iterator[Finding]:
    if facts.latency > _LATENCY:
        text = f"The fastest of {_CALLS} calls took {lasting(facts.latency)}."
        yield Finding("warning", "server", text, "Run workers in the same data center, or look what loads the server.")
    if abs(facts.clock - now) > _CLOCK:
        text = f"Its clock and this machine's differ by {lasting(abs(facts.clock - now))}."
        yield Finding("warning", "server", text, "Let NTP set both: `at=` and the age of jobs use the client's clock.")
    slow = [
        seconds for seconds, command in facts.slow or () if command.upper() in ("EVALSHA", "EVAL") and seconds > _SLOW
    ]
    if slow:
        text = f"Its slow log has {len(slow)} script calls of {lasting(max(slow))} at most."
        yield Finding("warning", "server", text, "See `SLOWLOG GET`; very large jobs, batches or a busy host cause it.")


def _persistence(info: dict[str, str]) -> Iterator[Finding]:
    about = "server"
    if info.get("aof_enabled") != "1":
        if info.get("rdb_last_save_time", "0") == "0" or "rdb_changes_since_last_save" not in info:
            text = "It keeps nothing on disk: a restart loses all jobs."
        else:
            text = "It keeps snapshots only: a crash loses the jobs since the last one."
        yield Finding("warning", about, text, "Set `appendonly yes`.")
    for field, what in [("rdb_last_bgsave_status", "snapshot"), ("aof_last_bgrewrite_status", "rewrite of its log"),
                        ("aof_last_write_status", "write to its log")]:  # fmt: skip
        if info.get(field, "ok").strip() != "ok":
            text = f"Its last {what} failed."
            yield Finding("serious", about, text, "See the server's log: the disk may be full, or not writable.")


def _memory(info: dict[str, str]) -> Iterator[Finding]:
    most, used = int(info.get("maxmemory", 0)), int(info.get("used_memory", 0))
    if most and used > 0.8 * most:
        text = f"It uses {used / most:.0%} of its maxmemory, and refuses writes when that is full."
        fix = "Raise maxmemory; keep less: result_ttl, dead_limit, history."
        yield Finding("serious" if used > 0.95 * most else "warning", "server", text, fix)
    policy = info.get("maxmemory_policy", "noeviction").strip()
    if policy != "noeviction":
        text = f"It may evict jobs and locks (maxmemory-policy {policy})."
        yield Finding("serious", "server", text, "Set `maxmemory-policy noeviction`.")
