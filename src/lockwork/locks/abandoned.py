"""Grants that an owner, such as a worker's job, did not release before its end."""

from __future__ import annotations

from typing import Any

from lockwork.locks import quorum_calls
from lockwork.locks.hold import Hold
from lockwork.locks.quorum_calls import QuorumCalls
from lockwork.logs import Log
from lockwork.owners import Owner
from lockwork.runtime import runtime
from lockwork.runtime.runtime import Runtime

log: Log = Log("lockwork")


def release_all_of(owner: Owner, described: str) -> bool:
    """End the owner, and release its remaining grants with a warning for each; `described` names it in the warnings.

    The engine tells the server; nothing is awaited. Return False if a permit stays, because the program still refers
    to its grant.
    """
    owner.end(described)
    released = True
    every: list[Runtime | QuorumCalls] = [*runtime.living(), *quorum_calls.living()]
    for books in every:
        # the newest first: a multilock before its parts
        for (_, holder), hold in reversed(list(books.holds.items())):
            if holder.acts_for(owner):
                if not books.active or hold.lease is None:
                    hold.strike_lost()  # closed meanwhile, or released in a body that can never end
                elif hold.owner_gone():
                    _release(hold, described)
                else:
                    released = False
    return released


def _release(hold: Hold[Any], described: str) -> None:
    if hold.lost:
        hold.give_up()
        return
    log.warning(
        "%s ended without releasing %s, which is released now. Use `with`, or release it in `finally`",
        described,
        hold.shown,
    )
    hold.release_later()
    if hold.bodies:
        hold.strike_lost()
