"""The settings of a Lockwork object: one frozen value, checked once. An unknown name is an error with a suggestion."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from inspect import get_annotations
from typing import Any, TypedDict

from msgspec import Struct, field

from lockwork.durations import Duration, seconds
from lockwork.errors import ConfigError
from lockwork.history_bounds import HistoryBound, HistoryBounds
from lockwork.partitions import Partitions
from lockwork.payloads.payloads import Codec, Payloads, Rollout, read_codec_settings
from lockwork.protocol.keys import checked, whole_queue
from lockwork.suggestions import about_as_close
from lockwork.validation import whole, yes_or_no


class Settings(TypedDict, total=False):
    """The keyword arguments of Lockwork, which Config documents."""

    prefix: str
    lock_lease: Duration
    patience: Duration
    result_ttl: Duration
    dead_ttl: Duration
    dead_limit: int
    unknown_task_ttl: Duration
    history: HistoryBound | Mapping[str, HistoryBound]
    max_payload: int
    max_result: int
    codec: Codec | Mapping[str, Codec] | None
    codec_rollout: Rollout | None
    allow_eviction: bool
    partitions: Mapping[str, int]
    ten_priorities: Sequence[str]
    app_name: str | None
    app_version: str | None


_OTHERS = {
    "countdown": ("delay",),
    "eta": ("at",),
    "job_timeout": ("timeout",),
    "max_retries": ("retries",),
    "retry_delay": ("backoff",),
    "soft_time_limit": ("timeout",),
    "time_limit": ("hard_timeout",),
    "ttl": ("expires", "result_ttl"),
}
"""Names of our options in other libraries."""
_CLOSE = 0.65
DEFAULT_PREFIX = "lw"
"""The prefix without a setting and without LOCKWORK_PREFIX."""
_MOST = 1 << 40
_LEAST_LOCK_LEASE = 0.3


def check_names(
    given: Iterable[str],
    known: type,
    complaint: str,
    elsewhere: tuple[Collection[str], str] | None = None,
    foreign: Mapping[str, str] | None = None,
) -> None:
    """Raise ConfigError, with a suggestion, for a name that the TypedDict `known` does not have.

    `elsewhere`: names that belong to another place, and the hint for a `{name}` of them. `foreign`: names in other
    libraries, with hints.
    """
    names = list(get_annotations(known))
    for name in given:
        if name not in names:
            if foreign is not None and name in foreign:
                raise ConfigError(f"{complaint} {name!r}: {foreign[name]}")
            meant = _OTHERS.get(name, (name,))
            if elsewhere is not None and meant[0] not in names and meant[0] in elsewhere[0]:
                ours = "" if meant[0] == name else f"it is {meant[0]!r}; "
                raise ConfigError(f"{complaint} {name!r}: {ours}{elsewhere[1].format(name=meant[0])}")
            close = [one for one in meant if one in names] or about_as_close(name, names, _CLOSE)
            hint = f"did you mean {' or '.join(map(repr, close))}?" if close else f"known are {', '.join(names)}"
            raise ConfigError(f"{complaint} {name!r}: {hint}")


class Config(Struct, frozen=True):
    """Checked settings; durations are in seconds."""

    prefix: str = DEFAULT_PREFIX
    """The beginning of every key and channel; apps with different prefixes do not see each other."""
    lock_lease: float = 15.0
    """Lifetime of a lock without renewal, in seconds. While the process lives, it renews after each third of it."""
    patience: float = 10.0
    """Maximum time in seconds that a call tries to reach the server before it raises ServerUnavailable."""
    result_ttl: float = 600.0
    """Minimum time in seconds that results are kept, and half of the maximum. The same in all processes of a queue."""
    dead_ttl: float = 30 * 86400.0
    """Time in seconds that a dead job is kept. Must be the same in all workers of a queue."""
    dead_limit: int = 100_000
    """Maximum number of dead jobs per queue; the oldest are deleted first. With 0, each is kept for some seconds.

    Must be the same in all workers of a queue."""
    unknown_task_ttl: float = 86400.0
    """Time in seconds until a job is dead if no live worker has its task, from its first return to the queue on."""
    history: HistoryBounds = field(default_factory=HistoryBounds)
    """Ended jobs that each queue keeps, besides dead ones: the newest "10k", all of a period such as "1d", or "off".

    Or a dict by queue, for instance {"mail": "1d"}. Must be the same in all workers of a queue."""
    max_payload: int = 1 << 20
    """Maximum bytes of a job's encoded arguments."""
    max_result: int = 4 << 20
    """Maximum bytes of an encoded result."""
    codec: Any = None
    """Encrypts or signs payloads; or a dict by queue."""
    codec_rollout: Rollout | None = None
    """To introduce a codec: "read" accepts plain payloads and writes them, "write" accepts them and writes none."""
    allow_eviction: bool = False
    """True to accept a server whose maxmemory-policy may evict Lockwork's keys."""
    partitions: Partitions = field(default_factory=Partitions)
    """Number of partitions by queue, for instance {"mail": 4}. Must be the same in all processes of a queue."""
    ten_priorities: tuple[str, ...] = ()
    """Queues whose jobs may have the priorities 0 (first) to 9, besides the words."""
    app_name: str | None = None
    """The app's name in lists of workers and apps; None: the text `module:object` given to `lockwork worker`."""
    app_version: str | None = None
    """The version of the app's code, shown with its workers; None: LOCKWORK_APP_VERSION, if that is set."""

    @property
    def payloads(self) -> Payloads | None:
        """The codecs of the app; None without one."""
        return None if self.codec is None else Payloads(self.codec, self.prefix, self.codec_rollout)

    @classmethod
    def read(cls, settings: Mapping[str, Any]) -> Config:
        """Check the given settings; raises ConfigError."""
        check_names(settings, Settings, "Lockwork has no setting")
        values = {"prefix": os.environ.get("LOCKWORK_PREFIX") or DEFAULT_PREFIX, **settings}
        for name in ("lock_lease", "result_ttl", "dead_ttl", "patience", "unknown_task_ttl"):
            if name in values:
                values[name] = seconds(values[name], name, zero=name in ("patience", "unknown_task_ttl"))
        for name in ("max_payload", "max_result"):
            whole(values.get(name, 1), f"{name}, in bytes,", 1, _MOST)
        whole(values.get("dead_limit", 0), "dead_limit", 0, _MOST)
        yes_or_no(values.get("allow_eviction", False), "allow_eviction")
        if "history" in values:
            values["history"] = HistoryBounds.read(values["history"])
        if "partitions" in values:
            values["partitions"] = Partitions.read(values["partitions"])
        values |= read_codec_settings(values)
        values["ten_priorities"] = _queues(values.get("ten_priorities", ()))
        if values.get("app_name") is not None:
            checked(values["app_name"], "the app's name")
        if values.get("app_version") is not None:
            checked(values["app_version"], "the app's version")
        config = cls(**values)
        checked(config.prefix, "the prefix" if "prefix" in settings else "LOCKWORK_PREFIX")
        if config.lock_lease < _LEAST_LOCK_LEASE:
            raise ConfigError(
                f"lock_lease must be at least {_LEAST_LOCK_LEASE:g} s, not {settings['lock_lease']!r}: locks are "
                "renewed every third of it"
            )
        if config.result_ttl < 60:
            raise ConfigError("result_ttl must be at least 60 s: it also guards enqueueing against lost replies")
        return config


def _queues(names: object) -> tuple[str, ...]:
    if isinstance(names, str) or not isinstance(names, Sequence):
        raise ConfigError(f'ten_priorities must be a list of queues, such as ["mail"], not {names!r:.60}')
    return tuple(dict.fromkeys(whole_queue(name, "a queue of ten_priorities") for name in names))
