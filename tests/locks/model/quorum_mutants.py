"""Mutants of the quorum."""

from __future__ import annotations

from lockwork.protocol.locks import quorum
from simulator.server import Build

MUTANTS = (
    Build(
        "another's grant is taken for one's own",
        (("locks/raise_fence", "holder ~= owner or holder_request ~= request or deadline", "deadline"),),
    ),
    Build(
        "any renewal counts as holding",
        (("locks/renew", "holder == owner and held_fence == fence and deadline > now", "holder"),),
    ),
)
PATCHES = {
    "half the servers are a majority": (quorum, "majority", lambda servers: servers // 2),
    "all servers are a majority": (quorum, "majority", lambda servers: servers),
    "all clocks run alike": (quorum, "drift", lambda lease_ms: 0.0),
}
