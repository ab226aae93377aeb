"""Which fences a store may check."""

from __future__ import annotations

from lockwork.errors import ConfigError
from lockwork.locks.grant import Grant

HIGHEST = 2**53 - 1
"""The server's scripts count in doubles. A fence is about the server's time in microseconds: it is reached in 2255."""


def number(fence: Grant | int) -> int:
    """Return a grant's fence, or the number itself; raises ConfigError for what protects nothing."""
    found = fence.fence if isinstance(fence, Grant) else fence
    if isinstance(found, bool) or not isinstance(found, int) or not 1 <= found <= HIGHEST:
        raise ConfigError(
            f"a fence is the whole number that a lock's grant carries, 1 to 2**53 - 1, not {found!r} "
            "(0 comes from a lock of a shared format, which has none)"
        )
    return found
