"""Mutants of a queue's lock."""

from __future__ import annotations

from simulator.server import Build

_NAME = "locks/release_and_push"
MUTANTS = (
    Build("a lease that is over enqueues", ((_NAME, "if deadline - now <= 0 then", "if false then"),)),
    Build("any owner may release", ((_NAME, "holder ~= owner or held_fence ~= fence or", "not deadline or"),)),
    Build("a job without the release", ((_NAME, "else\n  release_to_next(held_fence, deadline, head, tail)", ""),)),
    Build("a finished call sent again is not recognized", ((_NAME, "if again and (", "if false and ("),)),
    Build("an ended job is not recognized", ((_NAME, "has_result(id)", "false"),)),
    Build("the minimum is forgotten", ((_NAME, "if at_least > 0 then", "if false then"),)),
)
