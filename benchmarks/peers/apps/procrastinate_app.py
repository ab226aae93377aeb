"""Procrastinate's jobs in PostgreSQL. Those of a killed worker stay there until somebody retries them."""

from __future__ import annotations

import os
from collections.abc import Sequence

from procrastinate import App, PsycopgConnector

from benchmarks.peers.jobs import ASYNC

app = App(connector=PsycopgConnector(conninfo=os.environ["PEER_POSTGRES"]))
tasks = {kind: app.task(name=kind)(job) for kind, job in ASYNC.items()}
_open: list[App] = []


async def enqueue(kind: str, times: Sequence[float]) -> None:
    """Enqueue jobs."""
    if not _open:
        await app.open_async()
        _open.append(app)
        if not await app.check_connection_async():
            await app.schema_manager.apply_schema_async()
    if len(times) == 1:
        await tasks[kind].defer_async(due=times[0])
    else:
        await tasks[kind].batch_defer_async(*({"due": due} for due in times))
