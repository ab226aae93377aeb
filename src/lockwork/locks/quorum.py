"""Locks on a majority of independent servers: `Quorum([...]).lock("x")`.

One server of three, or two of five, may die or hang without affecting the lock. But a server that restarts without its
data has forgotten its grants, so a second holder may find a majority. Keep such a server offline for the longest lease
in use, or preserve its data (`appendfsync always`). As with every lease, a holder that was paused may write too late,
so send the fence with each write. Waiters have no order: each tries again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Protocol as Interface
from typing import Self

from lockwork.config import Config
from lockwork.durations import Duration, seconds
from lockwork.errors import ConfigError
from lockwork.locks.quorum_calls import QuorumCalls
from lockwork.locks.quorum_lock import QuorumGrant, QuorumLock
from lockwork.runtime.connect import one_server
from lockwork.runtime.runtime import Runtime


class QuorumApp(Interface):
    """The interface of a Lockwork object that a quorum uses."""

    runtime: Runtime
    config: Config


class Quorum:
    """An odd number of independent servers, given as Lockwork objects or URLs; no replicas of each other.

    `patience` is how long a server may take to answer before it counts as unreachable. Use one object per process: its
    locks are re-entrant only within it, and its threads run until it is closed.
    """

    def __init__(self, servers: Sequence[QuorumApp | str], *, patience: Duration = 0.5) -> None:
        if isinstance(servers, str) or not isinstance(servers, Sequence):
            raise ConfigError(f"a quorum needs a list of servers, not {type(servers)}")
        for server in servers:
            if not isinstance(server, str) and not hasattr(server, "runtime"):
                raise ConfigError(f"a quorum's servers are URLs or Lockwork objects, not {type(server)}")
        if len(servers) < 3 or len(servers) % 2 == 0:
            raise ConfigError(
                "a quorum needs an odd number of servers, 3 or more: one more server would not survive more failures"
            )
        self._patience = seconds(patience, "patience")
        apps = [server for server in servers if not isinstance(server, str)]
        if len({id(app.runtime) for app in apps}) < len(apps) or len(set(servers)) < len(servers):
            raise ConfigError("a quorum's servers must be different ones")
        self._config = apps[0].config if apps else Config.read({})
        self._own = [_opened(server, self._config) for server in servers if isinstance(server, str)]
        own = iter(self._own)
        self._calls = QuorumCalls([next(own) if isinstance(server, str) else server.runtime for server in servers])
        self._prefixes = [
            self._config.prefix if isinstance(server, str) else server.config.prefix for server in servers
        ]

    def lock(
        self,
        name: str,
        *,
        wait: Duration | None = None,
        lease: Duration | None = None,
        on_lost: Callable[[QuorumGrant], object] | None = None,
        tags: Sequence[str] = (),
    ) -> QuorumLock:
        """A lock that a majority of the servers must grant; its options are `Lockwork.lock`'s of the same names."""
        return QuorumLock(
            self._calls, self._prefixes, self._patience, self._config, name,
            wait=wait, lease=lease, on_lost=on_lost, tags=tags,
        )  # fmt: skip

    def close(self) -> None:
        """End the threads, and close the connections to the servers that are listed as URLs."""
        self._calls.close()
        for runtime in self._own:
            runtime.close()

    async def aclose(self) -> None:
        """Async version of `close`."""
        self._calls.close()
        for runtime in self._own:
            await runtime.aclose()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()


def _opened(url: str, config: Config) -> Runtime:
    return Runtime(
        one_server(url),
        prefix=config.prefix,
        patience=config.patience,
        allow_eviction=config.allow_eviction,
    )
