"""Run protocols step by step against a server whose clock the test sets; settings of the state machines."""

from __future__ import annotations

import os
from typing import Any, TypeVar

from hypothesis import HealthCheck, Phase, settings
from hypothesis.internal.conjecture.providers import AVAILABLE_PROVIDERS

from lockwork.protocol.effects import Call, Clock, Indexed, Protocol, Shards
from simulator.server import Build, Server

T = TypeVar("T")
SECOND = 1_000_000
CHANNEL = "channel"
BEGIN = 1_800_000_000 * SECOND
_MARKED = 10**9
"""Expiry (ms) of a key whose expiry was read: another expiry is new."""
_ENDLESS = 10_000
"""Maximum steps of one protocol. A mutant of a script can make a protocol loop without end."""
# Hypothesis's own generator, registered as another backend: Hypothesis then skips its search for small examples, which
# spends forty steps on almost empty ones. Mutants are caught in a tenth of the examples and of the time.
AVAILABLE_PROVIDERS["at random"] = AVAILABLE_PROVIDERS["hypothesis"]
EXAMPLES = settings(
    max_examples=int(os.environ.get("LOCKWORK_EXAMPLES", "60")),
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
"""Generate two examples: Hypothesis always begins with the smallest one, so only the second depends on the seed."""


class Bench:
    """A server whose clock moves only when the test moves it."""

    def __init__(self, server: Server, build: Build) -> None:
        server.reset()
        server.hear(CHANNEL)
        self._server = server
        self._build = build
        self.now: int = BEGIN
        self.messages: list[tuple[str, str]] = []
        self.named: list[str] = []
        """Names that the process would add to an index, as returned for `Indexed`."""

    def hear(self, channel: str) -> None:
        """Subscribe to another channel, like the process that owns it."""
        self._server.hear(channel)

    def deafen(self, channel: str) -> None:
        """Unsubscribe from a channel, as if its process had died."""
        self._server.deafen(channel)

    def call(self, call: Call, *, later: int = 1) -> Any:
        """Run one script `later` microseconds after the previous call."""
        self.now += later
        applied = self._server.run(self._build.script(call.script.name), call.keys, call.args, self.now)
        self.messages += applied.messages
        return applied.reply

    def lose(self, key: str) -> None:
        """Delete a key on the server, as if it had been lost."""
        self._server.command("DEL", key)

    def lose_field(self, key: str, field: str) -> None:
        """Delete a field of a hash on the server, as if it had been lost."""
        self._server.command("HDEL", key, field)

    def expiry(self, key: str) -> int | None:
        """Return the ms until a key expires if a script has set that since the last call of this method, else None."""
        left: int = self._server.command("PTTL", key)
        assert left != -1, "each key expires"
        if left == -2 or left > _MARKED - 3_600_000:
            return None
        self._server.command("PEXPIRE", key, _MARKED)
        return left

    def hash(self, key: str) -> dict[str, str]:
        """Return the fields and values of a hash."""
        return {name.decode(): value.decode() for name, value in self._server.command("HGETALL", key).items()}

    def list(self, key: str) -> list[str]:
        """Return the entries of a list."""
        return [entry.decode() for entry in self._server.command("LRANGE", key, 0, -1)]

    def members(self, key: str) -> set[str]:
        """Return the members of a set."""
        return {member.decode() for member in self._server.command("SMEMBERS", key)}

    def scores(self, key: str) -> dict[str, float]:
        """Return the members and scores of a sorted set."""
        return {member.decode(): score for member, score in self._server.command("ZRANGE", key, 0, -1, "WITHSCORES")}

    def fields(self, key: str) -> set[str]:
        """Return the field names of a hash."""
        return {field.decode() for field in self._server.command("HKEYS", key)}

    def run(self, protocol: Protocol[T], *, twice: bool = False, again: bool = False) -> T:
        """Run a protocol to its end and return its result.

        twice: send each call again right after it, as if its reply had been lost. again: mark each call as a repeated
        one.
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
