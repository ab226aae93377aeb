"""Mutants of unique jobs. The checker must catch each, or it proves nothing."""

from __future__ import annotations

from simulator.server import Build

_PUSH = "queue/push_unique"
_OVER = "if over then free_name(id, record) end"
_HOLDER = "if holder then return holder, become(holder, record, delay, latest) end"
MUTANTS = (
    Build("a full queue lets a new name in", ((_PUSH, "if no_room then return no_room end", ""),)),
    Build("a duplicate call is refused", ((_PUSH, "named[name] or holder_of(name)", "named[name]"),)),
    Build("a name that is taken does not matter", ((_PUSH, _HOLDER, ""),)),
    Build(
        "a dead job keeps its unique name",
        (("queue/parts/groups", _OVER, ""), ("queue/parts/unique_names", "and not redis.call('ZSCORE', dead, id)", "")),
    ),
    Build(
        "a time that is over at once",
        ((_PUSH, "tonumber(upto) > now_ms then return owner", "false then return owner"),),
    ),
)  # fmt: skip
