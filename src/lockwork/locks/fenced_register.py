"""A value on the server that a zombie holder cannot overwrite: `lw.fenced("leader")`."""

from __future__ import annotations

from typing import Any, NamedTuple

from lockwork import codecs
from lockwork.config import Config
from lockwork.durations import Duration, milliseconds
from lockwork.errors import ConfigError
from lockwork.ids import new_id
from lockwork.locks.grant import Grant
from lockwork.naming import literal
from lockwork.protocol import keys, names
from lockwork.protocol.effects import Protocol
from lockwork.protocol.locks import fenced_register
from lockwork.runtime.runtime import Runtime

HIGHEST = 2**53 - 1
"""Maximum fence: the server's scripts count in doubles. Fences, about the server's time in µs, reach it in 2255."""


def number(fence: Grant | int) -> int:
    """Return a grant's fence, or the number itself; raises ConfigError unless it is a fence that protects a write."""
    value = fence.fence if isinstance(fence, Grant) else fence
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= HIGHEST:
        raise ConfigError(
            f"a fence is the whole number that a lock's grant carries, 1 to 2**53 - 1, not {value!r} "
            "(0 comes from a lock of a shared format, which has none)"
        )
    return value


class Written(NamedTuple):
    """The value of a register, and the fence of its last write."""

    value: Any
    fence: int


class Register:
    """A handle to one named register. Without a `ttl`, its value is kept for good, so use a limited number of names."""

    def __init__(self, runtime: Runtime, config: Config, name: str) -> None:
        self.name: str = literal(name, "a register's name")
        self._runtime = runtime
        self._key = keys.fenced(config.prefix, name)
        self._cap = config.max_payload

    def set(self, value: object, fence: Grant | int, *, strict: bool = False, ttl: Duration | None = None) -> None:
        """Write `value`, which JSON must be able to hold, unless a higher fence has written before.

        The same fence may write again, because one holder writes as often as it likes; with `strict` only once.
        The value and its fence are deleted `ttl` after the last write; by default, never. Raises StaleFence,
        ConfigError or PayloadTooLarge; then nothing was written.
        """
        self._runtime.run(self._write(value, fence, ttl, strict=strict))

    async def aset(
        self, value: object, fence: Grant | int, *, strict: bool = False, ttl: Duration | None = None
    ) -> None:
        """Async version of `set`."""
        await self._runtime.arun(self._write(value, fence, ttl, strict=strict))

    def get(self) -> Written | None:
        """Read the value and its fence; None if the register was never written. Reading needs no fence."""
        return _written(self._runtime.run(fenced_register.read(self._key)))

    async def aget(self) -> Written | None:
        """Async version of `get`."""
        return _written(await self._runtime.arun(fenced_register.read(self._key)))

    def _write(self, value: object, fence: Grant | int, ttl: Duration | None, *, strict: bool) -> Protocol[None]:
        encoded = codecs.encode(value, "the value of a register", self._cap)
        ttl_ms = 0 if ttl is None else milliseconds(ttl, "ttl")
        return fenced_register.write(
            self._key, names.display(self.name), new_id(), encoded, number(fence), strict=strict, ttl_ms=ttl_ms
        )

    def __repr__(self) -> str:
        return f"<Register {names.display(self.name)!r}>"


def _written(stored: tuple[bytes, int] | None) -> Written | None:
    return None if stored is None else Written(codecs.decode(stored[0]), stored[1])
