"""What a lock is: its name, its key, its options, and the request that asks the server for it."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Coroutine, Generator, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar
from typing import Protocol as Interface

from lockwork.config import Config
from lockwork.durations import Duration, milliseconds, seconds
from lockwork.errors import ConfigError
from lockwork.owners import Owner
from lockwork.protocol import keys
from lockwork.protocol.effects import Argument
from lockwork.protocol.locks.grants import Request
from lockwork.protocol.locks.overview import with_tags
from lockwork.runtime.runtime import Runtime

T = TypeVar("T")
Steps = Generator[Any, Any, T]
"""A protocol of one server, or the rounds of a quorum."""
_requests = itertools.count()


class LockRuntime(Interface):
    """What runs the calls of a lock, and keeps its holds: a Runtime, or the QuorumCalls of a quorum."""

    holds: dict[tuple[str, Owner], Any]

    def run(self, steps: Steps[T], /) -> T:
        """Run on this thread."""
        ...

    def arun(self, steps: Steps[T], /) -> Coroutine[Any, Any, T]:
        """Async version of `run`."""
        ...


@dataclass(slots=True, eq=False)
class LockOptions:
    """One lock as a handle asks for it."""

    runtime: Runtime
    runner: LockRuntime
    kind: str
    """Its scripts are called `<kind>_acquire`, `<kind>_release` and so on."""
    noun: str
    """What errors call it."""
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
    """Whether the lease must be whole from the beginning."""
    replicas: int = 0
    """How many replicas must have a grant before it counts."""
    extra: tuple[Argument, ...] = ()
    """What the acquire script wants to know besides."""

    @classmethod
    def read(
        cls,
        runtime: Runtime,
        config: Config,
        kind: str,
        noun: str,
        *,
        wait: Duration | None,
        lease: Duration | None,
        on_lost: Callable[[Any], object] | None,
        tags: Sequence[str] = (),
        runner: LockRuntime | None = None,
    ) -> LockOptions:
        """Check the options that locks of all kinds have; raises ConfigError. The name and key are set later."""
        if on_lost is not None and not callable(on_lost):
            raise ConfigError(f"on_lost is a function that takes the grant, not {on_lost!r}")
        return cls(
            runtime,
            runner or runtime,
            kind,
            noun,
            "",
            "",
            None if wait is None else seconds(wait, "wait", zero=True),
            milliseconds(config.lock_lease if lease is None else lease, "lease"),
            lease is None,
            on_lost,
            _checked_tags(tags),
        )

    def request(self, owner: Owner) -> Request:
        """Ask for the lock in the name of `owner`."""
        process = self.runtime.process
        request = f"{process}.{next(_requests):x}"
        return Request(
            self.key,
            self.name,
            f"{process}:{owner.text}",
            with_tags(request, self.tags) if self.tags else request,
            self.runtime.channel,
            self.lease_ms,
            self.renewed,
            self.replicas,
            self.kind,
            self.noun,
            self.extra,
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
    for tag in tags:
        if "," in keys.checked(tag, "a tag"):
            raise ConfigError(f"a tag must not contain a comma: {tag!r}")
    return tuple(tags)
