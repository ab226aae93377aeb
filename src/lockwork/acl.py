"""Rules for the server's access control lists, by role.

A role names its commands, the beginnings of its keys, and its channels. The rules also load on Redis 6.2, which has
neither `%R~` (keys that are only read) nor `-command|subcommand`. A viewer's rules load there only with `by_eval`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from msgspec import Struct

from lockwork.errors import ConfigError
from lockwork.protocol.keys import checked

_CONNECTION = "client|id client|kill info ping select subscribe"
_EVAL = "eval evalsha"
_CALLS = f"{_CONNECTION} {_EVAL} wait"
_FUNCTIONS = "fcall_ro"
_CLUSTER = "asking cluster|slots ssubscribe sunsubscribe"
_SHARDED = "pubsub|shardnumsub spublish"
_SCRIPTS = (
    "del exists get hdel hexists hget hgetall hincrby hlen hmget hset hsetnx pexpire pttl publish pubsub|numsub set "
    "time unlink"
)
_SETS = "zadd zcard zcount zrange zrangebyscore zrank zrem zscore"
_QUEUES = "hscan hstrlen llen lpop lrem rename rpush sadd scard srem zrangebylex zremrangebyscore"
_RUNNING = "lpush lrange sismember smismember zmscore zrevrangebyscore"
_READS = (
    "exists get hexists hget hgetall hkeys hlen hmget hscan hstrlen llen lrange pttl scard sismember time type "
    "zcard zcount zlexcount zrange zrangebylex zrangebyscore zrank zrevrange zscore"
)
_LOCK_KEYS = ("lock", "quorum", "sem", "rw", "fenced", "limiter", "barrier", "latch", "once")


class Role(Struct, frozen=True):
    """A role. Its key patterns follow the prefix and a colon; `commands` includes the commands in its scripts."""

    about: str
    keys: tuple[str, ...]
    commands: frozenset[str]
    channels: tuple[str, ...] = ("wake:*",)


def _commands(*groups: str) -> frozenset[str]:
    return frozenset(" ".join(groups).split())


ROLES: dict[str, Role] = {
    "producer": Role(
        "enqueues jobs, waits for results, cancels jobs; flows, stocks, delay queues",
        (
            "{q:*",
            "{dq:*",
            "{lockwork}:apps*",
            "{lockwork}:locks*",
            "{lockwork}:index:queues",
            "{lockwork}:index:stocks",
            "{lockwork}:index:locks",
        ),
        _commands(_CALLS, _SCRIPTS, _SETS, _QUEUES),
    ),
    "worker": Role(
        "runs jobs and schedules, and may do all that a producer may",
        ("{q:*", "{dq:*", "{lockwork}:*"),
        _commands(_CALLS, _SCRIPTS, _SETS, _QUEUES, _RUNNING),
    ),
    "locks": Role(
        "locks, semaphores, elections, quorums, limiters, barriers, latches, once, fenced values",
        (
            *(f"{{{kind}:*" for kind in _LOCK_KEYS),
            "{lockwork}:locks*",
            "{lockwork}:index:limiters",
            "{lockwork}:index:locks",
        ),
        _commands(_CALLS, _SCRIPTS, _SETS, "hkeys type"),
    ),
    "operator": Role(
        "everything that Lockwork does: dead jobs, limits, lists of all queues and locks",
        ("*",),
        _commands(_CALLS, _SCRIPTS, _SETS, _QUEUES, _RUNNING, "hkeys scan slowlog|get type zlexcount zrevrange"),
    ),
    "viewer": Role(
        "reads everything that the command line and the dashboard show, and changes no key",
        ("*",),
        _commands(_CONNECTION, _FUNCTIONS, _READS),
    ),
}


def rules(roles: Sequence[str], prefix: str = "lw", *, cluster: bool = False, by_eval: bool = False) -> list[str]:
    """Return the rules of a user with these roles, for `ACL SETUSER` or a file; raises ConfigError.

    They replace the user's rules, and leave its passwords. `cluster`: on the nodes of a Cluster, of Redis 7 or later.
    `by_eval`: a viewer runs scripts, on a server that has no functions.
    """
    unknown = [role for role in roles if role not in ROLES]
    if unknown or not roles:
        raise ConfigError(f"a role is one of {', '.join(ROLES)}, not {', '.join(unknown) or 'none'}")
    start = _literal(_word(prefix, "the prefix"))
    chosen = [ROLES[role] for role in dict.fromkeys(roles)]
    keys = dict.fromkeys(f"~{start}:{pattern}" for role in chosen for pattern in role.keys)
    channels = dict.fromkeys(f"&{start}:{pattern}" for role in chosen for pattern in role.channels)
    commands = frozenset[str]().union(*(role.commands for role in chosen))
    if by_eval:
        commands |= _commands(_EVAL)
    if _commands(_EVAL) <= commands:  # with EVAL, the functions are not needed
        commands -= _commands(_FUNCTIONS)
    if cluster:
        commands |= _commands(_CLUSTER, _SHARDED if "publish" in commands else "")
    return [
        "on", "resetkeys", *keys, "resetchannels", *channels, "-@all", *(f"+{command}" for command in sorted(commands))
    ]  # fmt: skip


def user_name(name: str) -> str:
    """Return the name of a user if the server takes it; raises ConfigError."""
    if _word(name, "a user's name") == "default":
        raise ConfigError("clients that name no user are the user named default: choose another name")
    return name


def _word(text: str, what: str) -> str:
    """Return the text if redis-cli and an ACL file read it as one word; raises ConfigError."""
    if re.search(r"[\"'\s]", checked(text, what)):
        raise ConfigError(f"{what} must have no quotes, or redis-cli would read them: not {text!r}")
    return text


def _literal(text: str) -> str:
    """Escape the special characters of the server's patterns."""
    return re.sub(r"([*?\[\]^\\])", r"\\\1", text)
