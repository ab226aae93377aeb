"""asyncio, imported at its first use: with TLS it takes 7 MB, and an app of `def` functions needs neither.

`from lockwork.lazy import asyncio` replaces `import asyncio` in modules that such an app imports.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

__all__ = ["asyncio", "running_loop"]


def _replace(old: object, new: object) -> None:
    """Put an object in the place of another in the modules of Lockwork."""
    for name, module in list(sys.modules.items()):
        if name.startswith("lockwork"):
            names = vars(module)
            for each in [each for each, value in list(names.items()) if value is old]:
                names[each] = new


class _Unloaded(ModuleType):
    """Stands for a module until the first use of an attribute."""

    def __getattr__(self, name: str) -> object:
        module = import_module(self.__name__)
        _replace(self, module)
        return getattr(module, name)


def _running_loop() -> object:
    module = sys.modules.get("asyncio")
    if module is None:
        return None
    # while another thread imports asyncio, the module lacks the function
    function = getattr(module, "_get_running_loop", None)
    if function is None:
        return None
    _replace(_running_loop, function)
    return function()


if TYPE_CHECKING or "asyncio" in sys.modules:
    import asyncio
    from asyncio import _get_running_loop as running_loop
else:
    asyncio = _Unloaded("asyncio")
    running_loop = _running_loop
