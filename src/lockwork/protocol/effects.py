"""The effects that a protocol yields to its driver, and the types of protocols.

A protocol is a generator: it yields an effect, and the driver performs it and sends the result into the generator. The
sync driver, the asyncio driver and the simulator perform the same protocols. When a driver is interrupted
(cancellation, Ctrl-C), it throws that exception into the protocol, and performs the cleanup effects that the protocol
yields before the exception propagates.

An effect or a request does not change after its creation, except for the packed bytes that a driver adds.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import Any, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from lockwork.errors import LockworkError
from lockwork.protocol.declarations import Names
from lockwork.protocol.scripts import Script, script

Argument = str | bytes | int


class Call(Struct, eq=False):
    """Run `script`; the result is its reply (bytes for strings).

    The driver may repeat a call when the reply was lost: every script recognizes the effect of its earlier run.
    """

    script: Script
    keys: Sequence[str]
    args: Sequence[Argument]
    patience: float | None = None
    """Seconds to retry while the server is unreachable, if shorter than configured; None: as configured."""
    brief: bool = False
    """Limit each attempt to `patience`, although a healthy server otherwise gets a second."""
    marked: bool = False
    """The first argument is 0; the driver sends 1 when it repeats the call after a lost reply."""
    otherwise: Call | None = None
    """The call that replaces it after a lost reply."""
    finds_ended: bool = False
    """The script checks whether the call's jobs have already ended, if the first argument is 1."""
    ordered: bool = False
    """Later calls on the same connection must not overtake it, also when it must be repeated."""
    replicas: int = 0
    """Number of replicas to wait for. The result is then the reply and the number of replicas that have the write."""
    behind: bool = False
    """The call undoes a call that waits for replicas, and must not overtake that call."""
    prompt: bool = False
    """Send it at once, not with the other calls of this turn, because its caller then keeps the event loop busy."""
    shard: int = 0
    """Shard of a call without keys, on a Cluster."""
    ahead: Callable[[], Call | None] | None = None
    """Prepares the next call; a driver may call it, also repeatedly, while the server works."""
    packed: bytes | None = None
    """The encoded call, if a driver has packed it in advance."""

    def again(self) -> Call:
        """Return the call to send after a lost reply."""
        if self.otherwise is not None:
            return self.otherwise.again()
        return replace(self, args=(1, *self.args[1:]), packed=None) if self.marked else self

    def unguarded(self) -> Call:
        """Return the call to send on a connection that this user cannot close if the call is delayed there.

        It may arrive after a repeated call, when its jobs have ended. So the script always checks for ended jobs.
        """
        return self.again() if self.finds_ended or self.otherwise is not None else self


def script_call(
    name: str,
    keys: object,
    args: Sequence[Argument] = (),
    patience: float | None = None,
    *,
    brief: bool = False,
    otherwise: Call | None = None,
    finds_ended: bool = False,
    ordered: bool = False,
    replicas: int = 0,
    behind: bool = False,
    prompt: bool = False,
    **given: Names,
) -> Call:
    """Return a call of script `name`, checked against its header; raises DeclarationError if it does not fit.

    `keys` is an object with the keys by name, as QueueKeys; or the script's only key; or the keys of many locks.
    `given` are keys that the caller names. For a script whose first argument is `again`, that argument is 0.
    """
    chosen = script(name)
    declared = chosen.declared
    if len(args) != declared.fixed:
        declared.check(args)
    return Call(
        chosen,
        declared.keys(keys, given),
        args,
        patience,
        brief,
        declared.marked,
        otherwise,
        finds_ended,
        ordered,
        replicas,
        behind,
        prompt,
    )


class Park(Struct, eq=False):
    """Wait for a message to `ticket` on this process's channel; the result is its text, or None at the time `until`.

    Messages are hints and may be lost, so `until` (client clock, seconds) is never far away.
    """

    ticket: str
    until: float
    key: str | None = None
    """A key of the lock or queue whose scripts send the message; on a Cluster, the process subscribes in its slot."""
    sent: float | None = None
    """Time of sending of the call that requested the message; messages that were lost earlier are other ones."""
    held: tuple[str, ...] = ()
    """Keys of the locks that the waiter may hold meanwhile, without a lease that the engine knows; lists read them."""


class Clock(Struct, eq=False):
    """The result is the client's clock in seconds. Use it to measure durations; other processes have other clocks."""


class Shards(Struct, eq=False):
    """The result is the number of servers that share the keys: 1, except on a Cluster."""


class Calls(Struct, eq=False):
    """Run independent calls; the result has the reply of each call, or its LockworkError.

    All calls to one server are sent in one round trip. No call waits for replicas.
    """

    calls: Sequence[Call]


class Indexed(Struct, eq=False):
    """The result is the names of a kind that the apps of this process add to its index (index/index.py)."""

    kind: str


Effect = Call | Calls | Park | Clock | Shards | Indexed
Result = TypeVar("Result")
Protocol = Generator[Effect, Any, Result]


def concurrently(protocols: Sequence[Protocol[Result]]) -> Protocol[list[Result]]:
    """Run protocols concurrently and return their results; the calls of each turn are sent together.

    The protocols must not wait for messages, and must not need cleanup. Raises the first error, and closes the others.
    """
    if len(protocols) == 1:
        return [(yield from protocols[0])]
    results: dict[int, Result] = {}
    replies: dict[int, Any] = dict.fromkeys(range(len(protocols)))
    try:
        while replies:
            calls: dict[int, Call] = {}
            for at, reply in replies.items():
                protocol = protocols[at]
                try:
                    effect = protocol.throw(reply) if isinstance(reply, LockworkError) else protocol.send(reply)
                    while not isinstance(effect, Call):
                        effect = protocol.send((yield effect))
                except StopIteration as end:
                    results[at] = end.value
                else:
                    calls[at] = effect
            replies = dict(zip(calls, (yield Calls([*calls.values()])), strict=True)) if calls else {}
    finally:
        for protocol in protocols:
            protocol.close()
    return [results[at] for at in range(len(protocols))]


def on_each_shard(ask: Callable[[int], Protocol[Result]]) -> Protocol[list[Result]]:
    """Run a protocol for each server that shares the keys, concurrently, and return the results."""
    return (yield from concurrently([ask(shard) for shard in range((yield Shards()))]))
