"""An app with a slow hook; the tasks come from `observed`."""

from __future__ import annotations

import asyncio

from observed import lw, note  # type: ignore[import-not-found]  # beside it, when a worker runs it

from lockwork.hooks import Failed


@lw.hooks.failure  # type: ignore[untyped-decorator]  # the imported module has no types here
async def slowly(event: Failed) -> None:
    await asyncio.sleep(0.4)
    note("slowly", id=event.id, attempt=event.attempt)
