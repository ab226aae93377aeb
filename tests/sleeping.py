"""Workers that have nothing to do: the server knows the channels of those that sleep, to wake them."""

from __future__ import annotations

from clients import client_of
from processes import until


def sleepers(url: str, queue: str, count: int) -> None:
    """Wait until so many worker processes sleep on a queue: all that are to fetch, or none once they fetch no more."""
    with client_of(url) as admin:
        until(lambda: admin.zcard(f"lw:{{q:{queue}}}:idle_workers") == count, f"{count} workers sleep on {queue}")
