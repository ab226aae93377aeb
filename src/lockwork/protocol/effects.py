"""The effects a protocol may ask its driver for, and how a protocol is typed.

A protocol is a generator: it yields one effect, the driver performs it and sends its result back in. The sync driver,
the asyncio driver and the simulator perform the same protocols. A driver that is interrupted (cancellation, Ctrl-C)
throws that exception into the protocol, and performs the clean-up effects it yields before it lets the exception pass.

Nobody changes an effect, or a request, once it is made, but for what a driver has packed ahead. They are not frozen
because that would triple what making one costs, and each call makes several.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from lockwork.errors import LockworkError
from lockwork.protocol.declarations import Names
from lockwork.protocol.scripts import Script, script

Argument = str | bytes | int


@dataclass(slots=True, eq=False)
class Call:
    """Run `script`; the result is its reply (bytes for strings).

    The driver may send a call again when the reply was lost: every script recognises its own earlier effect.
    """

    script: Script
    keys: Sequence[str]
    args: Sequence[Argument]
    patience: float | None = None
    """Seconds to go on trying while the server is away, if that is less than configured; None: as configured."""
    brief: bool = False
    """Its tries may take no longer than `patience`, although a healthy server otherwise gets a second."""
    marked: bool = False
    """The first argument is 0, and becomes 1 when the driver sends the call again after a lost reply."""
    otherwise: Call | None = None
    """What is sent instead of it after a lost reply."""
    finds_ended: bool = False
    """With its first argument 1, the script looks whether the call's jobs have ended already."""
    ordered: bool = False
    """Calls that follow on the same connection must not overtake it, as they would if it had to be sent again."""
    replicas: int = 0
    """Wait for so many replicas to have what the script wrote: the result is then the reply, and how many had it."""
    behind: bool = False
    """It undoes a call that waits for replicas, and must not overtake that."""
    prompt: bool = False
    """Sent at once instead of with the turn's other calls: what its caller does next keeps the event loop busy."""
    shard: int = 0
    """Where a call without keys is for, on a Cluster."""
    ahead: Callable[[], Call | None] | None = None
    """Prepares the call that follows if all goes well; a driver may call it while the server works, once or more."""
    packed: bytes | None = None
    """The call as it is sent, if a driver has packed it ahead of its time."""

    def again(self) -> Call:
        """The call as it is sent after a lost reply."""
        if self.otherwise is not None:
            return self.otherwise.again()
        return replace(self, args=(1, *self.args[1:]), packed=None) if self.marked else self

    def unguarded(self) -> Call:
        """The call as it is sent on a connection that this user could not end if the call were held up there.

        It may arrive after it was sent again, when its jobs have ended: so the script looks for that each time.
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
    """Make a call of script `name`, as its header declares it; raises DeclarationError if it does not fit.

    `keys` has the keys by their names, as QueueKeys; or is the script's one key, or the keys of many locks. `given` are
    the keys that the caller names. A script whose first argument is `again` is called with 0.
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


@dataclass(slots=True, eq=False)
class Park:
    """Wait for a message to `ticket` on this process's channel; the result is its text, or None when `until` has come.

    Messages are hints and may be lost, so `until` (client clock, seconds) is never far away.
    """

    ticket: str
    until: float
    key: str | None = None
    """A key of the lock or queue whose scripts send the message: on a Cluster, a process listens to its slot."""


@dataclass(slots=True, eq=False)
class Clock:
    """The result is the client's clock in seconds: it measures durations, and means nothing to anybody else."""


@dataclass(slots=True, eq=False)
class Shards:
    """The result is the number of servers that share the keys: 1, but on a Cluster."""


@dataclass(slots=True, eq=False)
class Calls:
    """Run calls that do not depend on each other; the result has each one's reply, or the LockworkError that it raised.

    Those for one server leave together, in one round trip. None of them waits for replicas.
    """

    calls: Sequence[Call]


@dataclass(slots=True, eq=False)
class Indexed:
    """The result are the names of a kind that the apps of this process add to its index (index/index.py)."""

    kind: str


Effect = Call | Calls | Park | Clock | Shards | Indexed
Result = TypeVar("Result")
Protocol = Generator[Effect, Any, Result]


def concurrently(protocols: Sequence[Protocol[Result]]) -> Protocol[list[Result]]:
    """Run protocols side by side, and return their results: the calls that they make in each turn leave together.

    They must not wait for messages, nor have anything to clean up. Raises the first error, and ends the others then.
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
    """Run a protocol for each server that shares the keys, side by side, and return the results."""
    return (yield from concurrently([ask(shard) for shard in range((yield Shards()))]))
