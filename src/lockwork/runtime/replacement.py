"""What tests put in place of the servers of all runtimes of this process; see `lockwork.testing`."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, TypeVar
from typing import Protocol as Interface

if TYPE_CHECKING:
    from lockwork.protocol.effects import Protocol
    from lockwork.runtime.endpoint import Endpoint
    from lockwork.runtime.runtime import Runtime

T = TypeVar("T")


class ProtocolRunner(Interface):
    """Runs the protocols of all runtimes, instead of their drivers."""

    def check_open(self) -> None:
        """Raise an error if no runtime may open its server."""

    def run(self, runtime: Runtime, protocol: Protocol[T], /) -> T:
        """Run a protocol on this thread."""
        ...

    def arun(self, runtime: Runtime, protocol: Protocol[T], /) -> Coroutine[Any, Any, T]:
        """Run a protocol in this asyncio task."""
        ...


class Replacement:
    """What is in force in this process; None in production."""

    __slots__ = ("opener", "runner")

    def __init__(self) -> None:
        self.runner: ProtocolRunner | None = None
        self.opener: Callable[[], tuple[Endpoint, Callable[[], None]]] | None = None
        """Opens the server of a runtime, instead of its own opener."""


replacement: Replacement = Replacement()
