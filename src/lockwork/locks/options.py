"""The description of a lock: its name, its key, its options, and the request that asks the server for it."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Coroutine, Generator, Iterable, Sequence
from typing import Any, Generic, TypedDict, TypeVar
from typing import Protocol as Interface

from msgspec import Struct

from lockwork.config import Config
from lockwork.durations import Duration, lease_milliseconds, seconds
from lockwork.errors import ConfigError
from lockwork.jobs.current import job_in_requests
from lockwork.owners import Owner
from lockwork.protocol import names
from lockwork.protocol.effects import Argument
from lockwork.protocol.locks.grants import LockScripts, Request
from lockwork.protocol.locks.overview import described
from lockwork.runtime.runtime import Runtime

T = TypeVar("T")
G = TypeVar("G")
Steps = Generator[Any, Any, T]
"""A protocol of one server, or the rounds of a quorum."""
_requests = itertools.count()


class LockRuntime(Interface):
    """Runs the calls of a lock and stores its holds: a Runtime, or the QuorumCalls of a quorum."""

    holds: dict[tuple[str, Owner], Any]

    def run(self, steps: Steps[T], /) -> T:
        """Run on this thread."""
        ...

    def arun(self, steps: Steps[T], /) -> Coroutine[Any, Any, T]:
        """Async version of `run`."""
        ...


class LeaseSettings(TypedDict, Generic[G], total=False):
    """Options of every lock, as users give them. The docstring of `Lockwork.lock` explains all options.

    G: the class of its grants.
    """

    wait: Duration | None
    lease: Duration | None
    on_lost: Callable[[G], object] | None


class LockSettings(LeaseSettings[G], total=False):
    """Options of locks that `Lockwork.locks` shows."""

    tags: Sequence[str]


class ExclusiveSettings(LockSettings[G], total=False):
    """Options of locks with one holder at a time, on one server."""

    at_least: Duration | None
    replicas: int


class LockOptions(Struct, eq=False):
    """One lock as a handle asks for it."""

    runtime: Runtime
    runner: LockRuntime
    scripts: LockScripts
    noun: str
    """Term for the lock in errors."""
    name: str
    key: str
    wait: float | None
    """Seconds to wait for it; None: without limit."""
    lease_ms: int
    renewed: bool
    on_lost: Callable[[Any], object] | None
    tags: tuple[str, ...]
    at_least: float = 0
    """Seconds that the lock stays taken after it was granted."""
    at_once: bool = False
    """True if the lease must have its full length from the beginning."""
    replicas: int = 0
    """Number of replicas that must have a grant before it counts."""
    extra: tuple[Argument, ...] = ()
    """Extra arguments of the acquire script."""

    @classmethod
    def read(
        cls,
        runtime: Runtime,
        config: Config,
        scripts: LockScripts,
        noun: str,
        settings: LockSettings[Any],
        runner: LockRuntime | None = None,
    ) -> LockOptions:
        """Check the options that locks of all kinds have; raises ConfigError. The name and key are set later."""
        wait, lease, on_lost = settings.get("wait"), settings.get("lease"), settings.get("on_lost")
        if on_lost is not None and not callable(on_lost):
            raise ConfigError(f"on_lost is a function that takes the grant, not {on_lost!r}")
        return cls(
            runtime,
            runner or runtime,
            scripts,
            noun,
            "",
            "",
            None if wait is None else seconds(wait, "wait", zero=True),
            lease_milliseconds(config.lock_lease if lease is None else lease),
            lease is None,
            on_lost,
            _checked_tags(settings.get("tags", ())),
        )

    @property
    def label(self) -> str:
        """The name as errors show it."""
        return names.display(self.name)

    def request(self, owner: Owner) -> Request:
        """Ask for the lock in the name of `owner`."""
        process = self.runtime.process
        return Request(
            self.key,
            self.name,
            f"{process}:{owner.text}",
            described(f"{process}.{next(_requests):x}", self.tags, job_in_requests()),
            self.runtime.channel,
            self.lease_ms,
            self.renewed,
            self.replicas,
            self.scripts,
            self.noun,
            self.extra,
            self.runtime.subscribed,
            self.at_once,
        )

    def patience(self, wait: Duration | None) -> float | None:
        """Seconds to wait for the lock in one call of `acquire`; None: without limit."""
        return self.wait if wait is None else seconds(wait, "wait", zero=True)


def _checked_tags(tags: Sequence[str]) -> tuple[str, ...]:
    if isinstance(tags, str):
        raise ConfigError(f"tags are a list of texts, not one text: [{tags!r}]")
    if not isinstance(tags, Iterable):
        raise ConfigError(f"tags are a list of texts, not {tags!r}")
    return tuple([names.checked_name(tag, "a tag") for tag in tags])
