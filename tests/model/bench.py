"""Runs protocols one step at a time, at a time that the test sets; and the settings of state machines."""

from __future__ import annotations

import os
from typing import Any, TypeVar

from hypothesis import HealthCheck, Phase, settings
from hypothesis.internal.conjecture.providers import AVAILABLE_PROVIDERS

from lockwork.protocol.effects import Call, Clock, Indexed, Protocol, Shards
from simulation.server import Build, Server

T = TypeVar("T")
SECOND = 1_000_000
CHANNEL = "channel"
BEGIN = 1_800_000_000 * SECOND
_ENDLESS = 10_000
"""Steps; broken builds make protocols that go on while there is more, for ever."""
# Hypothesis's own generator, but as another backend: Hypothesis then leaves out its search for small examples, which
# are forty steps of next to nothing. Mutants are caught in a tenth of the examples and of the time.
AVAILABLE_PROVIDERS["at random"] = AVAILABLE_PROVIDERS["hypothesis"]
EXAMPLES = settings(
    max_examples=int(os.environ.get("LOCKWORK_EXAMPLES", "100")),
    stateful_step_count=40,
    backend="at random",
    deadline=None,
    derandomize=True,
    database=None,
    print_blob=True,
    report_multiple_bugs=False,
    suppress_health_check=list(HealthCheck),
)
ONE_EXAMPLE = settings(EXAMPLES, max_examples=2, phases=[Phase.generate])
"""The first example of a seed, after the smallest of all, with which Hypothesis always begins."""


class Bench:
    """A server whose clock stands still until the test moves it."""

    def __init__(self, server: Server, build: Build) -> None:
        server.reset()
        server.hear(CHANNEL)
        self._server = server
        self._build = build
        self.now: int = BEGIN
        self.messages: list[tuple[str, str]] = []
        self.named: list[str] = []
        """Names that the process would add to an index."""

    def hear(self, channel: str) -> None:
        """Hear one more channel, as the process does whose channel it is."""
        self._server.hear(channel)

    def deafen(self, channel: str) -> None:
        """Stop hearing a channel, as when its process dies."""
        self._server.deafen(channel)

    def call(self, call: Call, *, later: int = 1) -> Any:
        """Run one script, a microsecond later than what was before."""
        self.now += later
        applied = self._server.run(self._build.script(call.script.name), call.keys, call.args, self.now)
        self.messages += applied.messages
        return applied.reply

    def lose(self, key: str) -> None:
        """Let the server forget a key."""
        self._server.command("DEL", key)

    def lose_field(self, key: str, field: str) -> None:
        """Let the server forget a field of a hash."""
        self._server.command("HDEL", key, field)

    def hash(self, key: str) -> dict[str, str]:
        """What a hash on the server holds."""
        return {name.decode(): value.decode() for name, value in self._server.command("HGETALL", key).items()}

    def list(self, key: str) -> list[str]:
        """What a list on the server holds."""
        return [entry.decode() for entry in self._server.command("LRANGE", key, 0, -1)]

    def scores(self, key: str) -> dict[str, float]:
        """What a sorted set on the server holds."""
        return {member.decode(): score for member, score in self._server.command("ZRANGE", key, 0, -1, "WITHSCORES")}

    def fields(self, key: str) -> set[str]:
        """The fields of a hash."""
        return {field.decode() for field in self._server.command("HKEYS", key)}

    def run(self, protocol: Protocol[T], *, twice: bool = False, again: bool = False) -> T:
        """Run a protocol to its end; `twice`: each reply is lost once, so that each call is sent again.

        `again`: what went before was long ago.
        """
        value: Any = None
        for _ in range(_ENDLESS):
            try:
                effect = protocol.send(value)
            except StopIteration as done:
                result: T = done.value
                return result
            if isinstance(effect, Call):
                value = self.call(effect.again() if again else effect)
                if twice:
                    value = self.call(effect.again(), later=0)
            elif isinstance(effect, Shards):
                value = 1
            elif isinstance(effect, Indexed):
                value = self.named
            else:
                assert isinstance(effect, Clock), f"a protocol that waits: {effect}"
                value = self.now / SECOND
        raise AssertionError(f"a protocol that does not end: {protocol}")
