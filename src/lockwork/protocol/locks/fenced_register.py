"""A register that refuses writes from an ended grant: compare-and-set by fence."""

from __future__ import annotations

from lockwork.errors import StaleFence
from lockwork.protocol.effects import Protocol, script_call


def write(key: str, name: str, request: str, value: bytes, fence: int, *, strict: bool) -> Protocol[None]:
    """Write `value`. Raises StaleFence after a write with a higher fence, or with `strict`, with the same fence."""
    written, last_fence = yield script_call("locks/register_set", key, [request, value, fence, int(strict)])
    if not written:
        raise StaleFence(
            f"register {name!r} refuses fence {fence}: it was written under {last_fence}, so this grant has ended"
            if last_fence > fence
            else f"register {name!r} was written under fence {fence} before, and strict allows one write per fence",
            fence,
            last_fence,
        )


def read(key: str) -> Protocol[tuple[bytes, int] | None]:
    """Return the value and its fence; None before the first write."""
    reply = yield script_call("locks/register_get", key, [])
    return (reply[0], reply[1]) if reply else None
