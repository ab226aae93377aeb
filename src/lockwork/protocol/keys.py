"""Key and channel names, a documented contract (docs/keys.md). A lock, or a queue with its stocks, has one hash tag."""

from __future__ import annotations

import re
from typing import NamedTuple

from lockwork.errors import ConfigError
from lockwork.protocol import slots
from lockwork.protocol.names import stored

PRIORITIES = ("high", "normal", "low")
MOST_PARTITIONS = 256
_PARTITION = re.compile(r"[^/]+/(0|[1-9][0-9]{0,2})")
_NAME = re.compile(r"[^\s{}\x00-\x1f\x7f\ud800-\udfff]{1,200}")


def checked(name: object, what: str) -> str:
    """Return the name of a task, a queue or another object in code, which keys contain unescaped; raises ConfigError.

    It has 1 to 200 characters, and no white space, brace or control character. Names that may come from users' data are
    escaped instead (`names.stored`).
    """
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        text = repr(name) if len(repr(name)) <= 60 else repr(name)[:57] + "..."
        if not isinstance(name, str):
            raise ConfigError(f"{what} must be text, not {text}")
        raise ConfigError(
            f"{what} must be 1 to 200 characters without white space, braces or control characters, not {text}"
        )
    return name


def is_name(name: str) -> bool:
    """Return True if `checked` accepts the name."""
    return _NAME.fullmatch(name) is not None


def channel(prefix: str, process: str) -> str:
    """Return the pub/sub channel that sends wake-ups to one process."""
    return f"{prefix}:wake:{process}"


def sharded(channel: str, key: str) -> str:
    """Return the sharded channel that sends wake-ups for a key's slot to a process, on a Cluster."""
    return f"{channel}{{{slots.tag_of(key)}}}"


def process(channel: str) -> str:
    """Return the process that subscribes to a channel."""
    return channel.rpartition(":wake:")[2]


def lock(prefix: str, name: str) -> str:
    """Return the only key of a lock: holder, fence and waiters."""
    return f"{prefix}:{{lock:{stored(name)}}}"


def quorum(prefix: str, name: str) -> str:
    """Return the only key of a quorum lock on each of its servers; its structure is that of a lock."""
    return f"{prefix}:{{quorum:{stored(name)}}}"


def semaphore(prefix: str, name: str) -> str:
    """Return the only key of a semaphore: capacity, holders and waiters."""
    return f"{prefix}:{{sem:{stored(name)}}}"


def rwlock(prefix: str, name: str) -> str:
    """Return the only key of a read-write lock: holders and waiters."""
    return f"{prefix}:{{rw:{stored(name)}}}"


def fenced(prefix: str, name: str) -> str:
    """Return the only key of a fenced register: its value, and the fence of the last write."""
    return f"{prefix}:{{fenced:{stored(name)}}}"


class LimiterKeys(NamedTuple):
    """A limiter's state, and the log of its bookings."""

    limiter: str
    log: str


def limiter(prefix: str, name: str) -> LimiterKeys:
    """Return the keys of a limiter."""
    base = f"{prefix}:{{limiter:{stored(name)}}}"
    return LimiterKeys(base, f"{base}:log")


class BarrierKeys(NamedTuple):
    """A barrier's arrivals, their places by deadline, and their order."""

    barrier: str
    places: str
    order: str


def barrier(prefix: str, name: str) -> BarrierKeys:
    """Return the keys of a barrier."""
    base = f"{prefix}:{{barrier:{stored(name)}}}"
    return BarrierKeys(base, f"{base}:places", f"{base}:order")


class LatchKeys(NamedTuple):
    """A latch, and the two logs of applied requests, which rotate."""

    latch: str
    logs: tuple[str, str]


def latch(prefix: str, name: str) -> LatchKeys:
    """Return the keys of a latch."""
    base = f"{prefix}:{{latch:{stored(name)}}}"
    return LatchKeys(base, (f"{base}:done:0", f"{base}:done:1"))


class DelayQueueKeys(NamedTuple):
    """A delay queue's entries, its waiters, its state, and the two logs of its calls, which rotate."""

    entries: str
    waiters: str
    state: str
    logs: tuple[str, str]


def delay_queue(prefix: str, name: str) -> DelayQueueKeys:
    """Return the keys of a delay queue."""
    base = f"{prefix}:{{dq:{stored(name)}}}"
    return DelayQueueKeys(base, f"{base}:waiters", f"{base}:state", (f"{base}:done:0", f"{base}:done:1"))


def once(prefix: str, name: str) -> str:
    """Return the only key of a function that runs once per period: its run, and its result."""
    return f"{prefix}:{{once:{stored(name)}}}"


class StockKeys(NamedTuple):
    """A stock's state, and its reservations by expiry."""

    stock: str
    holds: str


class QueueKeys:
    """All keys of one queue, or of one partition: they share a hash tag, `{q:NAME}` or `{q:NAME/p/SUFFIX}`."""

    __slots__ = (
        "base",
        "counted_tasks",
        "due",
        "errors",
        "expiry",
        "flows",
        "group_queue",
        "groups",
        "history",
        "history_order",
        "hours",
        "idle_workers",
        "job_notes",
        "jobs",
        "long_results",
        "minutes",
        "name",
        "parked",
        "parked_since",
        "prefix",
        "ready",
        "results",
        "rounds",
        "sleeper",
        "stats",
        "suspects",
        "throttled",
        "timelines",
        "tries",
        "tuples",
        "unique",
        "unique_ends",
        "unreported",
        "void",
        "watch",
        "workers",
    )

    def __init__(self, prefix: str, queue: str) -> None:
        base = f"{prefix}:{{{slots.tag(queue)}}}"
        self.name: str = queue
        self.prefix: str = prefix
        self.base: str = base
        self.jobs: str = f"{base}:jobs"
        self.ready: tuple[str, ...] = tuple(f"{base}:ready:{level}" for level in range(len(PRIORITIES)))
        self.due: str = f"{base}:due"
        self.tries: str = f"{base}:tries"
        self.errors: str = f"{base}:errors"
        self.results: tuple[str, str] = (f"{base}:results:0", f"{base}:results:1")
        self.watch: str = f"{base}:watch"
        self.idle_workers: str = f"{base}:idle_workers"
        self.workers: str = f"{base}:workers"
        self.stats: str = f"{base}:stats"
        self.suspects: str = f"{base}:suspects"
        self.group_queue: str = f"{base}:group_queue"
        self.groups: str = f"{base}:groups"
        self.throttled: str = f"{base}:throttled"
        self.rounds: tuple[str, ...] = tuple(f"{base}:rounds:{level}" for level in range(len(PRIORITIES)))
        self.job_notes: str = f"{base}:job_notes"
        self.expiry: str = f"{base}:expiry"
        self.void: str = f"{base}:void"
        self.long_results: str = f"{base}:long_results"
        self.unique: str = f"{base}:unique"
        self.unique_ends: str = f"{base}:unique:ends"
        self.unreported: str = f"{base}:unreported"
        self.flows: str = f"{base}:flows"
        self.history: str = f"{base}:history"
        self.history_order: str = f"{base}:history:order"
        self.timelines: str = f"{base}:attempts"
        self.parked: str = f"{base}:parked"
        self.parked_since: str = f"{base}:parked:since"
        self.minutes: tuple[str, str] = (f"{base}:metrics:minutes:0", f"{base}:metrics:minutes:1")
        self.hours: tuple[str, str] = (f"{base}:metrics:hours:0", f"{base}:metrics:hours:1")
        self.counted_tasks: str = f"{base}:metrics:tasks"
        self.sleeper: str = ""
        """Channel of a worker that is probably idle, from the previous reply to a caller with these keys."""
        self.tuples: dict[str, tuple[str, ...]] = {}
        """Cache of the keys that each script's header declares, filled by its first call."""

    def run(self, session: str) -> str:
        """Return the key of the jobs leased to one worker session."""
        return f"{self.base}:run:{session}"

    @property
    def dead(self) -> str:
        """The jobs that failed permanently, by time."""
        return f"{self.base}:dead"

    def step(self, request: str) -> str:
        """Return the key of the latest step of an operation of several calls; it expires after two minutes."""
        return f"{self.base}:step:{request}"

    @property
    def schedules(self) -> str:
        """The queue's schedules."""
        return f"{self.base}:schedules"

    @property
    def seen(self) -> str:
        """Time of the last declaration of each schedule."""
        return f"{self.base}:schedules:seen"

    @property
    def created(self) -> str:
        """The schedules that were created at run time."""
        return f"{self.base}:schedules:created"

    @property
    def looks(self) -> str:
        """The next time at which a worker must look at each created schedule."""
        return f"{self.base}:schedules:looks"

    @property
    def created_names(self) -> str:
        """The names of the created schedules, in order."""
        return f"{self.base}:schedules:names"

    def kept(self, id: str) -> str:
        """Return the key of a register with facts about a job that an integration keeps after its end."""
        return f"{self.base}:kept:{id}"

    def lock(self, name: str) -> str:
        """Return the only key of a lock of the queue; its structure is that of any lock."""
        return f"{self.base}:lock:{stored(name)}"

    def stock(self, name: str) -> StockKeys:
        """Return the keys of a stock."""
        name = stored(name)
        return StockKeys(f"{self.base}:stock:{name}", f"{self.base}:holds:{name}")

    def stock_deleted(self, name: str) -> str:
        """Return the key of the requests that recently deleted a stock."""
        return f"{self.base}:deleted:{stored(name)}"


def checked_queue(name: object) -> str:
    """Return a valid name of a queue, or of a partition such as "mail/2"; raises ConfigError."""
    queue = checked(name, "a queue's name")
    if "/" in queue and (not _PARTITION.fullmatch(queue) or partition_number(queue) >= MOST_PARTITIONS):
        raise ConfigError(
            f"a queue's name must not contain a slash, except in the name of a partition, 'mail/0' to "
            f"'mail/{MOST_PARTITIONS - 1}', not {queue!r}"
        )
    return queue


def whole_queue(name: object, what: str) -> str:
    """Return a valid name of a whole queue; raises ConfigError, also for a partition."""
    queue = checked_queue(name)
    if "/" in queue:
        raise ConfigError(
            f"{what} must not hold a slash: it is that of the whole queue, {base_queue(queue)!r}, not {queue!r}; to "
            "which partition a job goes is decided when it is enqueued"
        )
    return queue


def base_queue(name: str) -> str:
    """Return the queue of a partition; a queue's name is returned unchanged."""
    return name.partition("/")[0]


def partition_number(name: str) -> int:
    """Return the number of a partition, -1 for a whole queue."""
    number = name.partition("/")[2]
    return int(number) if number else -1
