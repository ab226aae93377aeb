"""Jobs of flows: their arguments get the results of the jobs that they waited for."""

from __future__ import annotations

from typing import Any

from lockwork import codecs
from lockwork.protocol.queues import flows
from lockwork.protocol.queues import record_header
from lockwork.protocol.queues.leases import Leased
from lockwork.tasks.result_refs import put_in, sources
from lockwork.jobs.current import Desk

MOST_BYTES = 64 << 20
"""What the results that one job gets may have together."""


def of_flow(job: Leased) -> bool:
    """Whether the job belongs to a flow."""
    # the token of a plain job tells at once
    return b"*" in job.token and flows.is_marked(job.record)


async def call(job: Leased, desk: Desk) -> Any:
    """Return the job's call with the results that it uses; raises ValueError when one is not there."""
    stored: Any = codecs.decode(record_header.body(job.record))
    if not isinstance(stored, list) or len(stored) < 6:
        return stored
    args, kwargs, holes, optional = stored[1], stored[2], stored[4], set(stored[5])
    numbers = list(dict.fromkeys(sources(holes)))
    asked = flows.results(desk.keys, flows.flow_of(job.id), numbers, MOST_BYTES)
    blobs = await desk.runtime.arun(asked)
    if len(blobs) < len(numbers):
        raise ValueError(f"the results that it uses are more than {MOST_BYTES} bytes")
    undoes = job.id.endswith("u")
    results: dict[int, Any] = {}
    for number, blob in zip(numbers, blobs, strict=True):
        if blob[:1] == b"s":
            results[number] = codecs.decode(blob[1:])
        elif blob and (undoes or number in optional):
            results[number] = None
        else:
            known = "it is not known any more" if not blob else "it has none"
            raise ValueError(f"it uses the result of job {flows.job_id(flows.flow_of(job.id), number)}, and {known}")
    put_in(args, kwargs, holes, results)
    return stored[:4]
