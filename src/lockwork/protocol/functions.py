"""The read-only scripts, as one library of server functions, for users who may not run scripts.

The library's name has a digest of its functions, so libraries of several versions are loaded side by side, and a call
never runs a function of another version.
"""

from __future__ import annotations

from functools import cache

from msgspec import Struct

from lockwork.hashes import sha256
from lockwork.protocol.scripts import Script, names, script

PREFIX: str = "lockwork_"
"""All names of Lockwork's libraries and functions begin with this."""


class Library(Struct, frozen=True):
    """A function library: its name, and its code for FUNCTION LOAD."""

    name: str
    code: str


@cache
def library() -> Library:
    """Return the library of this version."""
    readers = [read for read in map(script, names()) if read.declared.no_writes]
    digest = sha256("".join(f"{read.name}\n{read.source}\n" for read in readers).encode()).hexdigest()
    name = f"{PREFIX}{digest[:12]}"
    # on a Cluster, `lw.locks()` reads keys of many slots in one call
    functions = (
        f"redis.register_function{{function_name='{_function(name, read)}', "
        f"flags={{'no-writes', 'allow-cross-slot-keys'}}, callback=function(KEYS, ARGV)\n{read.source}\nend}}\n"
        for read in readers
    )
    return Library(name, f"#!lua name={name}\n{''.join(functions)}")


def function(script: Script) -> str:
    """Return the name of a script's function in this version's library."""
    return _function(library().name, script)


def _function(library: str, script: Script) -> str:
    return f"{library}_{script.name.replace('/', '_')}"
