"""Which event loop the children run on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from importlib.util import find_spec

from lockwork.errors import ConfigError

LOOPS = ("uvloop", "asyncio")


def chosen(name: str | None) -> str:
    """Return the loop to use: uvloop when it is installed, unless one is asked for. Raises ConfigError."""
    installed = find_spec("uvloop") is not None
    if name is None:
        return "uvloop" if installed else "asyncio"
    if name == "uvloop" and not installed:
        raise ConfigError("uvloop is not installed here: pip install 'lockwork[fast]', or leave --loop out")
    return name


def factory(name: str) -> Callable[[], asyncio.AbstractEventLoop] | None:
    """Return what makes such a loop; None makes Python's own."""
    if name == "asyncio":
        return None
    import uvloop  # noqa: PLC0415 - an extra

    return uvloop.new_event_loop
