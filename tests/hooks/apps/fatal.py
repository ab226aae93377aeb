"""An app with a hook that ends its process; the tasks come from `observed`."""

from __future__ import annotations

import os

from observed import lw, note  # type: ignore[import-not-found]  # beside it, when a worker runs it

from lockwork.hooks import Died


@lw.hooks.dead  # type: ignore[untyped-decorator]  # the imported module has no types here
def fatal(event: Died) -> None:
    note("fatal", id=event.id)
    os._exit(9)
